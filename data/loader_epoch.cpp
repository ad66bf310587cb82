#include <adjoint/data/loader_epoch.h>

#include <adjoint/core/base/check.h>

#include <algorithm>
#include <exception>
#include <system_error>
#include <utility>

namespace adjoint::data {

DataLoader::Epoch::Epoch(std::unique_ptr<BatchMaker> batches, const DataLoaderOptions& options, std::int64_t first)
    : batches_(std::move(batches)),
      options_(options),
      taken_(first),
      wanted_(first),
      ring_(static_cast<std::size_t>(options.prefetch)) {
  const std::int64_t left = batches_->count() - first, workers = options.workers;
  const std::int64_t useful = left >= workers ? workers : std::min(workers, left * options.batch_size);
  try {
    for (std::int64_t i = 0; i < useful; ++i) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error& error) {
    const std::size_t made = threads_.size();
    stop();
    fail(
        "DataLoader: every worker must get a thread; got {} of {} ({}), which ended before any batch; allow the "
        "process more threads (ulimit -u), or use fewer workers if the program has such an option",
        made, useful, error.what());
  } catch (...) {
    stop();
    throw;
  }
}

Made DataLoader::Epoch::take() {
  Made made;
  if (threads_.empty()) {
    made = make(wanted_++);
  } else {
    std::unique_lock lock(mutex_);
    Place& place = place_of(wanted_);
    made_.wait(lock, [&] { return place.full; });
    made = std::exchange(place, {}).made;
    ++wanted_;
    lock.unlock();
    free_.notify_one();
  }
  over_ = made.over ? over_ + 1 : 0;
  return made;
}

bool DataLoader::Epoch::ready() {
  const std::lock_guard lock(mutex_);
  return !threads_.empty() && place_of(wanted_).full;
}

Made DataLoader::Epoch::finish(BatchWork& work) {
  try {
    return work.finish();
  } catch (...) {
    return {.error = std::current_exception()};
  }
}

Made DataLoader::Epoch::make(std::int64_t number) {
  try {
    const std::unique_ptr<BatchWork> work = batches_->begin(number);
    for (std::int64_t piece = 0; piece < work->pieces(); ++piece) work->make(piece);
    return work->finish();
  } catch (...) {
    return {.error = std::current_exception()};
  }
}

DataLoader::Epoch::Place* DataLoader::Epoch::open() {
  while (open_ == nullptr && taken_ < batches_->count() && taken_ < wanted_ + options_.prefetch) {
    Place& place = place_of(taken_++);
    try {
      place.work = batches_->begin(taken_ - 1);
      place.left = place.work->pieces();
      open_ = &place;
    } catch (...) {
      place.made.error = std::current_exception();
      place.full = true;
      made_.notify_one();
    }
  }
  return open_;
}

void DataLoader::Epoch::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    free_.wait(lock, [&] { return stopping_ || open() != nullptr || taken_ == batches_->count(); });
    if (stopping_ || open_ == nullptr) return;
    Place& place = *open_;
    const std::int64_t piece = place.taken++;
    if (place.taken == place.work->pieces()) open_ = nullptr;
    lock.unlock();
    free_.notify_one();  // another worker makes the next piece
    std::exception_ptr error;
    try {
      place.work->make(piece);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error && (!place.error || piece < place.failed)) {
      place.error = error;
      place.failed = piece;
    }
    if (--place.left > 0) continue;
    lock.unlock();
    Made made = place.error ? Made{.error = place.error} : finish(*place.work);
    place.work.reset();
    lock.lock();
    place.made = std::move(made);
    place.full = true;
    made_.notify_one();
  }
}

void DataLoader::Epoch::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  free_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace adjoint::data
