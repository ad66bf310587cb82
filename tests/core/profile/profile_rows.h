// Shared by the tests of Profiler: its rows by name, and a trace's file.
#pragma once

#include <adjoint/core/profile/profiler.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

namespace adjoint {

inline std::optional<ProfileRow> find(const std::vector<ProfileRow>& rows, const std::string& op,
                                      const std::string& caller = "", const std::string& module = "") {
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const ProfileRow& each) {
    return each.op == op && each.caller == caller && each.module == module;
  });
  if (row == rows.end()) return {};
  return *row;
}

inline std::string names(const std::vector<ProfileRow>& rows) {
  std::string text;
  for (const ProfileRow& row : rows) text += row.caller + "/" + row.op + " in " + row.module + ": " + row.shapes + "\n";
  return text;
}

// A folder of this test's own.
class Folder {
 public:
  Folder() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::temp_directory_path() /
            (std::string("adjoint_profiler_") + test->name() + std::to_string(getpid()));
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::filesystem::path operator/(const char* name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

inline nlohmann::json read_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

}  // namespace adjoint
