// The loader's threads. Workers make the pieces of batches, in order. The worker that makes a batch's last piece
// assembles it, in its place of a ring of `prefetch`; the calling thread empties the places in order. This keeps all
// workers busy for every batch size, and delivers the next batch as soon as possible. Internal.
#pragma once

#include <adjoint/data/loader.h>
#include <adjoint/data/loader_batches.h>

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include <unistd.h>

namespace adjoint::data {

/// One pass through all batches, or through those from `first` on.
class DataLoader::Epoch {
 public:
  Epoch(std::unique_ptr<BatchMaker> batches, const DataLoaderOptions& options, std::int64_t first);
  ~Epoch() { stop(); }
  Epoch(const Epoch&) = delete;
  Epoch& operator=(const Epoch&) = delete;

  /// The outcome for the next number.
  Made take();
  /// Returns true if take() would not wait; never without workers.
  bool ready();
  /// The number that take() returns next.
  std::int64_t wanted() const { return wanted_; }
  /// Returns true if this process was forked from the one that has the workers, which therefore do not exist here.
  bool is_parents() const { return !threads_.empty() && process_ != ::getpid(); }
  /// Returns true if no later number has a batch.
  bool done() const { return wanted_ >= batches_->count() || over_ >= batches_->parts(); }

 private:
  struct Place {
    std::unique_ptr<BatchWork> work;
    std::int64_t taken = 0, left = 0;  // pieces: the next one to make, and the number not yet made
    std::int64_t failed = 0;           // the first piece that threw, if there is an error
    std::exception_ptr error;
    bool full = false;
    Made made;
  };

  Place& place_of(std::int64_t number) { return ring_[static_cast<std::size_t>(number % options_.prefetch)]; }
  /// A place with a piece that no worker has; or that of the next number, if it may begin; or null.
  Place* open();
  static Made finish(BatchWork& work);
  Made make(std::int64_t number);
  void work();
  void stop();

  const std::unique_ptr<BatchMaker> batches_;
  const DataLoaderOptions& options_;
  std::int64_t taken_;     // the next number that workers begin
  std::int64_t wanted_;    // the next number to deliver; only the calling thread writes it
  std::int64_t over_ = 0;  // parts that have ended, consecutively
  std::vector<Place> ring_;
  Place* open_ = nullptr;  // the place of the latest number while it has pieces that are not taken
  bool stopping_ = false;
  std::mutex mutex_;  // guards everything that is not const
  std::condition_variable free_, made_;
  std::vector<std::thread> threads_;
  const pid_t process_ = ::getpid();
};

}  // namespace adjoint::data
