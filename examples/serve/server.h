// The server: one thread reads and writes all connections without waiting for any of them, and worker threads compute.
#pragma once

#include "listener.h"
#include "network.h"
#include "plans.h"
#include "protocol.h"
#include "queue.h"

#include <adjoint/core/base/file.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include <poll.h>

namespace serve {

struct ServerOptions {
  std::string socket;
  std::int64_t threads = 8;
  /// Requests in the largest batch.
  std::int64_t batch = 8;
  /// The longest that a request waits for others to join its batch.
  double deadline_ms = 2.0;
  /// Requests that wait at most; others are refused.
  std::int64_t queue = 64;
  /// Clients at most; others wait until one leaves.
  std::int64_t connections = 256;
  /// How long the clients may take to read their last replies when the server stops.
  std::int64_t grace_ms = 5000;
};

struct Served {
  std::int64_t requests = 0, batches = 0, refused = 0, malformed = 0;
};

class Server {
 public:
  /// Plans the network for each worker and listens. `network` must outlive the server. Throws Error for a network that
  /// cannot be planned, a socket that cannot be made, and too many connections for the process's limit of descriptors.
  Server(const Network& network, const ServerOptions& options);

  /// Serves until stop() returns true, which it asks at least ten times a second. It then removes the socket, answers
  /// the requests that it has read completely, and returns.
  Served run(const std::function<bool()>& stop);

 private:
  struct Connection {
    adjoint::Descriptor socket;
    std::unique_ptr<Request> request;  // nullptr while it waits or is computed
    std::size_t received = 0, sent = 0;
    bool writes = false;  // its reply
    bool last = false;    // closes behind its reply
  };

  void work(Plans& plans);
  void begin_stop();
  void wait();
  void accept();
  void serve(std::uint64_t id);
  // These return false if the connection must be closed.
  bool receive(Connection& connection);
  bool send(Connection& connection);
  void take_finished();

  const ServerOptions options_;
  const std::size_t elements_;  // of an input
  std::vector<Plans> plans_;    // one for each worker
  Listener listener_;
  Queue queue_;
  adjoint::Descriptor wake_;  // an eventfd, which tells of finished requests
  std::mutex mutex_;
  Requests finished_;
  std::atomic<std::int64_t> batches_ = 0;

  std::unordered_map<std::uint64_t, Connection> connections_;
  std::uint64_t next_id_ = 0;
  bool stops_ = false;
  Served served_;
  // The wake-up, the listener, and connections; their numbers. They keep their memory from turn to turn.
  std::vector<pollfd> polled_;
  std::vector<std::uint64_t> ids_;
  Requests taken_;
};

}  // namespace serve
