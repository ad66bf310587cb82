// A loader's promises about calls of a dataset: none is recorded, each has its own random numbers, and it is defined
// which of several errors is thrown.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/error.h>
#include <adjoint/data/loader.h>
#include <adjoint/data/sampler.h>
#include <adjoint/data/source.h>
#include <adjoint/tests/data/numbers.h>

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace adjoint::data {
namespace {

/// Examples that are computed from a leaf, as those of a dataset with a network in it are.
class Computed final : public Dataset, public Source {
 public:
  std::int64_t size() const override { return 4; }
  Example get(std::int64_t index, Generator&) const override {
    return {weight_ * static_cast<double>(index), weight_.detach()};
  }
  std::unique_ptr<Reader> open(std::int64_t, std::int64_t) const override { return std::make_unique<Computing>(*this); }
  Tensor moved(const Tensor& x) const { return x + weight_; }

 private:
  class Computing final : public Reader {
   public:
    explicit Computing(const Computed& of) : of_(of) {}
    std::optional<Example> next(Generator& generator) override {
      if (next_ == of_.size()) return {};
      return of_.get(next_++, generator);
    }

   private:
    const Computed& of_;
    std::int64_t next_ = 0;
  };

  Tensor weight_ = Tensor::ones({3}).requires_grad_();
};

TEST(DataLoader, RecordsNothing) {
  const Computed computed;
  const auto transform = [&](const Example& example, Generator&) {
    return Example{computed.moved(example.input), example.target};
  };
  const auto collate = [&](const std::vector<Example>& examples) {
    return Example{computed.moved(examples.front().input), {}};
  };
  for (const int workers : {0, 2}) {
    for (const bool collates : {false, true}) {
      DataLoaderOptions options{.batch_size = 2, .workers = workers, .transform = transform};
      if (collates) options.collate = collate;
      DataLoader of_dataset(static_cast<const Dataset&>(computed), options);
      DataLoader of_source(static_cast<const Source&>(computed), options);
      Tape tape;
      for (DataLoader* loader : {&of_dataset, &of_source}) {
        int batches = 0;
        for (const Example& batch : *loader) {
          EXPECT_FALSE(batch.input.requires_grad());
          ++batches;
        }
        EXPECT_EQ(batches, 2);
        EXPECT_EQ(tape.size(), 0U) << workers << " workers" << (collates ? ", collate" : "");
      }
      EXPECT_EQ(Tape::current(), &tape);
    }
  }
}

/// Gives one example again and again.
class Repeated final : public Sampler {
 public:
  std::int64_t size() const override { return 12; }
  std::vector<std::int64_t> order(std::uint64_t, std::int64_t) const override {
    return std::vector<std::int64_t>(12, 5);
  }
};

// An example that a sampler gives twice has its own random numbers each time. They follow from its place in the epoch,
// not from batches or workers.
TEST(DataLoader, RepeatedExamplesDrawByTheirPlaces) {
  const NumberedExamples numbers(6);
  const Repeated repeated;
  std::vector<float> expected;
  for (const std::int64_t size : {12, 4, 3, 1}) {
    for (const int workers : {0, 3}) {
      DataLoader loader(numbers, {.batch_size = size, .sampler = &repeated, .workers = workers, .seed = 4});
      std::vector<float> all;
      for (const auto& batch : rest_of_epoch(loader)) all.insert(all.end(), batch.begin(), batch.end());
      if (expected.empty()) expected = all;
      EXPECT_EQ(all, expected) << "batches of " << size << ", " << workers << " workers";
    }
  }
  std::set<float> drawn;
  for (std::size_t i = 0; i < expected.size(); i += 2) {
    EXPECT_EQ(expected[i], 5.0F);
    drawn.insert(expected[i + 1]);
  }
  EXPECT_EQ(drawn.size(), 12U);
}

/// Examples of a batch of two that both throw, one after the other.
class BothThrow final : public Dataset {
 public:
  explicit BothThrow(std::int64_t first) : first_(first) {}
  std::int64_t size() const override { return 2; }
  Example get(std::int64_t index, Generator&) const override {
    if (index == first_) {
      const std::lock_guard lock(mutex_);
      thrown_ = true;
      changed_.notify_all();
    } else {
      std::unique_lock lock(mutex_);
      if (!changed_.wait_for(lock, std::chrono::seconds(30), [&] { return thrown_; })) throw Error("nobody asks");
      lock.unlock();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the other's error is kept by then
    }
    throw std::runtime_error("example " + std::to_string(index) + " is broken");
  }

 private:
  std::int64_t first_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable bool thrown_ = false;
};

TEST(DataLoader, TellsABatchsFirstErrorWhicheverComesFirst) {
  for (const std::int64_t first : {0, 1}) {
    const BothThrow both(first);
    DataLoader loader(both, {.batch_size = 2, .workers = 2});
    EXPECT_EQ(message_of([&] { loader.next(); }), "example 0 is broken") << "example " << first << " threw first";
  }
  const NumberedExamples broken(4, {1, 2});  // of one batch, made in order
  for (const int workers : {0, 1}) {
    DataLoader loader(broken, {.batch_size = 4, .workers = workers});
    EXPECT_EQ(message_of([&] { loader.next(); }), "'1.png' is broken");
  }
}

}  // namespace
}  // namespace adjoint::data
