#include <adjoint/data/loader_epoch.h>

#include <adjoint/core/check.h>

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
  const auto useful = std::min<std::int64_t>({options.workers, options.prefetch, batches_->count() - first});
  try {
    for (std::int64_t i = 0; i < useful; ++i) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error& error) {
    const std::size_t made = threads_.size();
    stop();
    fail("DataLoader: every worker must get a thread; got {} of {} ({}); use fewer workers", made, useful,
         error.what());
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

Made DataLoader::Epoch::make(std::int64_t number) {
  try {
    return batches_->make(number);
  } catch (...) {
    return {.error = std::current_exception()};
  }
}

void DataLoader::Epoch::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    const std::int64_t count = batches_->count();
    free_.wait(lock, [&] { return stopping_ || taken_ == count || taken_ < wanted_ + options_.prefetch; });
    if (stopping_ || taken_ == count) return;
    const std::int64_t number = taken_++;
    lock.unlock();
    Place result{.full = true, .made = make(number)};
    lock.lock();
    place_of(number) = std::move(result);
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
