// A temporary folder for benchmarks that write files.
#pragma once

#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>

#include <stdlib.h>

namespace bench {

/// Calls run(folder) with an empty folder, and removes the folder afterwards. Returns the value for main() to return: 1
/// if `run` throws, after a message that begins with `program`.
template <class Run>
int in_scratch_folder(const char* program, const Run& run) {
  std::string name = (std::filesystem::temp_directory_path() / "adjoint-bench-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) {
    std::perror(name.c_str());
    return 1;
  }
  const std::filesystem::path folder = name;
  int status = 0;
  try {
    run(folder);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", program, error.what());
    status = 1;
  }
  std::filesystem::remove_all(folder);
  return status;
}

}  // namespace bench
