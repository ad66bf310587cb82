#include "client.h"

#include "listener.h"
#include "protocol.h"

#include <adjoint/core/base/error.h>
#include <adjoint/core/base/file.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/ops/join/join.h>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <sys/socket.h>

namespace serve {
namespace {

using adjoint::Error;
using adjoint::Tensor;

constexpr std::int64_t kInputs = 4, kLargestBatch = 1024;
constexpr auto kPause = std::chrono::milliseconds(1);  // behind a refusal

[[noreturn]] void fail(const char* what, const std::string& path) {
  throw Error(fmt::format("serve: cannot {} '{}': {}", what, path, std::generic_category().message(errno)));
}

struct Reply {
  ReplyHeader header;
  std::vector<std::byte> bytes;
};

class Connection {
 public:
  explicit Connection(const std::string& path)
      : path_(path), socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const sockaddr_un address = address_of(path);
    if (!socket_.is_open() ||
        ::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      fail("reach the server on", path);
  }

  void request(const std::vector<std::byte>& message, Reply& reply) {
    // A server that refuses a request closes the connection. Its reply says why.
    static_cast<void>(send(message));
    receive(&reply.header, sizeof reply.header);
    if (reply.header.magic != kMagic)
      throw Error(fmt::format("serve: a reply must begin with ADJ1; got {:#010x}", reply.header.magic));
    reply.bytes.resize(reply.header.nbytes);
    receive(reply.bytes.data(), reply.bytes.size());
  }

 private:
  bool send(const std::vector<std::byte>& message) {
    for (std::size_t sent = 0; sent < message.size();) {
      const ssize_t count = ::send(socket_.get(), message.data() + sent, message.size() - sent, MSG_NOSIGNAL);
      if (count < 0 && errno != EINTR) return false;
      sent += static_cast<std::size_t>(std::max<ssize_t>(count, 0));
    }
    return true;
  }

  void receive(void* to, std::size_t size) {
    for (std::size_t received = 0; received < size;) {
      const ssize_t count = ::recv(socket_.get(), static_cast<std::byte*>(to) + received, size - received, 0);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail("read from", path_);
      if (count == 0) throw Error(fmt::format("serve: the server on '{}' closed the connection", path_));
      received += static_cast<std::size_t>(count);
    }
  }

  const std::string& path_;
  adjoint::Descriptor socket_;
};

/// The inputs, and the network's own results for them.
class Expected {
 public:
  explicit Expected(const Network& network) : network_(network) {
    adjoint::manual_seed(2);
    for (std::int64_t i = 0; i < kInputs; ++i) {
      inputs_.push_back(Tensor::randn(network.batch_of(1)));
      const RequestHeader header{.count = static_cast<std::uint32_t>(inputs_.back().numel())};
      std::vector<std::byte>& message = messages_.emplace_back(sizeof header + inputs_.back().nbytes());
      std::memcpy(message.data(), &header, sizeof header);
      std::memcpy(message.data() + sizeof header, inputs_.back().raw_data(), inputs_.back().nbytes());
    }
  }

  const std::vector<std::byte>& message(std::size_t input) const { return messages_[input]; }

  /// Throws Error if the reply differs. A row of a batch depends on no other row, so the batch repeats the input.
  void check(std::size_t input, const Reply& reply) {
    const std::int64_t size = reply.header.batch;
    if (size < 1 || size > kLargestBatch || reply.header.row >= reply.header.batch)
      throw Error(fmt::format("serve: a reply must name its batch; got row {} of {}", reply.header.row, size));
    const Tensor result = of(input, size);
    const std::size_t nbytes = result.nbytes() / static_cast<std::size_t>(size);
    const auto* const expected = static_cast<const std::byte*>(result.raw_data()) + reply.header.row * nbytes;
    if (reply.bytes.size() != nbytes || std::memcmp(reply.bytes.data(), expected, nbytes) != 0) {
      throw Error(fmt::format("serve: replies must equal the results of {}; got other bits in row {} of {}",
                              network_.name, reply.header.row, size));
    }
  }

 private:
  Tensor of(std::size_t input, std::int64_t size) {
    const std::lock_guard lock(mutex_);
    Tensor& result = results_[{input, size}];
    if (!result.defined()) {
      std::vector<Tensor> rows(static_cast<std::size_t>(size), inputs_[input]);
      result = network_.call(adjoint::cat(rows, 0)).contiguous();
    }
    return result;
  }

  const Network& network_;
  std::vector<Tensor> inputs_;
  std::vector<std::vector<std::byte>> messages_;
  std::mutex mutex_;
  std::map<std::pair<std::size_t, std::int64_t>, Tensor> results_;
};

struct Measured {
  std::vector<float> ms;
  double batches = 0.0;
  std::int64_t refused = 0;
};

// Requests that this thread takes from those that are left.
Measured send_requests(Expected& expected, const std::string& path, std::atomic<std::int64_t>& left) {
  Measured measured;
  Connection connection(path);
  Reply reply;
  for (std::int64_t i = --left; i >= 0; i = --left) {
    const auto input = static_cast<std::size_t>(i % kInputs);
    for (;;) {
      const Clock::time_point begin = Clock::now();
      connection.request(expected.message(input), reply);
      measured.ms.push_back(std::chrono::duration<float, std::milli>(Clock::now() - begin).count());
      if (reply.header.status != Status::kBusy) break;
      measured.ms.pop_back();
      ++measured.refused;
      std::this_thread::sleep_for(kPause);
    }
    if (reply.header.status != Status::kDone) {
      throw Error(fmt::format("serve: the server refused a request: {}",
                              std::string(reinterpret_cast<const char*>(reply.bytes.data()), reply.bytes.size())));
    }
    expected.check(input, reply);
    measured.batches += 1.0 / reply.header.batch;
  }
  return measured;
}

double at(std::vector<float>& sorted, double part) {
  const auto index = static_cast<std::size_t>(part * static_cast<double>(sorted.size()));
  return sorted[std::min(index, sorted.size() - 1)];
}

}  // namespace

Report run_client(const Network& network, const ClientOptions& options) {
  Expected expected(network);
  std::atomic<std::int64_t> left = options.requests;
  std::vector<Measured> measured(static_cast<std::size_t>(options.threads));
  std::vector<std::exception_ptr> errors(measured.size());
  const Clock::time_point begin = Clock::now();
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < measured.size(); ++i) {
      threads.emplace_back([&, i] {
        try {
          measured[i] = send_requests(expected, options.socket, left);
        } catch (...) {
          errors[i] = std::current_exception();
          left = 0;
        }
      });
    }
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  std::vector<float> all;
  Report report;
  double batches = 0.0;
  for (const Measured& part : measured) {
    all.insert(all.end(), part.ms.begin(), part.ms.end());
    batches += part.batches;
    report.refused += part.refused;
  }
  std::sort(all.begin(), all.end());
  const auto count = static_cast<double>(all.size());
  report.per_second = count / seconds;
  report.median_ms = at(all, 0.5);
  report.p999_ms = at(all, 0.999);
  report.batch = count / batches;
  return report;
}

}  // namespace serve
