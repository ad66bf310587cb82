// Whole files: reading one with a bound on its size, and replacing one so that a crash leaves the old file or the new
// one.
#pragma once

#include <adjoint/core/export.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace adjoint {

/// The bytes of a regular file. Throws Error, naming `op` and the path, where it cannot be read or holds more than
/// `max_bytes`.
ADJOINT_API std::vector<std::uint8_t> read_file(const char* op, const std::filesystem::path& path,
                                                std::uint64_t max_bytes = std::uint64_t{1} << 40);

/// A file that appears whole or not at all: bytes go to a temporary file beside it; commit() flushes them to the disk,
/// renames the file into place and flushes the folder. Destroyed before commit(), it leaves nothing behind.
class ADJOINT_API AtomicFile {
 public:
  /// Throws Error, naming `op` and the path, where the folder cannot be written to. `op` must outlive the object.
  AtomicFile(const char* op, std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends. Throws Error where the disk is full or fails.
  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// Throws Error where flushing or renaming fails; the old file is then still there.
  void commit();

 private:
  [[noreturn]] void fail_system(const char* what);

  const char* op_;
  std::filesystem::path path_;
  std::string temporary_;
  int descriptor_ = -1;
};

}  // namespace adjoint
