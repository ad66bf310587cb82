// The server's socket, and its path in the file system.
#pragma once

#include <adjoint/core/base/file.h>

#include <string>

#include <sys/types.h>
#include <sys/un.h>

namespace serve {

/// Throws Error if the path is empty or longer than the address of a Unix socket can be (107 bytes).
sockaddr_un address_of(const std::string& path);

class Listener {
 public:
  /// Listens on a new socket at `path`. A socket there that nobody listens on any more is replaced. Throws Error,
  /// naming the path, if another server listens there, if the path names something other than a socket, which stays, or
  /// if the socket cannot be made.
  explicit Listener(std::string path);
  ~Listener() { close(); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  int get() const { return socket_.get(); }
  /// Returns the next client's connection, which does not block. It is not open if no client waits.
  adjoint::Descriptor accept() const;
  /// Removes the path, unless another socket has taken its place, and stops listening.
  void close();

 private:
  std::string path_;
  adjoint::Descriptor socket_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace serve
