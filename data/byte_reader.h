// The bytes of a file, or of one in memory, in order, decompressed if they are gzip's. Internal.
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/core/base/file.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace adjoint::data {

/// A gzip file (RFC 1952) is recognised by its first bytes, not by its name. Several members are read as their
/// concatenated contents, and zeros may follow them.
class ADJOINT_API ByteReader {
 public:
  /// Throws Error, naming `op` and the path, if the file cannot be opened or is not a regular file. `op` must outlive
  /// the object.
  ByteReader(const char* op, const std::filesystem::path& path);
  /// `bytes` must outlive the object; `name` stands for the path in errors.
  ByteReader(const char* op, std::string name, std::span<const std::uint8_t> bytes);
  ~ByteReader();
  ByteReader(const ByteReader&) = delete;
  ByteReader& operator=(const ByteReader&) = delete;

  /// Reads the next `bytes` bytes, fewer only at the end. Throws Error if reading fails or gzip's data is damaged or
  /// truncated.
  std::size_t read(void* data, std::size_t bytes);
  /// Like read(), but throws Error if there are fewer. `what` names the bytes in the message.
  void read_all(void* data, std::size_t bytes, const char* what);
  /// Throws Error unless everything is read.
  void check_end();
  /// Throws Error if the file's size rules out `bytes` more, before memory is allocated.
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
  std::span<const std::uint8_t> memory_;  // the rest of it
  std::uint8_t first_[2] = {};            // read to recognise gzip
  std::size_t first_count_ = 0;           // those not yet passed on
  std::uint64_t stored_bytes_ = 0;        // in total
  std::uint64_t read_bytes_ = 0;          // handed out
  std::unique_ptr<Gzip> gzip_;            // null if the bytes are not compressed
};

}  // namespace adjoint::data
