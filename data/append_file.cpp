#include <adjoint/data/append_file.h>

#include <adjoint/core/base/check.h>

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace adjoint::data {

AppendFile::AppendFile(const char* op, const std::filesystem::path& path, If which) : op_(op), path_(path.string()) {
  open(which == If::kNew ? O_EXCL : 0);
}

void AppendFile::open(int further_flags) {
  // Non-blocking, in case the path is a pipe.
  const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  file_.reset(::open(path_.c_str(), flags | further_flags, 0666));
  struct stat status {};
  if (!file_.is_open() || ::fstat(file_.get(), &status) != 0) fail_system("open");
  ADJOINT_CHECK(S_ISREG(status.st_mode), "{}: '{}' must be a regular file", op_, path_);
  size_ = static_cast<std::uint64_t>(status.st_size);
}

void AppendFile::append(std::string_view bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t count = ::write(file_.get(), bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      const int reason = count == 0 ? ENOSPC : errno;
      static_cast<void>(::ftruncate(file_.get(), static_cast<off_t>(size_)) == 0);  // reports the first error
      errno = reason;
      fail_system("write");
    }
    done += static_cast<std::size_t>(count);
  }
  size_ += bytes.size();
}

void AppendFile::truncate(std::uint64_t size) {
  if (::ftruncate(file_.get(), static_cast<off_t>(size)) != 0) fail_system("shorten");
  size_ = size;
}

void AppendFile::replace(std::string_view bytes) {
  AtomicFile file(op_, path_);
  file.write(bytes);
  file.commit();
  open(0);
}

void AppendFile::fail_system(const char* what) const {
  fail("{}: cannot {} '{}': {}", op_, what, path_, std::generic_category().message(errno));
}

}  // namespace adjoint::data
