// A folder of checkpoints for a test, and the warnings about them.
#pragma once

#include <adjoint/core/base/file.h>
#include <adjoint/nn/checkpoint.h>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <system_error>
#include <vector>

namespace adjoint::nn {

namespace fs = std::filesystem;

class CheckpointTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) /
              (std::string("adjoint_checkpoint_") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
    TearDown();
  }
  void TearDown() override {
    std::error_code error;
    fs::permissions(folder_, fs::perms::owner_all, error);
    fs::remove_all(folder_);
  }

  CheckpointOptions options(CheckpointOptions options = {}) {
    options.warn = [this](const std::string& message) { warnings_.push_back(message); };
    return options;
  }
  fs::path file(std::int64_t step) const { return folder_ / ("checkpoint-" + std::to_string(step) + ".safetensors"); }
  std::set<std::string> names() const {
    std::set<std::string> all;
    for (const auto& entry : fs::directory_iterator(folder_)) all.insert(entry.path().filename().string());
    return all;
  }
  // Writes file `step` anew with one byte changed, `from_end` bytes before its end.
  void damage(std::int64_t step, std::size_t from_end) {
    auto bytes = read_file("test", file(step));
    bytes.at(bytes.size() - from_end) ^= 1;
    std::ofstream(file(step), std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }

  fs::path folder_;
  std::vector<std::string> warnings_;
};

}  // namespace adjoint::nn
