// An input as a file, for readers that need a path.
#pragma once

#include "check.h"

#include <cstddef>
#include <cstdint>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

namespace adjoint::fuzz {

/// The path of a file in memory that holds the bytes until the next call.
inline const std::string& in_memory(const std::uint8_t* data, std::size_t size) {
  static const int file = ::memfd_create("file", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  check(::ftruncate(file, 0) == 0 && ::pwrite(file, data, size, 0) == static_cast<ssize_t>(size), "a file in memory");
  return path;
}

}  // namespace adjoint::fuzz
