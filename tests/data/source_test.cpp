// Streaming datasets: the order for any number of workers, resuming in the middle, ends, and errors.
#include <adjoint/core/base/error.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/data/loader.h>
#include <adjoint/data/source.h>

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace adjoint::data {
namespace {

/// Part p has lengths[p] examples: (p, place, two random numbers).
class Numbered final : public Source {
 public:
  explicit Numbered(std::vector<std::int64_t> lengths) : lengths_(std::move(lengths)) {}

  class NumberedReader final : public Reader {
   public:
    NumberedReader(const Numbered& source, std::int64_t part) : source_(source), part_(part) {}
    std::optional<Example> next(Generator& generator) override {
      if (place_ >= source_.lengths_[static_cast<std::size_t>(part_)]) return {};
      const std::int64_t place = place_++;
      if (source_.uneven_delays) std::this_thread::sleep_for(std::chrono::microseconds((place * 7919 + part_) % 300));
      if (part_ == source_.faulty_part && place == source_.faulty_place) throw std::runtime_error("a broken record");
      const Tensor drawn = Tensor::rand({1}, {.dtype = kFloat64});
      return Example{Tensor::from_vector<double>({static_cast<double>(part_), static_cast<double>(place),
                                                  generator.uniform(), drawn.item<double>()},
                                                 {4}, {.dtype = kFloat64}),
                     {}};
    }
    void skip(std::int64_t count) override {
      if (!source_.skips_itself) return Reader::skip(count);
      place_ += count;
    }

   private:
    const Numbered& source_;
    std::int64_t part_, place_ = 0;
  };

  std::int64_t parts() const override { return static_cast<std::int64_t>(lengths_.size()); }
  std::unique_ptr<Reader> open(std::int64_t part, std::int64_t) const override {
    if (opens_nothing) return nullptr;
    return std::make_unique<NumberedReader>(*this, part);
  }

  bool uneven_delays = false, skips_itself = false, opens_nothing = false;
  std::int64_t faulty_part = -1, faulty_place = -1;

 private:
  std::vector<std::int64_t> lengths_;
};

using Batches = std::vector<std::vector<double>>;

Batches epoch_of(DataLoader& loader) {
  Batches batches;
  for (const Example& batch : loader) batches.push_back(batch.input.to_vector<double>());
  return batches;
}

// (part, place) of every example of a batch.
std::vector<int> places(const std::vector<double>& batch) {
  std::vector<int> numbers;
  for (std::size_t i = 0; i < batch.size(); i += 4) {
    numbers.push_back(static_cast<int>(batch[i]) * 100 + static_cast<int>(batch[i + 1]));
  }
  return numbers;
}

std::string message_of(const auto& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

TEST(Source, BatchesComeFromThePartsInTurn) {
  const Numbered source({5, 0, 2});
  DataLoader loader(source, {.batch_size = 2, .workers = 0});
  std::vector<std::vector<int>> got;
  for (const auto& batch : epoch_of(loader)) got.push_back(places(batch));
  EXPECT_EQ(got, (std::vector<std::vector<int>>{{0, 1}, {200, 201}, {2, 3}, {4}}));
  EXPECT_EQ(loader.state(), (DataLoaderState{1, 0}));
  DataLoader whole(source, {.batch_size = 2, .drop_last = true, .workers = 3});
  EXPECT_EQ(epoch_of(whole).size(), 3U);
  const Numbered nothing({0, 0});
  DataLoader none(nothing, {.batch_size = 2});
  EXPECT_TRUE(epoch_of(none).empty());
}

TEST(Source, WorkersAndPrefetchChangeNothing) {
  Numbered source({13, 29, 7, 0, 16});
  source.uneven_delays = true;
  std::vector<Batches> expected;
  for (const int workers : {0, 1, 2, 5}) {
    for (const std::int64_t prefetch : {1, 3, 16}) {
      manual_seed(static_cast<std::uint64_t>(workers));
      DataLoader loader(source, {.batch_size = 4, .workers = workers, .prefetch = prefetch, .seed = 9});
      const std::vector<Batches> epochs{epoch_of(loader), epoch_of(loader)};
      if (expected.empty()) expected = epochs;
      EXPECT_EQ(epochs, expected) << workers << " workers, prefetch " << prefetch;
    }
  }
  EXPECT_NE(expected[0], expected[1]) << "random numbers are an epoch's own";
  std::size_t examples = 0;
  for (const auto& batch : expected[0]) examples += batch.size() / 4;
  EXPECT_EQ(examples, 65U);
}

TEST(Source, GoesOnFromAnyState) {
  Numbered source({9, 4, 14});
  source.faulty_part = 2, source.faulty_place = 5;
  for (const bool skips_itself : {false, true}) {
    source.skips_itself = skips_itself;
    const DataLoaderOptions options{
        .batch_size = 3, .workers = 2, .seed = 4, .on_error = OnError::kSkip, .warn = [](const std::string&) {}};
    DataLoader reference(source, options);
    Batches all;
    for (int epoch = 0; epoch < 2; ++epoch) {
      for (const auto& batch : epoch_of(reference)) all.push_back(batch);
    }
    ASSERT_EQ(all.size(), 20U);
    for (std::size_t stop = 0; stop <= all.size(); ++stop) {
      DataLoader before(source, options);
      for (std::size_t i = 0; i < stop;) i += before.next().has_value() ? 1 : 0;
      DataLoader after(source, options);
      after.load_state(before.state());
      Batches rest;
      while (after.state().epoch < 2) {
        if (const auto batch = after.next()) rest.push_back(batch->input.to_vector<double>());
      }
      EXPECT_EQ(rest, Batches(all.begin() + static_cast<std::ptrdiff_t>(stop), all.end())) << "after " << stop;
    }
  }
}

TEST(Source, ABrokenExampleIsAnErrorOrLeftOut) {
  Numbered source({6, 6});
  source.faulty_part = 1, source.faulty_place = 2;
  for (const int workers : {0, 3}) {
    for (const bool drop_last : {false, true}) {
      DataLoader strict(source, {.batch_size = 2, .drop_last = drop_last, .workers = workers});
      int good = 0;
      EXPECT_EQ(message_of([&] {
                  for (const Example& batch : strict) good += static_cast<int>(batch.input.size(0));
                }),
                "a broken record");
      EXPECT_EQ(good, 6);
    }
    std::vector<std::string> told;
    DataLoader lenient(source,
                       {.batch_size = 2, .workers = workers, .on_error = OnError::kSkip, .warn = [&](auto& line) {
                          told.push_back(line);
                        }});
    std::size_t examples = 0;
    for (const auto& batch : epoch_of(lenient)) examples += batch.size() / 4;
    EXPECT_EQ(examples, 11U);
    EXPECT_EQ(told, std::vector<std::string>{"DataLoader: example 2 of part 1 is left out: a broken record"});
  }
}

TEST(Source, ErrorsNameTheRule) {
  Numbered source({3});
  EXPECT_EQ(message_of([&] { DataLoader(source, {.shuffle = true}); }),
            "DataLoader: a source has its own order; got shuffle; let the source shuffle");
  const SequentialSampler sampler(3);
  EXPECT_EQ(message_of([&] { DataLoader(source, {.sampler = &sampler}); }),
            "DataLoader: a source has its own order; got a sampler; let the source shuffle");
  DataLoader loader(source);
  EXPECT_EQ(message_of([&] { static_cast<void>(loader.size()); }),
            "DataLoader: a source's batches cannot be counted; got size() of one with 1 parts");
  const Numbered none(std::vector<std::int64_t>{});
  EXPECT_EQ(message_of([&] { DataLoader{none}; }), "DataLoader: the source's parts must be from 1 to 1048576; got 0");
  source.opens_nothing = true;
  EXPECT_EQ(message_of([&] { loader.next(); }), "Source::open: there must be a reader; got none for part 0");
}

// Batches on a GPU equal those on the CPU, for waits on both sides; the place is that of the batch in use.
TEST(SourceCuda, BatchesReachTheGpuBesideItsWork) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  const Numbered source({40, 40});
  DataLoader expected(source, {.batch_size = 4, .seed = 3});
  DataLoader loader(source, {.batch_size = 4, .prefetch = 8, .seed = 3, .device = kCUDA});
  for (std::int64_t number = 1; const Example& batch : expected) {
    const std::optional<Example> moved = loader.next();
    ASSERT_TRUE(moved.has_value());
    EXPECT_EQ(moved->input.device(), Device(kCUDA));
    EXPECT_EQ(moved->input.to_vector<double>(), batch.input.to_vector<double>());
    EXPECT_EQ(loader.state(), (DataLoaderState{0, number++}));
  }
  EXPECT_FALSE(loader.next().has_value());
}

}  // namespace
}  // namespace adjoint::data
