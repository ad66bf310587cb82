// Batches of a dataset. Everything random is a function of (seed, epoch, example and, with a sampler, place), so which
// thread does what changes nothing.
#include <adjoint/data/loader_batches.h>

#include <adjoint/core/check.h>
#include <adjoint/core/tape.h>
#include <adjoint/data/made_examples.h>
#include <adjoint/data/sampler.h>
#include <adjoint/data/seeds.h>

#include <algorithm>
#include <utility>

namespace adjoint::data {
namespace {

std::vector<std::int64_t> order_of(std::int64_t size, const DataLoaderOptions& options, std::int64_t epoch) {
  if (options.sampler == nullptr) {
    return options.shuffle ? RandomSampler(size).order(options.seed, epoch)
                           : SequentialSampler(size).order(options.seed, epoch);
  }
  std::vector<std::int64_t> order = options.sampler->order(options.seed, epoch);
  ADJOINT_CHECK(static_cast<std::int64_t>(order.size()) == options.sampler->size(),
                "DataLoader: the sampler must give size() = {} numbers; got {}", options.sampler->size(), order.size());
  for (const std::int64_t index : order) {
    ADJOINT_CHECK(index >= 0 && index < size, "DataLoader: the sampler must give numbers from 0 to {}; got {}",
                  size - 1, index);
  }
  return order;
}

class DatasetBatches final : public BatchMaker {
 public:
  DatasetBatches(const Dataset& dataset, const DataLoaderOptions& options, std::int64_t epoch)
      : dataset_(dataset), options_(options), epoch_(epoch), order_(order_of(dataset.size(), options, epoch)) {}

  std::int64_t count() const override {
    const auto size = static_cast<std::int64_t>(order_.size());
    return size / options_.batch_size + (!options_.drop_last && size % options_.batch_size != 0 ? 1 : 0);
  }

  Made make(std::int64_t number) override {
    const std::int64_t first = number * options_.batch_size;
    const std::int64_t last = first + std::min(options_.batch_size, static_cast<std::int64_t>(order_.size()) - first);
    MadeExamples examples(options_);
    for (std::int64_t place = first; place < last; ++place) {
      const std::int64_t index = order_[static_cast<std::size_t>(place)];
      Generator generator = generator_for(options_.seed, epoch_ + 1, index);
      // A sampler may give an example twice, which is not to be the same twice.
      if (options_.sampler != nullptr) generator = generator.fork(static_cast<std::uint64_t>(place) + 1);
      examples.add(fmt::format("example {}", index), generator, [&] { return dataset_.get(index, generator); });
    }
    return std::move(examples).batch();
  }

 private:
  const Dataset& dataset_;
  const DataLoaderOptions& options_;
  const std::int64_t epoch_;
  const std::vector<std::int64_t> order_;
};

}  // namespace

BatchMaker::~BatchMaker() = default;

std::unique_ptr<BatchMaker> dataset_batches(const Dataset& dataset, const DataLoaderOptions& options,
                                            std::int64_t epoch) {
  return std::make_unique<DatasetBatches>(dataset, options, epoch);
}

}  // namespace adjoint::data
