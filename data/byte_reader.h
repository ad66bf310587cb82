// The bytes of a file, or of one in memory, from front to back, unpacked where they are gzip's. Internal.
#pragma once

#include <adjoint/core/export.h>
#include <adjoint/core/file.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace adjoint::data {

/// A gzip file (RFC 1952) is known by its first bytes, whatever its name; one of several members is their contents in
/// sequence.
class ADJOINT_API ByteReader {
 public:
  /// Throws Error, naming `op` and the path, for what cannot be opened or is no regular file. `op` must outlive the
  /// object.
  ByteReader(const char* op, const std::filesystem::path& path);
  /// `bytes` must outlive the object; `name` stands for the path in errors.
  ByteReader(const char* op, std::string name, std::span<const std::uint8_t> bytes);
  ~ByteReader();
  ByteReader(const ByteReader&) = delete;
  ByteReader& operator=(const ByteReader&) = delete;

  /// The next bytes: `bytes` of them, fewer only at the end. Throws Error where reading fails or gzip's data is damaged
  /// or cut short.
  std::size_t read(void* data, std::size_t bytes);
  /// As read(); throws Error, calling the bytes `what`, where there are fewer.
  void read_all(void* data, std::size_t bytes, const char* what);
  /// Throws Error unless everything is read.
  void check_end();
  /// Throws Error unless `bytes` more may be there, as far as the file's size tells; before memory is asked for.
  void check_left(std::uint64_t bytes, const char* what) const;

  const char* op() const { return op_; }
  const std::string& name() const { return name_; }

 private:
  class Gzip;
  void find_gzip();
  std::size_t read_stored(void* data, std::size_t bytes);

  const char* op_;
  std::string name_;
  std::optional<InputFile> file_;
  std::span<const std::uint8_t> memory_;  // what is left of it
  std::uint8_t first_[2] = {};            // read to tell gzip's
  std::size_t first_count_ = 0;           // of them not yet handed on
  std::uint64_t stored_bytes_ = 0;        // in all
  std::uint64_t read_bytes_ = 0;          // handed out
  std::unique_ptr<Gzip> gzip_;            // none where the bytes are as they stand
};

}  // namespace adjoint::data
