// Reading whole files; replacing files atomically with POSIX calls, because iostreams cannot flush to the disk.
#include <adjoint/core/file.h>

#include <adjoint/core/check.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace adjoint {
namespace {

std::string error_text(int number) { return std::generic_category().message(number); }

struct Descriptor {
  int value = -1;
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
};

}  // namespace

std::vector<std::uint8_t> read_file(const char* op, const std::filesystem::path& path, std::uint64_t max_bytes) {
  // Non-blocking, so that opening a named pipe does not wait for its writer.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  ADJOINT_CHECK(file.value >= 0, "{}: cannot open '{}': {}", op, path.string(), error_text(errno));
  struct stat status {};
  ADJOINT_CHECK(::fstat(file.value, &status) == 0, "{}: cannot examine '{}': {}", op, path.string(), error_text(errno));
  ADJOINT_CHECK(S_ISREG(status.st_mode), "{}: '{}' must be a regular file; got {}", op, path.string(),
                S_ISDIR(status.st_mode) ? "a folder" : "a device, pipe or socket");
  const auto size = static_cast<std::uint64_t>(status.st_size);
  ADJOINT_CHECK(size <= max_bytes, "{}: '{}' must be at most {} bytes; got {}", op, path.string(), max_bytes, size);

  std::vector<std::uint8_t> bytes(size);
  std::size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t count = ::read(file.value, bytes.data() + have, bytes.size() - have);
    if (count < 0 && errno == EINTR) continue;
    ADJOINT_CHECK(count >= 0, "{}: cannot read '{}': {}", op, path.string(), error_text(errno));
    if (count == 0) break;  // the file shrank meanwhile
    have += static_cast<std::size_t>(count);
  }
  bytes.resize(have);
  return bytes;
}

AtomicFile::AtomicFile(const char* op, std::filesystem::path path) : op_(op), path_(std::move(path)) {
  // Not mkostemp: its files are the owner's alone, and a result should be as readable as any other new file.
  static std::atomic<unsigned> count{0};
  std::string name = fmt::format("{}.{}-{}.tmp", path_.string(), ::getpid(), count.fetch_add(1));
  descriptor_ = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail_system("cannot create a file beside");
  temporary_ = std::move(name);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(const void* data, std::size_t bytes) {
  ADJOINT_ASSERT(descriptor_ >= 0, "write after commit");
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t count = ::write(descriptor_, next, bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_system("cannot write");
    next += count;
    bytes -= static_cast<std::size_t>(count);
  }
}

void AtomicFile::commit() {
  ADJOINT_ASSERT(descriptor_ >= 0, "commit after commit");
  if (::fsync(descriptor_) != 0) fail_system("cannot flush");
  const int descriptor = descriptor_;
  descriptor_ = -1;
  if (::close(descriptor) != 0) fail_system("cannot close");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail_system("cannot replace");
  temporary_.clear();
  const std::filesystem::path folder = path_.has_parent_path() ? path_.parent_path() : ".";
  const Descriptor parent{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  // Some network file systems cannot flush a folder (EINVAL); the rename has happened all the same.
  if (parent.value >= 0 && ::fsync(parent.value) != 0 && errno != EINVAL) fail_system("cannot flush the folder of");
}

void AtomicFile::fail_system(const char* what) {
  fail("{}: {} '{}': {}", op_, what, path_.string(), error_text(errno));
}

}  // namespace adjoint
