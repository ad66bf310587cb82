#include "server.h"

#include <adjoint/core/base/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

namespace serve {
namespace {

using adjoint::Descriptor;
using adjoint::Error;

constexpr int kTurnMs = 100;                                 // the longest wait between two looks at stop()
constexpr rlim_t kOwnFiles = 64;                             // descriptors beside the connections
constexpr std::size_t kWake = 0, kListener = 1, kFirst = 2;  // in polled_

const ServerOptions& checked(const ServerOptions& options) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      static_cast<rlim_t>(options.connections) + kOwnFiles > limit.rlim_cur) {
    throw Error(fmt::format("serve: --connections must leave {} of the {} descriptors (ulimit -n); got {}", kOwnFiles,
                            limit.rlim_cur, options.connections));
  }
  return options;
}

std::vector<Plans> plans_for(const Network& network, const ServerOptions& options) {
  std::vector<Plans> plans;
  for (std::int64_t i = 0; i < options.threads; ++i) plans.emplace_back(network, batch_sizes(options.batch));
  return plans;
}

Clock::duration milliseconds(double count) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double, std::milli>(count));
}

}  // namespace

Server::Server(const Network& network, const ServerOptions& options)
    : options_(checked(options)),
      elements_(static_cast<std::size_t>(network.shape.numel())),
      plans_(plans_for(network, options)),
      listener_(options.socket),
      queue_(static_cast<std::size_t>(options.queue), batch_sizes(options.batch), milliseconds(options.deadline_ms)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wake_.is_open())
    throw Error(fmt::format("serve: cannot make an eventfd: {}", std::generic_category().message(errno)));
}

void Server::work(Plans& plans) {
  for (Requests batch = queue_.take(); !batch.empty(); batch = queue_.take()) {
    plans.answer(batch);
    ++batches_;
    {
      const std::lock_guard lock(mutex_);
      std::move(batch.begin(), batch.end(), std::back_inserter(finished_));
    }
    const std::uint64_t one = 1;
    static_cast<void>(::write(wake_.get(), &one, sizeof one));  // fails only if the counter is full of wake-ups
  }
}

Served Server::run(const std::function<bool()>& stop) {
  std::vector<std::jthread> workers;
  struct Closer {
    Queue& queue;
    ~Closer() { queue.close(); }  // before the workers are joined
  } const closer{queue_};
  for (Plans& plans : plans_) workers.emplace_back([this, &plans] { work(plans); });
  Clock::time_point end{};
  for (;;) {
    if (!stops_ && stop()) {
      begin_stop();
      end = Clock::now() + std::chrono::milliseconds(options_.grace_ms);
    }
    if (stops_ && (connections_.empty() || Clock::now() >= end)) break;
    wait();
    if ((polled_[kWake].revents & POLLIN) != 0) take_finished();
    if ((polled_[kListener].revents & POLLIN) != 0) accept();
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      if (polled_[kFirst + i].revents != 0) serve(ids_[i]);
    }
  }
  connections_.clear();
  served_.batches = batches_;
  return served_;
}

// Connections whose request has not arrived completely end. The others end behind their reply.
void Server::begin_stop() {
  stops_ = true;
  listener_.close();
  queue_.close();
  std::erase_if(connections_, [](const auto& item) { return item.second.request != nullptr && !item.second.writes; });
  for (auto& [id, connection] : connections_) connection.last = true;
}

void Server::wait() {
  polled_.clear();
  ids_.clear();
  const bool accepts = !stops_ && connections_.size() < static_cast<std::size_t>(options_.connections);
  polled_.push_back({wake_.get(), POLLIN, 0});
  polled_.push_back({accepts ? listener_.get() : -1, POLLIN, 0});
  for (const auto& [id, connection] : connections_) {
    // poll() would report a client that left again and again. The server learns of it when it sends the reply.
    const bool is_computed = connection.request == nullptr;
    polled_.push_back(
        {is_computed ? -1 : connection.socket.get(), static_cast<short>(connection.writes ? POLLOUT : POLLIN), 0});
    ids_.push_back(id);
  }
  if (::poll(polled_.data(), polled_.size(), kTurnMs) >= 0) return;
  const int code = errno;
  for (pollfd& one : polled_) one.revents = 0;
  if (code != EINTR) throw Error(fmt::format("serve: cannot wait: {}", std::generic_category().message(code)));
}

void Server::accept() {
  while (connections_.size() < static_cast<std::size_t>(options_.connections)) {
    Descriptor socket = listener_.accept();
    if (!socket.is_open()) return;  // nobody waits any more, or the client has left
    auto request = std::make_unique<Request>();
    request->connection = next_id_;
    request->message.resize(sizeof(RequestHeader) + elements_ * sizeof(float));
    connections_.try_emplace(next_id_++, Connection{.socket = std::move(socket), .request = std::move(request)});
  }
}

void Server::serve(std::uint64_t id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection& connection = found->second;
  if (!(connection.writes ? send(connection) : receive(connection))) connections_.erase(found);
}

bool Server::receive(Connection& connection) {
  Request& request = *connection.request;
  const ssize_t count = ::recv(connection.socket.get(), request.message.data() + connection.received,
                               request.message.size() - connection.received, 0);
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  if (count == 0) return false;
  connection.received += static_cast<std::size_t>(count);
  if (connection.received < sizeof(RequestHeader)) return true;
  RequestHeader header;
  std::memcpy(&header, request.message.data(), sizeof header);
  if (header.magic != kMagic || header.count != elements_) {
    ++served_.malformed;
    request.refuse(Status::kMalformed,
                   header.magic != kMagic
                       ? fmt::format("a request must begin with ADJ1; got {:#010x}", header.magic)
                       : fmt::format("a request must have {} elements; got {}", elements_, header.count));
    connection.last = true;
    return send(connection);
  }
  if (connection.received < request.message.size()) return true;
  request.accepted = Clock::now();
  ++served_.requests;
  if (queue_.push(connection.request)) return true;
  --served_.requests;
  ++served_.refused;
  request.refuse(Status::kBusy, fmt::format("{} requests wait already; send it again later", options_.queue));
  return send(connection);
}

bool Server::send(Connection& connection) {
  const std::vector<std::byte>& reply = connection.request->reply;
  connection.writes = true;
  while (connection.sent < reply.size()) {
    const ssize_t count = ::send(connection.socket.get(), reply.data() + connection.sent,
                                 reply.size() - connection.sent, MSG_NOSIGNAL);  // a client that left is no signal
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno == EAGAIN;
    connection.sent += static_cast<std::size_t>(count);
  }
  connection.received = connection.sent = 0;
  connection.writes = false;
  return !connection.last;
}

void Server::take_finished() {
  std::uint64_t count = 0;
  static_cast<void>(::read(wake_.get(), &count, sizeof count));
  {
    const std::lock_guard lock(mutex_);
    std::swap(taken_, finished_);
  }
  for (std::unique_ptr<Request>& request : taken_) {
    const auto found = connections_.find(request->connection);
    if (found == connections_.end()) continue;  // closed when the grace ended
    found->second.request = std::move(request);
    if (!send(found->second)) connections_.erase(found);
  }
  taken_.clear();
}

}  // namespace serve
