// Whole files: reading one with a bound on its size, and replacing one so that a crash leaves the old file or the new
// one.
#pragma once

#include <adjoint/core/base/export.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace adjoint {

/// A POSIX file descriptor, closed with it.
class ADJOINT_API Descriptor {
 public:
  explicit Descriptor(int value = -1) : value_(value) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : value_(other.release()) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return value_; }
  bool is_open() const { return value_ >= 0; }
  /// Closes its descriptor and takes over `value`.
  void reset(int value);
  /// Returns the descriptor, which the caller must close.
  int release();

 private:
  int value_;
};

/// A regular file, open for reading: its contents and its size belong to one file, even if the path changes meanwhile.
class ADJOINT_API InputFile {
 public:
  /// Throws Error, naming `op` and the path, if it cannot be opened or is not a regular file; never waits for the
  /// writer of a pipe. `op` must outlive the object.
  InputFile(const char* op, const std::filesystem::path& path);

  /// The size in bytes when the file was opened.
  std::uint64_t size() const { return size_; }
  /// Reads the next `bytes` bytes, fewer only at the end of the file. Throws Error if reading fails.
  std::size_t read(void* data, std::size_t bytes);

 private:
  const char* op_;
  std::string path_;
  Descriptor file_;
  std::uint64_t size_ = 0;
};

/// The bytes of a regular file. Throws Error, naming `op` and the path, if it cannot be read or holds more than
/// `max_bytes`.
ADJOINT_API std::vector<std::uint8_t> read_file(const char* op, const std::filesystem::path& path,
                                                std::uint64_t max_bytes = std::uint64_t{1} << 40);

/// The names in a folder, in any order, up to an error. If memory runs out it throws; libstdc++'s iterators over
/// folders would end the process.
ADJOINT_API std::vector<std::string> names_in(const std::filesystem::path& folder, std::error_code& error);

/// Creates a folder and its missing parents, durably, so that a power cut does not undo it. Throws Error, naming `op`
/// and the path, on failure.
ADJOINT_API void create_folders(const char* op, const std::filesystem::path& path);

/// A file that appears completely or not at all: bytes go to a temporary file beside it, adjoint-<numbers>.tmp;
/// commit() flushes them to the disk, renames the file into place and flushes the folder. Destroyed before commit(), it
/// leaves nothing behind.
///
/// A symbolic link stays, and its target is replaced, or created if it is missing. A replaced file passes on its mode
/// and, as far as the process may, its owner and group; its other names (hard links) keep the old bytes.
class ADJOINT_API AtomicFile {
 public:
  /// Throws Error, naming `op` and the path, before anything is changed, if the folder is not writable, or if the path
  /// names a file that must not be written or something other than a regular file. `op` must outlive the object.
  AtomicFile(const char* op, const std::filesystem::path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends. Throws Error if the disk is full or fails.
  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// Throws Error if flushing or renaming fails; the old file then still exists.
  void commit();

  /// Removes the temporary files that killed processes left in `folder`; those of active writers stay.
  static void remove_leftovers(const std::filesystem::path& folder);

 private:
  [[noreturn]] void fail_system(const char* what) const;
  void create_temporary(unsigned mode);

  const char* op_;
  std::string path_;       // as passed in
  std::string name_;       // of the file, in folder_, after following links
  std::string temporary_;  // its name in folder_; empty if there is none
  Descriptor folder_;
  Descriptor file_;
};

}  // namespace adjoint
