// The requests that wait for a worker, and the rule that makes batches of them.
#pragma once

#include "protocol.h"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

namespace serve {

class Queue {
 public:
  /// `sizes`: the sizes of batches, in ascending order, the first 1. A batch is ready when the largest size waits, and
  /// when the oldest request has waited for `deadline`.
  Queue(std::size_t capacity, std::vector<std::int64_t> sizes, Clock::duration deadline);

  /// Returns false, and leaves the request to the caller, if the queue is full.
  bool push(std::unique_ptr<Request>& request);
  /// Waits for a batch, which has the largest size that the waiting requests fill. Returns an empty batch once the
  /// queue is closed and empty.
  Requests take();
  /// After this call, batches do not wait for their deadline, and `take` returns an empty batch if no request waits.
  void close();

 private:
  bool is_ready() const;

  const std::size_t capacity_;
  const std::vector<std::int64_t> sizes_;
  const Clock::duration deadline_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Request>> waiting_;
  bool closed_ = false;
};

}  // namespace serve
