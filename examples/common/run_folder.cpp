#include "common/run_folder.h"

#include <adjoint/core/base/error.h>
#include <adjoint/core/distributed/world.h>

#include <fmt/format.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace examples {

namespace fs = std::filesystem;

RunFolder::RunFolder(const std::string& program, fs::path path) : program_(program), path_(std::move(path)) {
  if (path_.empty()) throw adjoint::Error(fmt::format("{}: --out must name a folder; got ''", program_));
  if (adjoint::distributed::rank() == 0) hold();
}

bool RunFolder::renew() {
  struct stat held {};
  struct stat there {};
  if (::fstat(folder_.get(), &held) == 0 && ::stat(path_.c_str(), &there) == 0 && held.st_dev == there.st_dev &&
      held.st_ino == there.st_ino)
    return false;
  hold();
  return true;
}

void RunFolder::hold() {
  const auto fail = [&](const char* what, int code) {
    throw adjoint::Error(
        fmt::format("{}: {} '{}': {}", program_, what, path_.string(), std::generic_category().message(code)));
  };
  std::error_code error;
  fs::create_directories(path_, error);
  if (error) fail("cannot make the folder", error.value());
  folder_.reset(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder_.is_open()) fail("cannot open the folder", errno);
  if (::faccessat(AT_FDCWD, path_.c_str(), W_OK | X_OK, AT_EACCESS) != 0) fail("cannot write to the folder", errno);
  // The end of the process, of any kind, releases the lock. Some network file systems have no locks; the folder is then
  // not protected.
  if (::flock(folder_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    throw adjoint::Error(
        fmt::format("{}: another training writes to '{}'; name another folder with --out", program_, path_.string()));
  adjoint::AtomicFile::remove_leftovers(path_);
}

void RunFolder::remove(const std::vector<std::string>& names) const {
  for (const std::string& name : names) fs::remove_all(path_ / name);
}

}  // namespace examples
