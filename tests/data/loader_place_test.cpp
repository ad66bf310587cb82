// A loader's place in other hands: another loader's, a forked process's; and datasets that do not outlive their loader.
#include <adjoint/core/base/error.h>
#include <adjoint/data/loader.h>
#include <adjoint/data/tensor_dataset.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace adjoint::data {
namespace {

/// The rest of the current epoch.
std::vector<int> rest(DataLoader& loader) {
  std::vector<int> all;
  while (const auto batch = loader.next()) {
    for (const int i : batch->input.to_vector<int>()) all.push_back(i);
  }
  return all;
}

TEST(LoaderPlace, OfAnotherLoaderIsAnErrorThatNamesTheDifference) {
  const TensorDataset dataset(Example{Tensor::arange(48), {}}), smaller(Example{Tensor::arange(40), {}});
  const SequentialSampler sampler(48);
  const DataLoaderOptions options{.batch_size = 8, .workers = 0, .seed = 3};
  DataLoader saved(dataset, options);
  for (int i = 0; i < 3; ++i) saved.next();
  const auto refuses = [&](const Dataset& of, const std::function<void(DataLoaderOptions&)>& change,
                           const char* difference) {
    DataLoaderOptions other = options;
    change(other);
    DataLoader loader(of, other);
    loader.next();
    EXPECT_ERROR(loader.load_state(saved.state()), "DataLoader: a state must be of a loader with the same examples",
                 difference, ".strict = false");
    EXPECT_EQ(loader.state(), (DataLoaderState{0, 1}));
    loader.load_state(saved.state(), {.strict = false});
    EXPECT_EQ(loader.state().epoch, 0);
  };
  refuses(
      dataset, [](auto& o) { o.batch_size = 4; }, "got batch_size 8 where it is 4 here;");
  refuses(
      smaller, [](auto&) {}, "got examples 48 where it is 40 here;");
  refuses(
      dataset, [](auto& o) { o.shuffle = true; }, "got order by number where it is shuffled here;");
  refuses(
      dataset, [&](auto& o) { o.sampler = &sampler; }, "order by number where it is a sampler's here");
  refuses(
      dataset, [](auto& o) { o.drop_last = true; }, "drop_last false where it is true here");
  refuses(
      dataset, [](auto& o) { o.seed = 4; }, "seed 3 where it is 4 here");
  refuses(
      smaller, [](auto& o) { o.batch_size = 5; }, "batch_size 8 where it is 5 here, examples 48 where it is 40");

  DataLoaderOptions ahead = options;
  ahead.workers = 2, ahead.prefetch = 7;  // neither changes the examples
  DataLoader same(dataset, ahead);
  same.load_state(saved.state());
  EXPECT_EQ(rest(same), rest(saved));
}

TEST(LoaderPlace, GoesOnAtTheFirstExampleThatDidNotComeWhereItIsToldTo) {
  const TensorDataset dataset(Example{Tensor::arange(48), {}}), smaller(Example{Tensor::arange(20), {}});
  DataLoader saved(dataset, {.batch_size = 8, .workers = 0});
  for (int i = 0; i < 3; ++i) saved.next();
  for (const auto& [batch_size, first] : {std::pair{4, 24}, {16, 16}, {24, 24}, {5, 20}, {48, 0}, {8, 24}}) {
    DataLoader loader(dataset, {.batch_size = batch_size, .workers = 0});
    loader.load_state(saved.state(), {.strict = false});
    const std::vector<int> left = rest(loader);
    ASSERT_EQ(left.size(), static_cast<std::size_t>(48 - first)) << batch_size;
    EXPECT_EQ(left.front(), first) << batch_size;
  }
  DataLoader short_one(smaller, {.batch_size = 8, .workers = 0});
  short_one.load_state(saved.state(), {.strict = false});
  EXPECT_TRUE(rest(short_one).empty());  // its epoch is over
  EXPECT_EQ(rest(short_one).size(), 20U);

  DataLoaderState own = saved.state();
  own.batch_size = 0;  // without its loader
  DataLoader other(dataset, {.batch_size = 4, .workers = 0});
  other.load_state(own);
  EXPECT_EQ(rest(other).front(), 12);
}

TEST(LoaderPlace, StatesThatCannotBeAreErrors) {
  const TensorDataset dataset(Example{Tensor::arange(48), {}});
  DataLoader loader(dataset, {.batch_size = 8, .workers = 0});
  DataLoaderState state = loader.state();
  state.batch = 7;
  EXPECT_ERROR(loader.load_state(state), "epoch >= 0 and batch from 0 to 6; got epoch 0, batch 7");
  state.batch = 1, state.batch_size = -1;
  EXPECT_ERROR(loader.load_state(state, {.strict = false}), "a positive batch_size", "got -1");
  state.batch = std::int64_t{1} << 40, state.batch_size = std::int64_t{1} << 40;
  EXPECT_ERROR(loader.load_state(state, {.strict = false}), "fewer than 2^63 examples");
  state.batch = -1, state.batch_size = 4;
  EXPECT_ERROR(loader.load_state(state, {.strict = false}), "no negative batch", "got 4 and -1");
}

class Parts final : public Source {
 public:
  explicit Parts(std::int64_t parts) : parts_(parts) {}
  std::int64_t parts() const override { return parts_; }
  std::unique_ptr<Reader> open(std::int64_t part, std::int64_t) const override {
    return std::make_unique<Count>(100 * part);
  }

 private:
  class Count final : public Reader {
   public:
    explicit Count(std::int64_t first) : next_(first), end_(first + 12) {}
    std::optional<Example> next(Generator&) override {
      if (next_ == end_) return {};
      return Example{Tensor::scalar(static_cast<double>(next_++)), {}};
    }

   private:
    std::int64_t next_, end_;
  };
  std::int64_t parts_;
};

TEST(LoaderPlace, OfASource) {
  const Parts two(2), three(3);
  DataLoader saved(two, {.batch_size = 4, .workers = 0});
  for (int i = 0; i < 3; ++i) saved.next();
  DataLoader halves(two, {.batch_size = 2, .workers = 0}), other(three, {.batch_size = 4, .workers = 0});
  EXPECT_ERROR(halves.load_state(saved.state()), "got batch_size 4 where it is 2 here;");
  halves.load_state(saved.state(), {.strict = false});
  EXPECT_EQ(rest(halves), (std::vector<int>{4, 5, 104, 105, 6, 7, 106, 107, 8, 9, 108, 109, 10, 11, 110, 111}));
  EXPECT_ERROR(other.load_state(saved.state()), "got parts 2 where it is 3 here;");
  EXPECT_ERROR(other.load_state(saved.state(), {.strict = false}), "a source can only resume one with as many parts");
}

// A loader keeps a reference to its dataset.
static_assert(std::is_constructible_v<DataLoader, const TensorDataset&, DataLoaderOptions>);
static_assert(!std::is_constructible_v<DataLoader, TensorDataset, DataLoaderOptions>);
static_assert(!std::is_constructible_v<DataLoader, const TensorDataset>);
static_assert(std::is_constructible_v<DataLoader, Parts&>);
static_assert(!std::is_constructible_v<DataLoader, Parts>);
template <class L>
concept HasBegin = requires(L&& loader) {
  std::forward<L>(loader).begin();
};
static_assert(HasBegin<DataLoader&> && !HasBegin<DataLoader>);  // an iterator keeps a reference to its loader

/// The result of `f` in a separate process; "hangs" if it does not end.
std::string in_child(const std::function<std::string()>& f) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe(ends.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    const std::string said = f();
    const bool written = ::write(ends[1], said.data(), said.size()) == static_cast<ssize_t>(said.size());
    ::_exit(written ? 0 : 1);
  }
  ::close(ends[1]);
  std::string said;
  std::array<char, 256> piece{};
  for (ssize_t count = 0; (count = ::read(ends[0], piece.data(), piece.size())) > 0;) {
    said.append(piece.data(), static_cast<std::size_t>(count));
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? said : "hangs";
}

// 48 numbers, of which the first 8 come immediately. The others wait.
class Waiting final : public Dataset {
 public:
  std::int64_t size() const override { return 48; }
  Example get(std::int64_t index, Generator&) const override {
    if (index >= 8) {
      ++waiting_;
      while (!released_) std::this_thread::yield();
    }
    return {Tensor::full({}, static_cast<double>(index)), {}};
  }
  void release() { released_ = true; }
  void wait_for(int threads) const {
    while (waiting_ < threads) std::this_thread::yield();
  }

 private:
  mutable std::atomic<int> waiting_{0};
  std::atomic<bool> released_{false};
};

// All workers wait in the dataset when the process forks. None of them holds a lock of AddressSanitizer's allocator,
// which would never be released in the child.
TEST(LoaderPlace, AForkedProcessIsToldThatItHasNoWorkers) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer lets no child of several threads start one";
#endif
  for (const int workers : {0, 1, 3}) {
    SCOPED_TRACE(workers);
    Waiting dataset;
    auto loader = std::make_unique<DataLoader>(dataset, DataLoaderOptions{.batch_size = 4, .workers = workers});
    loader->next();
    loader->next();
    dataset.wait_for(workers);
    const std::string said = in_child([&] {
      dataset.release();
      std::string text;
      try {
        text += std::to_string(loader->next()->input.to_vector<int>()[0]) + ".";
      } catch (const Error& error) {
        text += error.what();
      }
      text += "|" + std::to_string(rest(*loader).size());  // with separate workers
      loader->next();
      int first = -1;
      for (const Example& batch : *loader) {  // the next epoch
        first = batch.input.to_vector<int>()[0];
        break;
      }
      loader.reset();
      return text + "|" + std::to_string(first);
    });
    EXPECT_EQ(said,
              workers == 0
                  ? "8.|36|0"
                  : "DataLoader: an epoch must continue in the process in which it began, which has its workers; got "
                    "one that was forked from it meanwhile; fork between epochs, or set workers to 0|40|0");
    EXPECT_EQ(in_child([&] {
                loader.reset();
                return std::string("ended");
              }),
              "ended");
    EXPECT_EQ(in_child([&] {
                dataset.release();
                loader->load_state({1, 2});
                return std::to_string(rest(*loader).front());
              }),
              "8");
    dataset.release();
    EXPECT_EQ(rest(*loader).size(), 40U);  // the parent's continues
  }
}

}  // namespace
}  // namespace adjoint::data
