// Reads whole files, and replaces files atomically with POSIX calls, because iostreams cannot flush to the disk.
#include <adjoint/core/base/file.h>

#include <adjoint/core/base/check.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <new>
#include <system_error>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace adjoint {
namespace {

constexpr std::string_view kTemporaryPrefix = "adjoint-", kTemporarySuffix = ".tmp";

namespace fs = std::filesystem;

std::string error_text(int number) { return std::generic_category().message(number); }

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

void check_name(const char* op, const fs::path& path) {
  ADJOINT_CHECK(path.native().find('\0') == std::string::npos, "{}: a path must not hold a zero byte; got '{}'", op,
                path.string());
}

// The target of `path` if its last part is a symbolic link, to a file or to nothing.
fs::path followed(const char* op, const fs::path& path) {
  constexpr int kMaxLinks = 40;  // Linux's own limit
  fs::path result = path;
  for (int i = 0; i <= kMaxLinks; ++i) {
    std::error_code error;
    if (!fs::is_symlink(fs::symlink_status(result, error))) return result;
    const fs::path target = fs::read_symlink(result, error);
    ADJOINT_CHECK(!error, "{}: cannot follow the link '{}': {}", op, path.string(), error.message());
    result = result.parent_path() / target;  // an absolute target replaces the folder
  }
  fail("{}: cannot follow the link '{}': {}", op, path.string(), error_text(ELOOP));
}

// As far as the process may. If the group changes, it gets only the permissions of others.
void hand_on_owner_and_mode(int file, const struct stat& old) {
  bool group_kept = ::fchown(file, old.st_uid, old.st_gid) == 0;
  if (!group_kept) group_kept = ::fchown(file, static_cast<uid_t>(-1), old.st_gid) == 0;
  mode_t mode = old.st_mode & 0777;  // writing to a file clears its set-id bits
  if (!group_kept) mode &= ~070U | (mode & 007U) << 3;
  static_cast<void>(::fchmod(file, mode));  // some file systems have no modes
}

}  // namespace

Descriptor::~Descriptor() { reset(-1); }

void Descriptor::reset(int value) {
  if (value_ >= 0) ::close(value_);
  value_ = value;
}

int Descriptor::release() { return std::exchange(value_, -1); }

InputFile::InputFile(const char* op, const fs::path& path) : op_(op), path_(path.string()) {
  check_name(op, path);
  // Non-blocking, so that opening a named pipe does not wait for its writer.
  file_.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  ADJOINT_CHECK(file_.is_open(), "{}: cannot open '{}': {}", op, path_, error_text(errno));
  struct stat status {};
  ADJOINT_CHECK(::fstat(file_.get(), &status) == 0, "{}: cannot examine '{}': {}", op, path_, error_text(errno));
  ADJOINT_CHECK(S_ISREG(status.st_mode), "{}: '{}' must be a regular file; got {}", op, path_, kind_of(status.st_mode));
  size_ = static_cast<std::uint64_t>(status.st_size);
}

std::size_t InputFile::read(void* data, std::size_t bytes) {
  std::size_t have = 0;
  while (have < bytes) {
    const ssize_t count = ::read(file_.get(), static_cast<char*>(data) + have, bytes - have);
    if (count < 0 && errno == EINTR) continue;
    ADJOINT_CHECK(count >= 0, "{}: cannot read '{}': {}", op_, path_, error_text(errno));
    if (count == 0) break;  // the file shrank meanwhile
    have += static_cast<std::size_t>(count);
  }
  return have;
}

std::vector<std::uint8_t> read_file(const char* op, const fs::path& path, std::uint64_t max_bytes) {
  InputFile file(op, path);
  ADJOINT_CHECK(file.size() <= max_bytes, "{}: '{}' must be at most {} bytes; got {}", op, path.string(), max_bytes,
                file.size());
  try {
    std::vector<std::uint8_t> bytes(file.size());
    bytes.resize(file.read(bytes.data(), bytes.size()));
    return bytes;
  } catch (const std::bad_alloc&) {
    throw OutOfMemoryError(
        fmt::format("{}: '{}' needs more memory than there is; got {} bytes", op, path.string(), file.size()));
  }
}

std::vector<std::string> names_in(const fs::path& folder, std::error_code& error) {
  std::vector<std::string> names;
  const auto close = [](DIR* open) { ::closedir(open); };
  const std::unique_ptr<DIR, decltype(close)> open(::opendir(folder.c_str()), close);
  errno = open == nullptr ? errno : 0;
  while (open != nullptr) {
    const dirent* const entry = ::readdir(open.get());
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
    errno = 0;
  }
  error = {errno, std::generic_category()};
  return names;
}

void create_folders(const char* op, const fs::path& path) {
  check_name(op, path);
  std::error_code error;
  if (fs::is_directory(path, error)) return;
  const fs::path parent = path.has_parent_path() ? path.parent_path() : ".";
  if (parent != path) create_folders(op, parent);
  if (!path.has_filename()) return;  // for "runs/" the parent is the folder itself
  const bool made = ::mkdir(path.c_str(), 0777) == 0 || (errno == EEXIST && fs::is_directory(path, error));
  ADJOINT_CHECK(made, "{}: cannot create the folder '{}': {}", op, path.string(), error_text(errno));
  const Descriptor folder(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.is_open()) static_cast<void>(::fsync(folder.get()));  // some file systems cannot flush a folder
}

AtomicFile::AtomicFile(const char* op, const fs::path& path) : op_(op), path_(path.string()) {
  check_name(op, path);
  struct stat old {};
  const bool exists = ::stat(path.c_str(), &old) == 0;
  if (!exists && errno != ENOENT) fail_system("cannot write");
  ADJOINT_CHECK(!exists || S_ISREG(old.st_mode), "{}: '{}' must be a regular file, or not be there; got {}", op, path_,
                kind_of(old.st_mode));
  // Renaming over a file requires only a writable folder, but whoever protected the file meant the file.
  if (exists && ::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) != 0) fail_system("cannot write");

  const fs::path target = followed(op, path);
  name_ = target.filename().string();
  ADJOINT_CHECK(!name_.empty(), "{}: the path must end in a file's name; got '{}'", op, path_);
  const fs::path folder = target.has_parent_path() ? target.parent_path() : ".";
  // Held open, so that the file is placed there even if the working folder changes; a folder that may be written to but
  // not listed cannot be flushed.
  folder_.reset(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder_.is_open() && errno == EACCES) folder_.reset(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder_.is_open()) fail_system("cannot create a file next to");
  // /proc holds links whose text is not their target.
  struct stat found {};
  ADJOINT_CHECK(!exists || (::fstatat(folder_.get(), name_.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0 &&
                            found.st_dev == old.st_dev && found.st_ino == old.st_ino),
                "{}: '{}' must lead to a file that has a name; got '{}'", op, path_, target.string());
  // The contents are never readable by users who may not read the old file.
  create_temporary(exists ? 0600 : 0666);
  if (exists) hand_on_owner_and_mode(file_.get(), old);
}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) ::unlinkat(folder_.get(), temporary_.c_str(), 0);
}

// mkostemp's files would be readable only by the owner; a result should be as readable as any other new file. The
// file's name with a suffix may be too long.
void AtomicFile::create_temporary(unsigned mode) {
  constexpr int kMaxAttempts = 1000;  // skips names that an earlier process with this number left behind
  static std::atomic<unsigned> count{0};
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    std::string name = fmt::format("{}{}-{}{}", kTemporaryPrefix, ::getpid(), count.fetch_add(1), kTemporarySuffix);
    file_.reset(::openat(folder_.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
    if (file_.is_open()) {
      temporary_ = std::move(name);
      // The lock ends with the process, so an unlocked file was left behind. If the file system has no locks, nothing
      // is locked.
      static_cast<void>(::flock(file_.get(), LOCK_EX | LOCK_NB));
      return;
    }
    if (errno != EEXIST) break;
  }
  fail_system("cannot create a file next to");
}

void AtomicFile::write(const void* data, std::size_t bytes) {
  ADJOINT_ASSERT(file_.is_open(), "write after commit");
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t count = ::write(file_.get(), next, bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_system("cannot write");
    next += count;
    bytes -= static_cast<std::size_t>(count);
  }
}

void AtomicFile::commit() {
  ADJOINT_ASSERT(file_.is_open(), "commit after commit");
  if (::fsync(file_.get()) != 0) fail_system("cannot flush");
  if (::close(file_.release()) != 0) fail_system("cannot close");
  if (::renameat(folder_.get(), temporary_.c_str(), folder_.get(), name_.c_str()) != 0) fail_system("cannot replace");
  temporary_.clear();
  // Some network file systems cannot flush a folder (EINVAL), and a folder opened only as a path cannot be flushed
  // (EBADF); the rename has happened anyway.
  if (::fsync(folder_.get()) != 0 && errno != EINVAL && errno != EBADF) fail_system("cannot flush the folder of");
}

void AtomicFile::remove_leftovers(const fs::path& folder) {
  std::error_code unreadable;  // a folder that cannot be listed keeps its contents
  for (const std::string& name : names_in(folder, unreadable)) {
    if (!name.starts_with(kTemporaryPrefix) || !name.ends_with(kTemporarySuffix)) continue;
    const fs::path path = folder / name;
    const Descriptor file(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
    if (file.is_open() && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0) ::unlink(path.c_str());
  }
}

void AtomicFile::fail_system(const char* what) const {
  const int error = errno;
  fail("{}: {} '{}': {}", op_, what, path_, error_text(error));
}

}  // namespace adjoint
