// The loader's threads. Workers take batch numbers in order and put finished batches into a ring of `prefetch` places;
// the asking thread empties the places in order. Everything random is a function of (seed, epoch, number), so which
// thread does what changes nothing.
#include <adjoint/data/loader.h>

#include <adjoint/core/check.h>
#include <adjoint/core/tape.h>

#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <numeric>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace adjoint::data {
namespace {

// Stream 0 of a seed numbers the epochs' orders; the others, one an epoch, its examples.
constexpr int kEpochShift = 40;

Generator generator_for(std::uint64_t seed, std::int64_t stream, std::int64_t number) {
  Generator source(seed);
  source.seek(static_cast<std::uint64_t>(stream) << kEpochShift | static_cast<std::uint64_t>(number));
  return Generator(source.next());
}

std::vector<std::int64_t> order_of(std::int64_t size, const DataLoaderOptions& options, std::int64_t epoch) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  if (!options.shuffle) return order;
  Generator generator = generator_for(options.seed, 0, epoch);
  for (std::size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[generator.below(i)]);  // Fisher and Yates
  return order;
}

Tensor stacked(const char* role, const std::vector<Tensor>& parts) {
  if (!parts.front().defined()) {
    for (const Tensor& part : parts) {
      ADJOINT_CHECK(!part.defined(), "DataLoader: {}s of a batch must be all defined or all undefined; got both", role);
    }
    return {};
  }
  std::vector<Tensor> packed;
  for (const Tensor& part : parts) {
    ADJOINT_CHECK(part.defined(), "DataLoader: {}s of a batch must be all defined or all undefined; got both", role);
    const Tensor& first = parts.front();
    ADJOINT_CHECK(
        part.shape() == first.shape() && part.dtype() == first.dtype(),
        "DataLoader: {}s of a batch must agree in shape and dtype; got {} {} and {} {}; crop them to one size, or use "
        "batch_size 1",
        role, first.dtype(), first.shape(), part.dtype(), part.shape());
    packed.push_back(part.detach().to(kCPU).contiguous());
  }
  Shape shape = packed.front().shape();
  shape.insert(0, static_cast<std::int64_t>(packed.size()));
  Tensor batch = Tensor::empty(shape, {.dtype = packed.front().dtype()});
  const auto bytes = static_cast<std::size_t>(packed.front().numel() * element_size(batch.dtype()));
  auto* out = static_cast<std::byte*>(batch.raw_mutable_data());
  for (std::size_t i = 0; i < packed.size() && bytes > 0; ++i)
    std::memcpy(out + i * bytes, packed[i].raw_data(), bytes);
  return batch;
}

}  // namespace

/// One run through the dataset.
class DataLoader::Epoch {
 public:
  Epoch(const Dataset& dataset, const DataLoaderOptions& options, std::int64_t batches, DataLoaderState first)
      : dataset_(dataset),
        options_(options),
        epoch_(first.epoch),
        batches_(batches),
        taken_(first.batch),
        wanted_(first.batch),
        order_(order_of(dataset.size(), options, first.epoch)),
        ring_(static_cast<std::size_t>(options.prefetch)) {
    const auto useful = std::min<std::int64_t>({options.workers, options.prefetch, batches - first.batch});
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
  ~Epoch() { stop(); }
  Epoch(const Epoch&) = delete;
  Epoch& operator=(const Epoch&) = delete;

  /// The next batch, or what its worker threw.
  Example take() {
    if (threads_.empty()) return make(wanted_++);
    std::unique_lock lock(mutex_);
    Place& place = place_of(wanted_);
    made_.wait(lock, [&] { return place.full; });
    Place result = std::exchange(place, {});
    ++wanted_;
    lock.unlock();
    free_.notify_one();
    if (result.error) std::rethrow_exception(result.error);
    return std::move(result.batch);
  }
  bool done() const { return wanted_ == batches_; }

 private:
  struct Place {
    bool full = false;
    Example batch;
    std::exception_ptr error;
  };

  Place& place_of(std::int64_t batch) { return ring_[static_cast<std::size_t>(batch % options_.prefetch)]; }

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      free_.wait(lock, [&] { return stopping_ || taken_ == batches_ || taken_ < wanted_ + options_.prefetch; });
      if (stopping_ || taken_ == batches_) return;
      const std::int64_t number = taken_++;
      lock.unlock();
      Place result{.full = true, .batch = {}, .error = {}};
      try {
        result.batch = make(number);
      } catch (...) {
        result.error = std::current_exception();
      }
      lock.lock();
      place_of(number) = std::move(result);
      made_.notify_one();
    }
  }

  Example make(std::int64_t number) const {
    const PauseTape pause;  // with no workers, the asking thread may be recording
    const std::int64_t first = number * options_.batch_size;
    const std::int64_t last = first + std::min(options_.batch_size, static_cast<std::int64_t>(order_.size()) - first);
    std::vector<Tensor> inputs, targets;
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t index = order_[static_cast<std::size_t>(i)];
      Generator generator = generator_for(options_.seed, epoch_ + 1, index);
      const GeneratorGuard guard(generator.fork(0));  // for what get() draws by Tensor::randn and its like
      Example example = dataset_.get(index, generator);
      ADJOINT_CHECK(example.input.defined(), "DataLoader: an example's input must be defined; got none from example {}",
                    index);
      inputs.push_back(std::move(example.input));
      targets.push_back(std::move(example.target));
    }
    return {stacked("input", inputs), stacked("target", targets)};
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    free_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  const Dataset& dataset_;
  const DataLoaderOptions options_;
  const std::int64_t epoch_;
  const std::int64_t batches_;
  std::int64_t taken_;   // the next batch that a worker makes
  std::int64_t wanted_;  // the next batch that is asked for; written by the asking thread alone
  const std::vector<std::int64_t> order_;
  std::vector<Place> ring_;
  bool stopping_ = false;
  std::mutex mutex_;  // guards everything that is not const
  std::condition_variable free_, made_;
  std::vector<std::thread> threads_;
};

DataLoader::DataLoader(const Dataset& dataset, const DataLoaderOptions& options)
    : dataset_(dataset), options_(options) {
  constexpr std::int64_t kMaxExamples = std::int64_t{1} << kEpochShift;
  const std::int64_t size = dataset.size();
  ADJOINT_CHECK(size >= 0 && size < kMaxExamples, "DataLoader: the dataset's size must be from 0 to 2^{} - 1; got {}",
                kEpochShift, size);
  ADJOINT_CHECK(options.batch_size >= 1, "DataLoader: batch_size must be positive; got {}", options.batch_size);
  ADJOINT_CHECK(options.workers >= 0 && options.workers <= 1024, "DataLoader: workers must be from 0 to 1024; got {}",
                options.workers);
  ADJOINT_CHECK(options.prefetch >= 1 && options.prefetch <= 65536,
                "DataLoader: prefetch must be from 1 to 65536; got {}", options.prefetch);
  batches_ = size / options.batch_size;
  if (!options.drop_last && size % options.batch_size != 0) ++batches_;
}

DataLoader::~DataLoader() = default;

DataLoader::Iterator DataLoader::begin() {
  if (epoch_ != nullptr) finish_epoch();
  return Iterator(*this);
}

std::optional<Example> DataLoader::next() {
  if (epoch_ == nullptr) epoch_ = std::make_unique<Epoch>(dataset_, options_, batches_, next_);
  if (epoch_->done()) {
    finish_epoch();
    return std::nullopt;
  }
  try {
    Example batch = epoch_->take();
    if (!options_.device.is_cpu()) {
      const PauseTape pause;
      const OpScope scope("DataLoader");
      batch.input = batch.input.to(options_.device);
      if (batch.target.defined()) batch.target = batch.target.to(options_.device);
    }
    ++next_.batch;
    return batch;
  } catch (...) {
    finish_epoch();
    throw;
  }
}

void DataLoader::finish_epoch() {
  epoch_.reset();
  ++next_.epoch;
  next_.batch = 0;
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
