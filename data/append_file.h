// A file that only grows, for logs. Internal.
#pragma once

#include <adjoint/core/export.h>
#include <adjoint/core/file.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace adjoint::data {

class ADJOINT_API AppendFile {
 public:
  enum class If { kNew, kAny };
  /// Opens the file, made where it is missing; with If::kNew it must be. Throws Error, naming `op` and the path, for
  /// what cannot be opened or is no regular file. `op` must outlive the object.
  AppendFile(const char* op, const std::filesystem::path& path, If which);

  /// Hands all bytes to the system, or throws Error and leaves the file as it was.
  void append(std::string_view bytes);
  /// Bytes now.
  std::uint64_t size() const { return size_; }
  /// Throws Error where that fails.
  void truncate(std::uint64_t size);

 private:
  [[noreturn]] void fail_system(const char* what) const;

  const char* op_;
  std::string path_;
  Descriptor file_;
  std::uint64_t size_ = 0;
};

}  // namespace adjoint::data
