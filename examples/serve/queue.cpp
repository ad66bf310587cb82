#include "queue.h"

#include <algorithm>
#include <utility>

namespace serve {

Queue::Queue(std::size_t capacity, std::vector<std::int64_t> sizes, Clock::duration deadline)
    : capacity_(capacity), sizes_(std::move(sizes)), deadline_(deadline) {}

bool Queue::push(std::unique_ptr<Request>& request) {
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() >= capacity_) return false;
    waiting_.push_back(std::move(request));
  }
  changed_.notify_one();
  return true;
}

bool Queue::is_ready() const {
  return closed_ || static_cast<std::int64_t>(waiting_.size()) >= sizes_.back() ||
         (!waiting_.empty() && Clock::now() >= waiting_.front()->accepted + deadline_);
}

Requests Queue::take() {
  std::unique_lock lock(mutex_);
  while (!is_ready()) {
    if (waiting_.empty()) {
      changed_.wait(lock);
    } else {
      changed_.wait_until(lock, waiting_.front()->accepted + deadline_);
    }
  }
  if (waiting_.empty()) return {};
  const auto above = std::upper_bound(sizes_.begin(), sizes_.end(), static_cast<std::int64_t>(waiting_.size()));
  const auto end = waiting_.begin() + *(above - 1);
  Requests batch(std::make_move_iterator(waiting_.begin()), std::make_move_iterator(end));
  waiting_.erase(waiting_.begin(), end);
  // This thread may have taken the notifications of the requests that remain.
  if (!waiting_.empty()) changed_.notify_one();
  return batch;
}

void Queue::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
}

}  // namespace serve
