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

/// A POSIX file descriptor, closed with it.
class ADJOINT_API Descriptor {
 public:
  explicit Descriptor(int value = -1) : value_(value) {}
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return value_; }
  bool is_open() const { return value_ >= 0; }
  /// Closes what it held and takes `value` over.
  void reset(int value);
  /// The descriptor, which is the caller's to close from now on.
  int release();

 private:
  int value_;
};

/// A regular file, open for reading: what is read, and its size, are of one file, whatever its path names meanwhile.
class ADJOINT_API InputFile {
 public:
  /// Throws Error, naming `op` and the path, for what cannot be opened or is no regular file; never waits for the
  /// writer of a pipe. `op` must outlive the object.
  InputFile(const char* op, const std::filesystem::path& path);

  /// Bytes, as the file was opened.
  std::uint64_t size() const { return size_; }
  /// The next bytes: `bytes` of them, fewer only where the file ends. Throws Error where reading fails.
  std::size_t read(void* data, std::size_t bytes);

 private:
  const char* op_;
  std::string path_;
  Descriptor file_;
  std::uint64_t size_ = 0;
};

/// The bytes of a regular file. Throws Error, naming `op` and the path, where it cannot be read or holds more than
/// `max_bytes`.
ADJOINT_API std::vector<std::uint8_t> read_file(const char* op, const std::filesystem::path& path,
                                                std::uint64_t max_bytes = std::uint64_t{1} << 40);

/// Makes a folder, and those that it lies in, where they are not there, so that a power cut does not take them back.
/// Throws Error, naming `op` and the path, where that fails.
ADJOINT_API void create_folders(const char* op, const std::filesystem::path& path);

/// A file that appears whole or not at all: bytes go to a temporary file beside it, adjoint-<numbers>.tmp; commit()
/// flushes them to the disk, renames the file into place and flushes the folder. Destroyed before commit(), it leaves
/// nothing behind.
///
/// A symbolic link stays, and the file that it leads to is replaced, or made where there is none. A file that is
/// replaced hands on its mode and, as far as the process may, its owner and group; other names of it (hard links) keep
/// the old bytes.
class ADJOINT_API AtomicFile {
 public:
  /// Throws Error, naming `op` and the path, before anything is changed, where the folder cannot be written to and
  /// where the path names a file that must not be written or something other than a regular file. `op` must outlive
  /// the object.
  AtomicFile(const char* op, const std::filesystem::path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends. Throws Error where the disk is full or fails.
  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// Throws Error where flushing or renaming fails; the old file is then still there.
  void commit();

  /// Removes the temporary files that processes left in `folder` when they were killed; those of writers at work stay.
  static void remove_leftovers(const std::filesystem::path& folder);

 private:
  [[noreturn]] void fail_system(const char* what) const;
  void create_temporary(unsigned mode);

  const char* op_;
  std::string path_;       // as it was given
  std::string name_;       // of the file, in folder_, when links have been followed
  std::string temporary_;  // its name in folder_; empty where there is none
  Descriptor folder_;
  Descriptor file_;
};

}  // namespace adjoint
