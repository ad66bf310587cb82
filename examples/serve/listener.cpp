#include "listener.h"

#include <adjoint/core/base/error.h>

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace serve {
namespace {

using adjoint::Descriptor;
using adjoint::Error;

[[noreturn]] void fail(const char* what, const std::string& path, int code) {
  throw Error(fmt::format("serve: cannot {} '{}': {}", what, path, std::generic_category().message(code)));
}

Descriptor stream_socket(const std::string& path) {
  Descriptor made(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!made.is_open()) fail("make the socket", path, errno);
  return made;
}

// Its lock keeps two servers from replacing one path at a time. Some network file systems have no locks.
Descriptor locked_folder(const std::string& path) {
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (folder.empty()) folder = ".";
  Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened.is_open()) fail("open the folder of the socket", path, errno);
  while (::flock(opened.get(), LOCK_EX) != 0 && errno == EINTR) {
  }
  return opened;
}

void remove_dead(const std::string& path, const sockaddr_un& address) {
  struct stat there {};
  if (::lstat(path.c_str(), &there) != 0) {
    if (errno == ENOENT) return;
    fail("look at the socket", path, errno);
  }
  if (!S_ISSOCK(there.st_mode)) {
    throw Error(fmt::format(
        "serve: --socket must name a socket or nothing; got '{}', which is another kind of file; name another path",
        path));
  }
  const Descriptor asked = stream_socket(path);
  if (::connect(asked.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 || errno == EAGAIN)
    throw Error(fmt::format("serve: another server listens on '{}'; stop it, or name another --socket", path));
  if (errno != ECONNREFUSED) fail("replace the socket", path, errno);
  if (::unlink(path.c_str()) != 0) fail("remove the socket", path, errno);
}

}  // namespace

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    throw Error(fmt::format("serve: --socket must be a path of 1 to {} bytes; got {}: '{}'",
                            sizeof address.sun_path - 1, path.size(), path));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

Listener::Listener(std::string path) : path_(std::move(path)) {
  const sockaddr_un address = address_of(path_);
  const Descriptor folder = locked_folder(path_);
  remove_dead(path_, address);
  Descriptor socket = stream_socket(path_);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    fail("make the socket", path_, errno);
  struct stat made {};
  if (::listen(socket.get(), SOMAXCONN) != 0 || ::lstat(path_.c_str(), &made) != 0) {
    const int code = errno;
    ::unlink(path_.c_str());
    fail("listen on", path_, code);
  }
  device_ = made.st_dev;
  inode_ = made.st_ino;
  socket_.reset(socket.release());
}

Descriptor Listener::accept() const {
  return Descriptor(::accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

void Listener::close() {
  if (!socket_.is_open()) return;
  struct stat there {};
  if (::lstat(path_.c_str(), &there) == 0 && there.st_dev == device_ && there.st_ino == inode_) ::unlink(path_.c_str());
  socket_.reset(-1);
}

}  // namespace serve
