// DataLoader: its checks, its place, and the way of a batch to its device.
#include <adjoint/data/loader.h>

#include <adjoint/core/check.h>
#include <adjoint/core/tape.h>
#include <adjoint/data/example_parts.h>
#include <adjoint/data/loader_batches.h>
#include <adjoint/data/loader_epoch.h>
#include <adjoint/data/seeds.h>

#include <cstdio>
#include <utility>

namespace adjoint::data {
namespace {

void check_options(const DataLoaderOptions& options) {
  ADJOINT_CHECK(options.batch_size >= 1, "DataLoader: batch_size must be positive; got {}", options.batch_size);
  ADJOINT_CHECK(options.workers >= 0 && options.workers <= 1024, "DataLoader: workers must be from 0 to 1024; got {}",
                options.workers);
  ADJOINT_CHECK(options.prefetch >= 1 && options.prefetch <= 65536,
                "DataLoader: prefetch must be from 1 to 65536; got {}", options.prefetch);
  ADJOINT_CHECK(options.sampler == nullptr || !options.shuffle,
                "DataLoader: shuffle must be false with a sampler, which says the order; got both");
  check_enumerator("DataLoader", "OnError", options.on_error, OnError::kSkip);
}

}  // namespace

DataLoader::DataLoader(const Dataset& dataset, const DataLoaderOptions& options)
    : dataset_(dataset), options_(options) {
  const std::int64_t size = dataset.size();
  ADJOINT_CHECK(size >= 0 && size < kMaxNumber, "DataLoader: the dataset's size must be from 0 to 2^{} - 1; got {}",
                kNumberBits, size);
  check_options(options);
  const std::int64_t samples = options.sampler != nullptr ? options.sampler->size() : size;
  ADJOINT_CHECK(samples >= 0 && samples < kMaxNumber,
                "DataLoader: the sampler's size must be from 0 to 2^{} - 1; got {}", kNumberBits, samples);
  batches_ = samples / options.batch_size;
  if (!options.drop_last && samples % options.batch_size != 0) ++batches_;
}

DataLoader::~DataLoader() = default;

DataLoader::Iterator DataLoader::begin() {
  if (epoch_ != nullptr) finish_epoch();
  return Iterator(*this);
}

void DataLoader::start_epoch() {
  epoch_ = std::make_unique<Epoch>(dataset_batches(dataset_, options_, next_.epoch), options_, next_.batch);
}

std::optional<Example> DataLoader::next() {
  if (epoch_ == nullptr) start_epoch();
  try {
    while (!epoch_->done()) {
      Made made = epoch_->take();
      for (const std::string& message : made.left_out) warn(message);
      if (made.error) std::rethrow_exception(made.error);
      if (!made.batch) continue;
      if (!options_.device.is_cpu()) {
        const PauseTape pause;
        const OpScope scope("DataLoader");
        for_each_tensor(*made.batch, [&](const std::string&, Tensor& tensor) {
          if (tensor.defined()) tensor = tensor.to(options_.device);
        });
      }
      next_.batch = epoch_->wanted();
      return std::move(made.batch);
    }
  } catch (...) {
    finish_epoch();
    throw;
  }
  finish_epoch();
  return std::nullopt;
}

void DataLoader::finish_epoch() {
  epoch_.reset();
  ++next_.epoch;
  next_.batch = 0;
}

void DataLoader::warn(const std::string& message) {
  if (!warned_.insert(message).second) return;
  if (options_.warn) {
    options_.warn(message);
  } else {
    std::fprintf(stderr, "%s\n", message.c_str());
  }
}

void DataLoader::load_state(const DataLoaderState& state) {
  ADJOINT_CHECK(state.epoch >= 0 && state.epoch < (std::int64_t{1} << 23) && state.batch >= 0 &&
                    state.batch <= batches_,
                "DataLoader: a state must have epoch >= 0 and batch from 0 to {}; got epoch {}, batch {}", batches_,
                state.epoch, state.batch);
  epoch_.reset();
  next_ = state;
}

}  // namespace adjoint::data
