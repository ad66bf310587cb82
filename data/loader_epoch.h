// The loader's threads. Workers take batch numbers in order and put finished batches into a ring of `prefetch` places;
// the asking thread empties the places in order. Internal.
#pragma once

#include <adjoint/data/loader.h>
#include <adjoint/data/loader_batches.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace adjoint::data {

/// One run through all batches, or through those from `first` on.
class DataLoader::Epoch {
 public:
  Epoch(std::unique_ptr<BatchMaker> batches, const DataLoaderOptions& options, std::int64_t first);
  ~Epoch() { stop(); }
  Epoch(const Epoch&) = delete;
  Epoch& operator=(const Epoch&) = delete;

  /// What became of the next number.
  Made take();
  /// Whether take() returns at once; never where there are no workers.
  bool ready();
  /// The number that take() is about.
  std::int64_t wanted() const { return wanted_; }
  /// No later number has a batch.
  bool done() const { return wanted_ >= batches_->count() || over_ >= batches_->parts(); }

 private:
  struct Place {
    bool full = false;
    Made made;
  };

  Place& place_of(std::int64_t number) { return ring_[static_cast<std::size_t>(number % options_.prefetch)]; }
  Made make(std::int64_t number);
  void work();
  void stop();

  const std::unique_ptr<BatchMaker> batches_;
  const DataLoaderOptions& options_;
  std::int64_t taken_;     // the next number that a worker makes
  std::int64_t wanted_;    // the next number that is asked for; written by the asking thread alone
  std::int64_t over_ = 0;  // parts that were found to be over, one after the other
  std::vector<Place> ring_;
  bool stopping_ = false;
  std::mutex mutex_;  // guards everything that is not const
  std::condition_variable free_, made_;
  std::vector<std::thread> threads_;
};

}  // namespace adjoint::data
