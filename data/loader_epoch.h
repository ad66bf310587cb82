// The loader's threads. Workers take the pieces of batches, in order, and the one that makes a batch's last piece puts
// it together, in its place of a ring of `prefetch`; the asking thread empties the places in order. So all workers are
// at work whatever a batch's size, and the next batch comes as soon as it can. Internal.
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
    std::unique_ptr<BatchWork> work;
    std::int64_t taken = 0, left = 0;  // pieces: the next one that a worker makes, and how many are not made
    std::int64_t failed = 0;           // the first that threw, where there is an error
    std::exception_ptr error;
    bool full = false;
    Made made;
  };

  Place& place_of(std::int64_t number) { return ring_[static_cast<std::size_t>(number % options_.prefetch)]; }
  /// A place with a piece that nobody has taken; that of the next number, where it may begin; or null.
  Place* open();
  static Made finish(BatchWork& work);
  Made make(std::int64_t number);
  void work();
  void stop();

  const std::unique_ptr<BatchMaker> batches_;
  const DataLoaderOptions& options_;
  std::int64_t taken_;     // the next number that workers begin
  std::int64_t wanted_;    // the next number that is asked for; written by the asking thread alone
  std::int64_t over_ = 0;  // parts that were found to be over, one after the other
  std::vector<Place> ring_;
  Place* open_ = nullptr;  // of the number that began last, while it has pieces that nobody has taken
  bool stopping_ = false;
  std::mutex mutex_;  // guards everything that is not const
  std::condition_variable free_, made_;
  std::vector<std::thread> threads_;
};

}  // namespace adjoint::data
