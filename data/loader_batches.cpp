// Batches of a dataset. Everything random is a function of (seed, epoch, example and, with a sampler, place), so the
// assignment to threads changes nothing.
#include <adjoint/data/loader_batches.h>

#include <adjoint/core/base/check.h>
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

  std::unique_ptr<BatchWork> begin(std::int64_t number) override {
    return std::make_unique<Work>(*this, number * options_.batch_size);
  }

 private:
  // Each example is a piece.
  class Work final : public BatchWork {
   public:
    Work(const DatasetBatches& of, std::int64_t first)
        : of_(of),
          first_(first),
          examples_(of.options_,
                    std::min(of.options_.batch_size, static_cast<std::int64_t>(of.order_.size()) - first)) {}

    std::int64_t pieces() const override { return examples_.size(); }
    void make(std::int64_t piece) override {
      const std::int64_t place = first_ + piece, index = of_.order_[static_cast<std::size_t>(place)];
      Generator generator = generator_for(of_.options_.seed, of_.epoch_ + 1, index);
      // A sampler may return an example twice, with different random numbers each time.
      if (of_.options_.sampler != nullptr) generator = generator.fork(static_cast<std::uint64_t>(place) + 1);
      examples_.put(piece, fmt::format("example {}", index), generator,
                    [&] { return of_.dataset_.get(index, generator); });
    }
    Made finish() override { return std::move(examples_).batch(); }

   private:
    const DatasetBatches& of_;
    const std::int64_t first_;
    MadeExamples examples_;
  };

  const Dataset& dataset_;
  const DataLoaderOptions& options_;
  const std::int64_t epoch_;
  const std::vector<std::int64_t> order_;
};

}  // namespace

BatchWork::~BatchWork() = default;
BatchMaker::~BatchMaker() = default;

std::unique_ptr<BatchMaker> dataset_batches(const Dataset& dataset, const DataLoaderOptions& options,
                                            std::int64_t epoch) {
  return std::make_unique<DatasetBatches>(dataset, options, epoch);
}

}  // namespace adjoint::data
