// DataLoader: its checks, its position, and the copies of batches to its device.
#include <adjoint/data/loader.h>

#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/base/forked.h>
#include <adjoint/core/base/stream.h>
#include <adjoint/core/memory/pinned.h>
#include <adjoint/data/example_parts.h>
#include <adjoint/data/loader_batches.h>
#include <adjoint/data/loader_epoch.h>
#include <adjoint/data/seeds.h>

#include <algorithm>
#include <cstdio>
#include <string>
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

/// Describes the differences between the loader whose position was saved and the one that resumes; empty if they agree.
std::string difference_of(const DataLoaderState& saved, const DataLoaderState& own) {
  static constexpr const char* kOrders[] = {"by number", "shuffled", "a sampler's", "a source's"};
  const auto order = [](std::int64_t i) { return i >= 0 && i <= 3 ? kOrders[i] : "unknown"; };
  std::string all;
  const auto compare = [&](const char* what, const auto& before, const auto& now) {
    if (before != now) all += fmt::format("{}{} {} where it is {} here", all.empty() ? "" : ", ", what, before, now);
  };
  compare("batch_size", saved.batch_size, own.batch_size);
  compare(own.order == 3 ? "parts" : "examples", saved.examples, own.examples);
  compare("order", std::string(order(saved.order)), std::string(order(own.order)));
  compare("drop_last", saved.drop_last != 0, own.drop_last != 0);
  compare("seed", saved.seed, own.seed);
  return all;
}

}  // namespace

// The epoch's batch for a number, and the next number.
struct DataLoader::Taken {
  Made made;
  std::int64_t after = 0;
};

// Copies batches to a GPU in parallel with its current stream.
class DataLoader::Copies {
 public:
  explicit Copies(Device device) : device_(device) {}

  // Tensors are allocated on the current stream, so that their memory is free when that stream is done with it.
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
  // Makes later work on the current stream wait for the copies.
  void wait() {
    if (stream_) Stream::current(device_).wait(*stream_);
  }

 private:
  Device device_;
  std::optional<Stream> stream_;
};

struct DataLoader::Running {
  std::unique_ptr<Copies> copies;  // null for the CPU
  std::unique_ptr<Epoch> epoch;
  std::optional<Taken> ahead;  // the next batch, during its copy to the device
};

DataLoader::DataLoader(const Dataset* dataset, const Source* source, const DataLoaderOptions& options)
    : dataset_(dataset), source_(source), options_(options), running_(new Running) {
  next_.batch_size = options.batch_size;
  next_.order = source != nullptr ? 3 : options.sampler != nullptr ? 2 : options.shuffle ? 1 : 0;
  next_.drop_last = options.drop_last ? 1 : 0;
  next_.seed = options.seed;
  if (!options.device.is_cpu()) running_->copies = std::make_unique<Copies>(options.device);
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
  next_.examples = samples;
  batches_ = samples / options.batch_size;
  if (!options.drop_last && samples % options.batch_size != 0) ++batches_;
}

DataLoader::DataLoader(const Source& source, const DataLoaderOptions& options) : DataLoader(nullptr, &source, options) {
  check_options(options);
  ADJOINT_CHECK(!options.shuffle && options.sampler == nullptr,
                "DataLoader: a source has its own order; got {}; let the source shuffle",
                options.shuffle ? "shuffle" : "a sampler");
  constexpr std::int64_t kMostParts = 1 << 20;
  ADJOINT_CHECK(source.parts() >= 1 && source.parts() <= kMostParts,
                "DataLoader: the source's parts must be from 1 to {}; got {}", kMostParts, source.parts());
  ADJOINT_CHECK(options.batch_size < kMaxNumber, "DataLoader: batch_size must be below 2^{}; got {}", kNumberBits,
                options.batch_size);
  next_.examples = source.parts();
  batches_ = kMaxNumber;
}

DataLoader::~DataLoader() { leave_parents_epoch(); }

std::int64_t DataLoader::size() const {
  ADJOINT_CHECK(source_ == nullptr, "DataLoader: a source's batches cannot be counted; got size() of one with {} parts",
                source_->parts());
  return batches_;
}

// An epoch that began in this process's parent has no threads here. Neither its locks nor its end may be waited for, so
// it is abandoned.
bool DataLoader::leave_parents_epoch() {
  if (running_->epoch == nullptr || !running_->epoch->is_parents()) return false;
  leave_to_parent(std::move(running_->epoch));
  running_->ahead.reset();
  return true;
}

DataLoader::Iterator DataLoader::begin() & {
  leave_parents_epoch();
  if (running_->epoch != nullptr) finish_epoch();
  return Iterator(*this);
}

DataLoader::Taken DataLoader::take() {
  if (running_->ahead) return *std::exchange(running_->ahead, std::nullopt);
  Made made = running_->epoch->take();
  return {std::move(made), running_->epoch->wanted()};
}

// Starts the copy of the next batch if that batch is made. If there is no memory for it, it waits for its turn.
void DataLoader::prepare() {
  Running& running = *running_;
  if (running.epoch->done() || !running.epoch->ready()) return;
  running.ahead = take();
  try {
    if (running.ahead->made.batch) running.copies->start(*running.ahead->made.batch);
  } catch (const OutOfMemoryError&) {
  }
}

std::optional<Example> DataLoader::next() {
  ADJOINT_CHECK(
      !leave_parents_epoch(),
      "DataLoader: an epoch must continue in the process in which it began, which has its workers; got one that "
      "was forked from it meanwhile; fork between epochs, or set workers to 0");
  std::unique_ptr<Epoch>& epoch = running_->epoch;
  if (epoch == nullptr) {
    auto batches = source_ != nullptr ? source_batches(*source_, options_, next_.epoch, next_.batch)
                                      : dataset_batches(*dataset_, options_, next_.epoch);
    epoch = std::make_unique<Epoch>(std::move(batches), options_, next_.batch);
  }
  try {
    while (running_->ahead || !epoch->done()) {
      Taken taken = take();
      for (const std::string& message : taken.made.left_out) warn(message);
      if (taken.made.error) std::rethrow_exception(taken.made.error);
      if (!taken.made.batch) continue;
      if (Copies* const copies = running_->copies.get(); copies != nullptr) {
        copies->start(*taken.made.batch);
        copies->wait();
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

void DataLoader::end_epoch() {
  running_->ahead.reset();
  running_->epoch.reset();
}

void DataLoader::finish_epoch() {
  end_epoch();
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

// The batch with the first example that was not delivered, for a loader whose batches may have another size.
std::int64_t DataLoader::batch_of(const DataLoaderState& saved) const {
  const std::int64_t parts = source_ != nullptr ? source_->parts() : 1;
  std::int64_t examples = 0;  // delivered, of each part
  ADJOINT_CHECK(!__builtin_mul_overflow(saved.batch / parts, saved.batch_size, &examples),
                "DataLoader: a state must be of fewer than 2^63 examples; got batch {} of {}", saved.batch,
                saved.batch_size);
  return std::min(examples / options_.batch_size * parts, batches_);
}

void DataLoader::load_state(const DataLoaderState& state, const LoadStateOptions& options) {
  DataLoaderState place = next_;
  place.epoch = state.epoch;
  place.batch = state.batch;
  if (state.batch_size != 0) {
    ADJOINT_CHECK(state.batch_size > 0 && state.batch >= 0,
                  "DataLoader: a state must have a positive batch_size and no negative batch; got {} and {}",
                  state.batch_size, state.batch);
    const std::string difference = difference_of(state, next_);
    ADJOINT_CHECK(difference.empty() || !options.strict,
                  "DataLoader: a state must be of a loader with the same examples in the same batches; got {}; make "
                  "the loader in the same way, or set .strict = false to resume nevertheless",
                  difference);
    ADJOINT_CHECK(source_ == nullptr || (state.order == next_.order && state.examples == next_.examples),
                  "DataLoader: a source can only resume one with as many parts; got {}", difference);
    if (state.batch_size != next_.batch_size) place.batch = batch_of(state);
    if (!difference.empty()) place.batch = std::min(place.batch, batches_);
  }
  ADJOINT_CHECK(place.epoch >= 0 && place.epoch < (std::int64_t{1} << 23) && place.batch >= 0 &&
                    place.batch <= batches_,
                "DataLoader: a state must have epoch >= 0 and batch from 0 to {}; got epoch {}, batch {}", batches_,
                place.epoch, place.batch);
  leave_parents_epoch();
  end_epoch();
  next_ = place;
}

}  // namespace adjoint::data
