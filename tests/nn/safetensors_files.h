// Files in the safetensors format that tests assemble byte by byte, in a temporary folder.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace adjoint::nn {

namespace fs = std::filesystem;

class SafetensorsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) /
              (std::string("adjoint_safetensors_") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path write(const std::string& bytes) const {
    const fs::path path = folder_ / "written.safetensors";
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  std::ptrdiff_t entries() const { return std::distance(fs::directory_iterator(folder_), fs::directory_iterator()); }

  fs::path folder_;
};

inline std::string file_of(const std::string& header, const std::string& data, std::uint64_t length) {
  std::string bytes(sizeof(length), '\0');
  std::memcpy(bytes.data(), &length, sizeof(length));
  return bytes + header + data;
}
inline std::string file_of(const std::string& header, const std::string& data) {
  return file_of(header, data, header.size());
}

std::string raw(const auto&... values) {
  std::string bytes;
  (bytes.append(reinterpret_cast<const char*>(&values), sizeof(values)), ...);
  return bytes;
}

// A file of "a" and "z", float32, with `foreign` between them.
inline std::string file_with(const std::string& dtype, const std::string& bytes, std::size_t count) {
  const std::size_t end = 4 + bytes.size();
  const std::string header = fmt::format(
      R"({{"a":{{"dtype":"F32","shape":[1],"data_offsets":[0,4]}},"m":{{"dtype":"{}","shape":[{}],"data_offsets":[4,{}]}},)"
      R"("z":{{"dtype":"F32","shape":[],"data_offsets":[{},{}]}}}})",
      dtype, count, end, end, end + 4);
  return file_of(header, raw(1.5F) + bytes + raw(2.5F));
}

}  // namespace adjoint::nn
