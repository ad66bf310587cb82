// DataLoader: its checks, its place, and the way of a batch to its device.
#include <adjoint/data/loader.h>

#include <adjoint/core/check.h>
#include <adjoint/core/pinned.h>
#include <adjoint/core/stream.h>
#include <adjoint/core/tape.h>
#include <adjoint/data/example_parts.h>
#include <adjoint/data/loader_batches.h>
#include <adjoint/data/loader_epoch.h>
#include <adjoint/data/seeds.h>

#include <cstdio>
#include <utility>
#include <vector>

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

// What the epoch gave for a number, and the number behind it.
struct DataLoader::Taken {
  Made made;
  std::int64_t after = 0;
};

// Brings batches to a GPU beside what its current stream does.
class DataLoader::Copies {
 public:
  explicit Copies(Device device) : device_(device) {}

  // Tensors are made on the current stream, so that their memory is free when that stream is done with it.
  void start(Example& batch) {
    const PauseTape pause;
    const OpScope scope("DataLoader");
    std::vector<std::pair<Tensor*, Tensor>> moved;
    for_each_tensor(batch, [&](const std::string&, Tensor& tensor) {
      if (!tensor.defined() || tensor.device() == device_) return;
      moved.emplace_back(&tensor, Tensor::empty(tensor.shape(), {.dtype = tensor.dtype(), .device = device_}));
    });
    if (moved.empty()) return;
    if (!stream_) stream_ = Stream::create(device_);
    stream_->wait(Stream::current(device_));
    const StreamGuard guard(*stream_);
    for (auto& [tensor, target] : moved) {
      copy_async(*tensor, target);
      *tensor = std::move(target);
    }
  }
  // What the current stream is given from here on finds the batches there.
  void wait() {
    if (stream_) Stream::current(device_).wait(*stream_);
  }

 private:
  Device device_;
  std::optional<Stream> stream_;
};

DataLoader::DataLoader(const Dataset* dataset, const Source* source, const DataLoaderOptions& options)
    : dataset_(dataset), source_(source), options_(options) {
  if (!options.device.is_cpu()) copies_ = std::make_unique<Copies>(options.device);
}

DataLoader::DataLoader(const Dataset& dataset, const DataLoaderOptions& options)
    : DataLoader(&dataset, nullptr, options) {
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

DataLoader::DataLoader(const Source& source, const DataLoaderOptions& options) : DataLoader(nullptr, &source, options) {
  check_options(options);
  ADJOINT_CHECK(!options.shuffle && options.sampler == nullptr,
                "DataLoader: a source gives its own order; got {}; shuffle where it is read",
                options.shuffle ? "shuffle" : "a sampler");
  constexpr std::int64_t kMostParts = 1 << 20;
  ADJOINT_CHECK(source.parts() >= 1 && source.parts() <= kMostParts,
                "DataLoader: the source's parts must be from 1 to {}; got {}", kMostParts, source.parts());
  ADJOINT_CHECK(options.batch_size < kMaxNumber, "DataLoader: batch_size must be below 2^{}; got {}", kNumberBits,
                options.batch_size);
  batches_ = kMaxNumber;
}

DataLoader::~DataLoader() = default;

std::int64_t DataLoader::size() const {
  ADJOINT_CHECK(source_ == nullptr, "DataLoader: a source's batches cannot be counted; got size() of one with {} parts",
                source_->parts());
  return batches_;
}

DataLoader::Iterator DataLoader::begin() {
  if (epoch_ != nullptr) finish_epoch();
  return Iterator(*this);
}

std::unique_ptr<DataLoader::Epoch> DataLoader::make_epoch() const {
  auto batches = source_ != nullptr ? source_batches(*source_, options_, next_.epoch, next_.batch)
                                    : dataset_batches(*dataset_, options_, next_.epoch);
  return std::make_unique<Epoch>(std::move(batches), options_, next_.batch);
}

DataLoader::Taken DataLoader::take() {
  if (ahead_ != nullptr) return std::move(*std::exchange(ahead_, nullptr));
  Made made = epoch_->take();
  return {std::move(made), epoch_->wanted()};
}

// Sends the batch behind on its way, if it is made. Where there is no memory for it, it waits for its turn.
void DataLoader::prepare() {
  if (epoch_->done() || !epoch_->ready()) return;
  ahead_ = std::make_unique<Taken>(take());
  try {
    if (ahead_->made.batch) copies_->start(*ahead_->made.batch);
  } catch (const OutOfMemoryError&) {
  }
}

std::optional<Example> DataLoader::next() {
  if (epoch_ == nullptr) epoch_ = make_epoch();
  try {
    while (ahead_ != nullptr || !epoch_->done()) {
      Taken taken = take();
      for (const std::string& message : taken.made.left_out) warn(message);
      if (taken.made.error) std::rethrow_exception(taken.made.error);
      if (!taken.made.batch) continue;
      if (copies_ != nullptr) {
        copies_->start(*taken.made.batch);
        copies_->wait();
        prepare();
      }
      next_.batch = taken.after;
      return std::move(taken.made.batch);
    }
  } catch (...) {
    finish_epoch();
    throw;
  }
  finish_epoch();
  return std::nullopt;
}

void DataLoader::finish_epoch() {
  ahead_.reset();
  epoch_.reset();
  ++next_.epoch;
  next_.batch = 0;
}

void DataLoader::warn(const std::string& message) {
  if (std::find(warned_.begin(), warned_.end(), message) != warned_.end()) return;
  warned_.push_back(message);
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
  ahead_.reset();
  epoch_.reset();
  next_ = state;
}

}  // namespace adjoint::data
