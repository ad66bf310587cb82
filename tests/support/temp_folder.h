// TempFolder: a test with a temporary folder, which is removed with it.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <stdexcept>
#include <string>

#include <stdlib.h>

namespace adjoint::testing {

class TempFolder : public ::testing::Test {
 protected:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "adjoint-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make a folder in " + name);
    folder = name;
  }
  ~TempFolder() override {
    std::error_code left;  // a test that fails may leave a folder that cannot be read
    std::filesystem::remove_all(folder, left);
  }

  std::filesystem::path folder;
};

}  // namespace adjoint::testing
