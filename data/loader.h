// DataLoader: batches of a Dataset or a Source, made ahead of time by worker threads, in an order that a seed
// determines.
#pragma once

#include <adjoint/core/base/device.h>
#include <adjoint/core/base/export.h>
#include <adjoint/core/base/owned.h>
#include <adjoint/core/tensor/named_tensors.h>
#include <adjoint/data/dataset.h>
#include <adjoint/data/sampler.h>
#include <adjoint/data/source.h>

#include <cstdint>
#include <functional>
#include <iterator>
#include <optional>
#include <string>

namespace adjoint::data {

/// Changes an example as the loader gets it. Several threads may call it concurrently; see Dataset::get about
/// randomness.
using Transform = std::function<Example(const Example& example, Generator& generator)>;

/// The reaction to an example that cannot be read because the dataset, the source or the transform throws.
enum class OnError : std::uint8_t {
  kError,  ///< Rethrows the exception, in its batch's turn.
  kSkip,   ///< Makes the batch without the example; .warn gets a message once. Lack of memory is rethrown.
};

struct DataLoaderOptions {
  std::int64_t batch_size = 1;
  /// If true, each epoch has a new order; otherwise examples come by number.
  bool shuffle = false;
  /// The examples of an epoch and their order, in place of .shuffle; must outlive the loader.
  const Sampler* sampler = nullptr;
  /// Drop the last batch if it is not full.
  bool drop_last = false;
  /// Worker threads; 0 makes each batch on request, on the calling thread.
  int workers = 2;
  /// The most batches made ahead of the one in use.
  std::int64_t prefetch = 4;
  /// Determines the order and every example's random numbers. The number of workers and `prefetch` change neither.
  std::uint64_t seed = 0;
  /// The device of the batches. Copies to a GPU come from page-locked memory, on the loader's own stream: if the next
  /// batch is ready, it is copied while the current one is used. Results are ordered with the current stream.
  Device device = kCPU;
  /// Changes every example. If empty, examples do not change.
  Transform transform = {};
  /// Makes a batch of its examples. If empty, stack_examples does.
  Collate collate = {};
  OnError on_error = OnError::kError;
  /// Receives messages about examples that were left out, one line each; if empty, they go to stderr.
  std::function<void(const std::string& message)> warn = {};
};

/// A position in a loader's sequence of batches: the next one is batch `batch` of epoch `epoch`, both counted from 0.
struct DataLoaderState {
  std::int64_t epoch = 0;
  std::int64_t batch = 0;

  // ---- Properties of the loader whose place it is, so that other loaders can refuse it. A batch_size of 0 is not
  // checked, as in a place that a program composes itself.

  std::int64_t batch_size = 0;
  std::int64_t examples = 0;   // per epoch; for a source its parts
  std::int64_t order = 0;      // 0: by number, 1: shuffled, 2: a sampler's, 3: a source's
  std::int64_t drop_last = 0;  // 1 if it was set
  std::uint64_t seed = 0;

  /// The same position.
  friend bool operator==(const DataLoaderState& a, const DataLoaderState& b) {
    return a.epoch == b.epoch && a.batch == b.batch;
  }
};

/// Iterates over a dataset or a source, one epoch at a time:
///
///     DataLoader loader(dataset, {.batch_size = 16, .shuffle = true});
///     for (int epoch = 0; epoch < 10; ++epoch) {
///       for (const auto& [low, high] : loader) ...
///     }
///
/// Each range-for is one epoch, and increments the epoch's number even if the last one did not end. Exceptions of a
/// worker are rethrown here, in their batch's turn, and end the epoch. Used by one thread at a time.
class ADJOINT_API DataLoader {
 public:
  class Iterator;

  /// `dataset` must outlive the loader. Throws Error for options out of range, naming the option.
  explicit DataLoader(const Dataset& dataset, const DataLoaderOptions& options = {});
  explicit DataLoader(const Dataset&& dataset, const DataLoaderOptions& options = {}) = delete;
  /// The same for a source, which has its own order: .shuffle and .sampler are errors. The last batch of each part may
  /// not be full.
  explicit DataLoader(const Source& source, const DataLoaderOptions& options = {});
  explicit DataLoader(const Source&& source, const DataLoaderOptions& options = {}) = delete;
  /// Stops the workers, even in the middle of an epoch.
  ~DataLoader();
  DataLoader(const DataLoader&) = delete;
  DataLoader& operator=(const DataLoader&) = delete;

  /// Batches per epoch. Throws Error for a source, whose end is unknown in advance.
  std::int64_t size() const;

  /// Starts the next epoch (after load_state, the rest of the epoch given there).
  Iterator begin() &;
  std::default_sentinel_t end() const { return {}; }

  /// The next batch of the current epoch, or the first of the next epoch if there is no current one; empty, once, at an
  /// epoch's end. Tensors are stacked along a new first axis (see stack_examples), or as .collate does.
  std::optional<Example> next();

  /// The position from which to resume: after load_state of a loader with the same dataset, options and seed, the same
  /// batches follow as would have followed here.
  DataLoaderState state() const { return next_; }
  /// Throws Error, and keeps its position, for a position that this loader does not have, and if the loader that saved
  /// it differs: the Error names batch_size, examples, order, drop_last or seed. Without .strict the loader continues
  /// in its own epoch, with the batch that holds the first example that was not delivered there: examples may repeat,
  /// but no example is lost. A source with another number of parts has no such batch, which is an Error.
  void load_state(const DataLoaderState& state, const LoadStateOptions& options = {});

 private:
  class Epoch;
  class Copies;
  struct Taken;
  struct Running;
  DataLoader(const Dataset* dataset, const Source* source, const DataLoaderOptions& options);
  Taken take();
  void prepare();
  std::int64_t batch_of(const DataLoaderState& saved) const;
  bool leave_parents_epoch();
  void finish_epoch();
  void end_epoch();
  void warn(const std::string& message);

  const Dataset* dataset_;  // null for a source
  const Source* source_;
  const DataLoaderOptions options_;
  std::int64_t batches_ = 0;
  DataLoaderState next_;
  std::vector<std::string> warned_;
  const Owned<Running> running_;  // the current epoch
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
    current_.reset();  // frees the batch's memory before the next one is copied to its device
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
