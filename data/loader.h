// DataLoader: batches of a Dataset or a Source, made ahead of time by worker threads, in an order that a seed fixes.
#pragma once

#include <adjoint/core/device.h>
#include <adjoint/core/export.h>
#include <adjoint/data/dataset.h>
#include <adjoint/data/sampler.h>
#include <adjoint/data/source.h>

#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>

namespace adjoint::data {

/// Changes an example as the loader gets it. Called from several threads at once; see Dataset::get about randomness.
using Transform = std::function<Example(const Example& example, Generator& generator)>;

/// What happens where an example cannot be read: where the dataset, the source or the transform throws.
enum class OnError : std::uint8_t {
  kError,  ///< What was thrown is rethrown, in its batch's turn.
  kSkip,   ///< The batch goes without the example; .warn hears of it once. Lack of memory is rethrown.
};

struct DataLoaderOptions {
  std::int64_t batch_size = 1;
  /// A new order every epoch; else by number.
  bool shuffle = false;
  /// Which examples an epoch has, in which order, in place of .shuffle; must outlive the loader.
  const Sampler* sampler = nullptr;
  /// Leave out a last batch that is not full.
  bool drop_last = false;
  /// Worker threads; 0 makes each batch when it is asked for, on the asking thread.
  int workers = 2;
  /// Batches made ahead of the one in use, at most.
  std::int64_t prefetch = 4;
  /// Fixes the order and every example's random numbers. The number of workers and `prefetch` change neither.
  std::uint64_t seed = 0;
  /// Where batches are handed over. To a GPU they go from page-locked memory, on a stream of the loader's own: while
  /// a batch is used, the next one is on its way, if it is made. Results come in the order of the current stream.
  Device device = kCPU;
  /// Changes every example; none leaves it as it is.
  Transform transform = {};
  /// Makes a batch of its examples; stack_examples where it is empty.
  Collate collate = {};
  OnError on_error = OnError::kError;
  /// Gets messages on examples that are left out, a line each; else they go to stderr.
  std::function<void(const std::string& message)> warn = {};
};

/// A place in a loader's sequence of batches: the next one is batch `batch` of epoch `epoch`, both counted from 0.
struct DataLoaderState {
  std::int64_t epoch = 0;
  std::int64_t batch = 0;
  friend bool operator==(const DataLoaderState&, const DataLoaderState&) = default;
};

/// Runs through a dataset or a source, an epoch at a time:
///
///     DataLoader loader(dataset, {.batch_size = 16, .shuffle = true});
///     for (int epoch = 0; epoch < 10; ++epoch) {
///       for (const auto& [low, high] : loader) ...
///     }
///
/// Each range-for is one epoch, the next one's number higher by one, whether or not the last ran to its end. What a
/// worker throws is rethrown here, in its batch's turn, and ends the epoch. Used by one thread at a time.
class ADJOINT_API DataLoader {
 public:
  class Iterator;

  /// `dataset` must outlive the loader. Throws Error for options out of range, naming the option.
  explicit DataLoader(const Dataset& dataset, const DataLoaderOptions& options = {});
  /// Likewise of a source, whose order is its own: .shuffle and .sampler are errors. The last batch of each part may
  /// not be full.
  explicit DataLoader(const Source& source, const DataLoaderOptions& options = {});
  /// Stops the workers, in the middle of an epoch too.
  ~DataLoader();
  DataLoader(const DataLoader&) = delete;
  DataLoader& operator=(const DataLoader&) = delete;

  /// Batches an epoch. Throws Error for a source, whose end nobody knows before it comes.
  std::int64_t size() const;

  /// Starts the next epoch (after load_state, the rest of the epoch given there).
  Iterator begin();
  std::default_sentinel_t end() const { return {}; }

  /// The next batch of the epoch under way, beginning the next one where none is; none, once, at an epoch's end.
  /// Tensors are stacked along a new first axis (see stack_examples), or as .collate does.
  std::optional<Example> next();

  /// Where to go on: handed to load_state of a loader with the same dataset, options and seed, the batches that follow
  /// are the ones that would have followed here.
  DataLoaderState state() const { return next_; }
  /// Throws Error for a place that this loader does not have.
  void load_state(const DataLoaderState& state);

 private:
  class Epoch;
  class Copies;
  struct Taken;
  DataLoader(const Dataset* dataset, const Source* source, const DataLoaderOptions& options);
  std::unique_ptr<Epoch> make_epoch() const;
  Taken take();
  void prepare();
  void finish_epoch();
  void warn(const std::string& message);

  const Dataset* dataset_;  // null where there is a source
  const Source* source_;
  const DataLoaderOptions options_;
  std::int64_t batches_ = 0;
  DataLoaderState next_;
  std::vector<std::string> warned_;
  std::unique_ptr<Copies> copies_;  // null for the CPU
  std::unique_ptr<Epoch> epoch_;    // what is under way
  std::unique_ptr<Taken> ahead_;    // the batch behind, on its way to the device
};

/// A single-pass input iterator.
class DataLoader::Iterator {
 public:
  using value_type = Example;
  using difference_type = std::ptrdiff_t;
  using iterator_concept = std::input_iterator_tag;

  explicit Iterator(DataLoader& loader) : loader_(&loader), current_(loader.next()) {}
  Iterator(Iterator&&) = default;
  Iterator& operator=(Iterator&&) = default;

  const Example& operator*() const { return *current_; }
  const Example* operator->() const { return &*current_; }
  Iterator& operator++() {
    current_.reset();  // the batch's memory is free before the next one is moved to its device
    current_ = loader_->next();
    return *this;
  }
  void operator++(int) { ++*this; }
  friend bool operator==(const Iterator& it, std::default_sentinel_t) { return !it.current_.has_value(); }

 private:
  DataLoader* loader_;
  std::optional<Example> current_;
};

}  // namespace adjoint::data
