// A file that only grows, for logs. Internal.
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/core/base/file.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace adjoint::data {

class ADJOINT_API AppendFile {
 public:
  enum class If { kNew, kAny };
  /// Opens the file and creates it if it is missing; with If::kNew it must be missing. Throws Error, naming `op` and
  /// the path, if it cannot be opened or is not a regular file. `op` must outlive the object.
  AppendFile(const char* op, const std::filesystem::path& path, If which);

  /// Passes all bytes to the system, or throws Error and leaves the file unchanged.
  void append(std::string_view bytes);
  /// The current size in bytes.
  std::uint64_t size() const { return size_; }
  /// Throws Error on failure.
  void truncate(std::uint64_t size);
  /// Replaces the file by one with other bytes, completely or not at all, and continues behind them. On failure throws
  /// Error and leaves the file unchanged.
  void replace(std::string_view bytes);

 private:
  void open(int further_flags);
  [[noreturn]] void fail_system(const char* what) const;

  const char* op_;
  std::string path_;
  Descriptor file_;
  std::uint64_t size_ = 0;
};

}  // namespace adjoint::data
