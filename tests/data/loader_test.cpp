#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/error.h>
#include <adjoint/data/loader.h>
#include <adjoint/tests/data/numbers.h>

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {
// Threads that this thread may still make; below 0: any number.
constinit thread_local int threads_until_failure = -1;
}  // namespace

// A sanitizer's pthread_create, if the program has one: it must know all threads.
extern "C" __attribute__((weak)) decltype(pthread_create) __interceptor_pthread_create;

// Stands before the system's in this program.
extern "C" __attribute__((visibility("default"))) int pthread_create(pthread_t* thread,
                                                                     const pthread_attr_t* attributes,
                                                                     void* (*start)(void*), void* argument) noexcept {
  if (threads_until_failure == 0) return EAGAIN;
  if (threads_until_failure > 0) --threads_until_failure;
  static const auto real = __interceptor_pthread_create != nullptr
                               ? &__interceptor_pthread_create
                               : reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  return real(thread, attributes, start, argument);
}

namespace adjoint::data {
namespace {

/// Example i: input (2) holds i and a random number, target () holds -i. Slow or faulty on request.
class Numbers final : public Dataset {
 public:
  explicit Numbers(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  Example get(std::int64_t index, Generator& generator) const override {
    ++calls;
    if (index == faulty) throw std::runtime_error("example " + std::to_string(index) + " is broken");
    if (uneven_delays) std::this_thread::sleep_for(std::chrono::microseconds((index * 7919) % 300));
    const auto random = static_cast<double>(generator.below(1 << 20));
    return {Tensor::from_vector<double>({static_cast<double>(index), random}, {2}),
            Tensor::full({}, -static_cast<double>(index))};
  }

  mutable std::atomic<int> calls{0};
  std::int64_t faulty = -1;
  bool uneven_delays = false;

 private:
  std::int64_t size_;
};

std::vector<int> sorted_indices(const Batches& batches) {
  std::vector<int> indices;
  for (const auto& batch : batches) {
    for (std::size_t i = 0; i < batch.size(); i += 2) indices.push_back(static_cast<int>(batch[i]));
  }
  std::sort(indices.begin(), indices.end());
  return indices;
}

TEST(DataLoader, StacksBatchesInOrder) {
  const Numbers numbers(5);
  DataLoader loader(numbers, {.batch_size = 2});
  std::vector<Shape> shapes;
  std::vector<std::vector<int>> targets;
  for (const auto& [input, target] : loader) {
    shapes.push_back(input.shape());
    targets.push_back(target.to_vector<int>());
  }
  EXPECT_EQ(loader.size(), 3);
  EXPECT_EQ(shapes, (std::vector<Shape>{{2, 2}, {2, 2}, {1, 2}}));
  EXPECT_EQ(targets, (std::vector<std::vector<int>>{{0, -1}, {-2, -3}, {-4}}));
  DataLoader whole(numbers, {.batch_size = 2, .drop_last = true});
  EXPECT_EQ(rest_of_epoch(whole).size(), 2U);
}

TEST(DataLoader, AnEmptyDatasetHasNoBatches) {
  const Numbers numbers(0);
  DataLoader loader(numbers, {.batch_size = 2});
  EXPECT_TRUE(rest_of_epoch(loader).empty());
  EXPECT_EQ(loader.state(), (DataLoaderState{1, 0}));
}

TEST(DataLoader, ABatchMayBeLargerThanAnyDataset) {
  const Numbers dataset(3);
  for (const std::int64_t size : {std::int64_t{4}, INT64_MAX - 1, INT64_MAX}) {
    for (const int workers : {0, 2}) {
      DataLoader loader(dataset, {.batch_size = size, .workers = workers});
      EXPECT_EQ(loader.size(), 1);
      const Batches batches = rest_of_epoch(loader);
      ASSERT_EQ(batches.size(), 1U);
      EXPECT_EQ(sorted_indices(batches), (std::vector<int>{0, 1, 2}));
    }
    EXPECT_EQ(DataLoader(dataset, {.batch_size = size, .drop_last = true}).size(), 0);
  }
}

TEST(DataLoader, ADeviceThatDoesNotExistIsItsError) {
  const Numbers dataset(3);
  DataLoader loader(dataset, {.workers = 0, .device = Device(DeviceType::kCUDA, 127)});
  try {
    loader.next();
    FAIL();
  } catch (const Error& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("DataLoader: the device must exist; got cuda:127"))
        << error.what();
  }
}

TEST(DataLoader, WorkersAndPrefetchChangeNothing) {
  Numbers numbers(37);
  numbers.uneven_delays = true;
  std::vector<Batches> expected;
  for (const int workers : {0, 1, 2, 5}) {
    for (const std::int64_t prefetch : {1, 3, 16}) {
      DataLoader loader(numbers,
                        {.batch_size = 4, .shuffle = true, .workers = workers, .prefetch = prefetch, .seed = 9});
      const std::vector<Batches> epochs{rest_of_epoch(loader), rest_of_epoch(loader)};
      if (expected.empty()) expected = epochs;
      EXPECT_EQ(epochs, expected) << workers << " workers, prefetch " << prefetch;
    }
  }
  EXPECT_NE(expected[0], expected[1]);
  for (const Batches& epoch : expected) {
    const std::vector<int> indices = sorted_indices(epoch);
    for (int i = 0; i < 37; ++i) EXPECT_EQ(indices[static_cast<std::size_t>(i)], i);
  }
}

/// Example i: a number of the thread's default generator, and one number of the example's own.
class Drawn final : public Dataset {
 public:
  std::int64_t size() const override { return 12; }
  Example get(std::int64_t index, Generator& generator) const override {
    if (seeds) manual_seed(static_cast<std::uint64_t>(index));
    return {Tensor::randn({3}), Tensor::full({}, generator.uniform(), {.dtype = kFloat64})};
  }

  bool seeds = false;
};

TEST(DataLoader, TheDefaultGeneratorFollowsSeedEpochAndExample) {
  const Drawn drawn;
  std::vector<Batches> expected;
  for (const int workers : {0, 1, 2, 5}) {
    manual_seed(static_cast<std::uint64_t>(workers));  // changes nothing
    DataLoader loader(drawn, {.workers = workers, .seed = 9});
    const std::vector<Batches> epochs{rest_of_epoch(loader), rest_of_epoch(loader)};
    if (expected.empty()) expected = epochs;
    EXPECT_EQ(epochs, expected) << workers << " workers";
    EXPECT_EQ(default_generator().seed(), static_cast<std::uint64_t>(workers));
    EXPECT_EQ(default_generator().offset(), 0U);
  }
  DataLoader other(drawn, {.seed = 10});
  std::set<std::vector<float>> all;
  for (const Batches& epoch : {expected[0], expected[1], rest_of_epoch(other)}) all.insert(epoch.begin(), epoch.end());
  EXPECT_EQ(all.size(), 36U);
}

TEST(DataLoader, ADatasetThatSeedsDisturbsNobody) {
  Drawn drawn;
  drawn.seeds = true;
  manual_seed(77);
  for (const int workers : {0, 3}) {
    DataLoader loader(drawn, {.workers = workers});
    const Batches first = rest_of_epoch(loader);
    EXPECT_EQ(rest_of_epoch(loader), first);  // seeded by the example's number alone
    EXPECT_NE(first[0], first[1]);
  }
  EXPECT_EQ(default_generator().seed(), 77U);
}

TEST(DataLoader, AWorkerWithoutAThreadIsAnErrorThatJoinsTheOthers) {
  const Numbers numbers(40);
  for (const int made : {0, 1, 2}) {
    DataLoader loader(numbers, {.batch_size = 2, .workers = 3, .seed = 5});
    threads_until_failure = made;
    const std::string message = message_of([&] { loader.next(); });
    threads_until_failure = -1;
    EXPECT_TRUE(
        message.starts_with("DataLoader: every worker must get a thread; got " + std::to_string(made) + " of 3 ("))
        << message;
    EXPECT_NE(message.find("), which ended before any batch; allow the process more threads"), std::string::npos)
        << message;
    EXPECT_EQ(loader.state(), DataLoaderState{});
    const int calls = numbers.calls;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(numbers.calls, calls);  // nobody is at work
    EXPECT_EQ(rest_of_epoch(loader).size(), 20U);
  }
}

TEST(DataLoader, AnotherSeedGivesAnotherOrderAndOtherRandomNumbers) {
  const Numbers numbers(20);
  DataLoader a(numbers, {.batch_size = 20, .seed = 1}), b(numbers, {.batch_size = 20, .seed = 2});
  const Batches first = rest_of_epoch(a), second = rest_of_epoch(b), later = rest_of_epoch(a);
  for (std::size_t i = 0; i < 40; i += 2) {
    EXPECT_EQ(first[0][i], second[0][i]);
    EXPECT_NE(first[0][i + 1], second[0][i + 1]);
    EXPECT_NE(first[0][i + 1], later[0][i + 1]);  // a new epoch
  }
  DataLoader c(numbers, {.batch_size = 20, .shuffle = true, .seed = 1}),
      d(numbers, {.batch_size = 20, .shuffle = true, .seed = 2});
  EXPECT_NE(rest_of_epoch(c), rest_of_epoch(d));
}

TEST(DataLoader, GoesOnFromAnyState) {
  const Numbers numbers(23);
  const DataLoaderOptions options{.batch_size = 4, .shuffle = true, .workers = 2, .seed = 4};
  DataLoader reference(numbers, options);
  Batches all;
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (const auto& batch : rest_of_epoch(reference)) all.push_back(batch);
  }
  for (std::size_t stop = 0; stop <= 12; ++stop) {
    DataLoader before(numbers, options);
    for (std::size_t i = 0; i < stop;) i += before.next().has_value() ? 1 : 0;
    DataLoader after(numbers, options);
    after.load_state(before.state());
    Batches rest;
    while (after.state().epoch < 3) {
      if (const auto batch = after.next()) rest.push_back(batch->input.to_vector<float>());
    }
    EXPECT_EQ(rest, Batches(all.begin() + static_cast<std::ptrdiff_t>(stop), all.end())) << "after " << stop;
  }
}

TEST(DataLoader, LeavingAnEpochEarlyStopsItsWorkers) {
  Numbers numbers(1000);
  DataLoader loader(numbers, {.workers = 3, .prefetch = 8});
  for (const auto& [input, target] : loader) {
    if (input.to_vector<int>()[0] == 5) break;
  }
  EXPECT_EQ(loader.state(), (DataLoaderState{0, 6}));
  int first = -1;
  for (const auto& [input, target] : loader) {
    first = input.to_vector<int>()[0];
    break;
  }
  EXPECT_EQ(first, 0);
  EXPECT_EQ(loader.state(), (DataLoaderState{1, 1}));
}

TEST(DataLoader, MakesNoMoreThanPrefetchAhead) {
  const Numbers numbers(1000);
  DataLoader loader(numbers, {.workers = 3, .prefetch = 5});
  loader.next();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_LE(numbers.calls, 6);  // the one taken and five ahead
  EXPECT_GE(numbers.calls, 2);
}

/// Gives an example when another one is asked for at the same time.
class Pairs final : public Dataset {
 public:
  std::int64_t size() const override { return 8; }
  Example get(std::int64_t index, Generator&) const override {
    std::unique_lock lock(mutex_);
    const int mine = asked_++;
    changed_.notify_all();
    if (!changed_.wait_for(lock, std::chrono::seconds(30), [&] { return asked_ > mine / 2 * 2 + 1; }))
      throw Error("nobody asks for another example");
    return {Tensor::scalar(static_cast<double>(index)), {}};
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable int asked_ = 0;
};

TEST(DataLoader, WorkersShareABatch) {
  const Pairs pairs;
  DataLoader loader(pairs, {.batch_size = 8, .workers = 2, .prefetch = 1});
  const std::optional<Example> batch = loader.next();
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->input.to_vector<float>(), (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(DataLoader, RethrowsInTheBatchsTurn) {
  for (const int workers : {0, 3}) {
    Numbers numbers(12);
    numbers.faulty = 7;
    DataLoader loader(numbers, {.batch_size = 2, .workers = workers});
    int good = 0;
    const std::string message = message_of([&] {
      for (const auto& batch : loader) good += static_cast<int>(batch.input.size(0));
    });
    EXPECT_EQ(message, "example 7 is broken");
    EXPECT_EQ(good, 6);
    numbers.faulty = -1;
    EXPECT_EQ(rest_of_epoch(loader).size(), 6U);
  }
}

/// Pictures of two sizes; for odd numbers, empty.
class Uneven final : public Dataset {
 public:
  explicit Uneven(bool lacks_target) : lacks_target_(lacks_target) {}
  std::int64_t size() const override { return 2; }
  Example get(std::int64_t index, Generator&) const override {
    if (lacks_target_) return {Tensor::zeros({1}), index == 0 ? Tensor::zeros({1}) : Tensor()};
    return {Tensor::zeros({3, 2 + index, 2}), {}};
  }

 private:
  bool lacks_target_;
};

TEST(DataLoader, ErrorsNameTheRule) {
  const Numbers numbers(3);
  EXPECT_EQ(message_of([&] { DataLoader(numbers, {.batch_size = 0}); }),
            "DataLoader: batch_size must be positive; got 0");
  EXPECT_EQ(message_of([&] { DataLoader(numbers, {.workers = -1}); }),
            "DataLoader: workers must be from 0 to 1024; got -1");
  EXPECT_EQ(message_of([&] { DataLoader(numbers, {.prefetch = 0}); }),
            "DataLoader: prefetch must be from 1 to 65536; got 0");
  DataLoader loader(numbers);
  EXPECT_EQ(message_of([&] {
              loader.load_state({0, 4});
            }),
            "DataLoader: a state must have epoch >= 0 and batch from 0 to 3; got epoch 0, batch 4");
  for (const std::int64_t size : {std::int64_t{-1}, std::int64_t{1} << 40, std::numeric_limits<std::int64_t>::max()}) {
    const Numbers sized(size);
    EXPECT_EQ(message_of([&] { DataLoader{sized}; }),
              "DataLoader: the dataset's size must be from 0 to 2^40 - 1; got " + std::to_string(size));
  }
  const Numbers largest((std::int64_t{1} << 40) - 1);
  EXPECT_EQ(DataLoader(largest, {.batch_size = 1 << 20}).size(), 1 << 20);
  const Uneven sizes(false), targets(true);
  DataLoader uneven(sizes, {.batch_size = 2});
  EXPECT_EQ(message_of([&] { uneven.next(); }),
            "DataLoader: inputs of a batch must agree in shape and dtype; got float32 (3, 2, 2) and float32 (3, 3, 2); "
            "crop them to one size, pad them (pad_examples), or use batch_size 1");
  DataLoader half(targets, {.batch_size = 2});
  EXPECT_EQ(message_of([&] { half.next(); }),
            "DataLoader: targets of a batch must be all defined or all undefined; got both");
}

}  // namespace
}  // namespace adjoint::data
