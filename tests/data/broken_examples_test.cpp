// A loader's handling of examples that cannot be read.
#include <adjoint/core/base/error.h>
#include <adjoint/tests/data/numbers.h>

#include <gtest/gtest.h>

#include <new>
#include <string>
#include <vector>

namespace adjoint::data {
namespace {

TEST(BrokenExamples, AreLeftOutAndNamedOnce) {
  const NumberedExamples numbers(11, {1, 4, 5, 6, 7, 10});
  std::vector<Batches> epochs;
  for (const int workers : {0, 1, 3}) {
    std::vector<std::string> messages;
    DataLoader loader(numbers, {.batch_size = 4,
                                .workers = workers,
                                .on_error = OnError::kSkip,
                                .warn = [&](const std::string& message) { messages.push_back(message); }});
    const Batches first = rest_of_epoch(loader);
    // The second batch has nothing left.
    ASSERT_EQ(first.size(), 2U) << workers;
    EXPECT_EQ(numbers_in(first), (std::vector<std::int64_t>{0, 2, 3, 8, 9}));
    ASSERT_EQ(messages.size(), 6U);
    EXPECT_EQ(messages[0], "DataLoader: example 1 is left out: '1.png' is broken");
    EXPECT_EQ(messages[5], "DataLoader: example 10 is left out: '10.png' is broken");
    EXPECT_EQ(loader.state(), (DataLoaderState{1, 0}));
    rest_of_epoch(loader);
    EXPECT_EQ(messages.size(), 6U);
    epochs.push_back(first);
  }
  EXPECT_EQ(epochs[0], epochs[1]);
  EXPECT_EQ(epochs[0], epochs[2]);
}

TEST(BrokenExamples, ALoaderGoesOnBehindThem) {
  const NumberedExamples numbers(20, {0, 1, 2, 8, 9, 10, 11});
  const DataLoaderOptions options{.batch_size = 3,
                                  .shuffle = true,
                                  .workers = 2,
                                  .seed = 3,
                                  .on_error = OnError::kSkip,
                                  .warn = [](const std::string&) {}};
  DataLoader reference(numbers, options);
  const Batches whole = rest_of_epoch(reference);
  for (std::size_t stop = 0; stop <= whole.size(); ++stop) {
    DataLoader before(numbers, options), after(numbers, options);
    for (std::size_t i = 0; i < stop; ++i) before.next();
    after.load_state(before.state());
    EXPECT_EQ(rest_of_epoch(after), Batches(whole.begin() + static_cast<std::ptrdiff_t>(stop), whole.end()));
  }
}

TEST(BrokenExamples, ThoseOfATransformTooButNotALackOfMemory) {
  const NumberedExamples numbers(4);
  const auto loaded = [&](const Transform& transform) {
    DataLoader loader(numbers, {.batch_size = 4,
                                .transform = transform,
                                .on_error = OnError::kSkip,
                                .warn = [](const std::string&) {}});
    const auto batch = loader.next();
    return batch ? batch->input.size(0) : 0;
  };
  EXPECT_EQ(loaded([](const Example& example, Generator&) {
              if (example.target.item<int>() == -2) throw Error("two");
              return example;
            }),
            3);
  EXPECT_EQ(loaded([](const Example&, Generator&) -> Example { throw Error("all"); }), 0);
  EXPECT_THROW(loaded([](const Example&, Generator&) -> Example { throw OutOfMemoryError("none"); }), OutOfMemoryError);
  EXPECT_THROW(loaded([](const Example&, Generator&) -> Example { throw std::bad_alloc(); }), std::bad_alloc);
}

TEST(BrokenExamples, AValueThatIsNoWayIsAnError) {
  const NumberedExamples numbers(4);
  EXPECT_EQ(message_of([&] { DataLoader(numbers, {.on_error = static_cast<OnError>(2)}); }),
            "DataLoader: a value of OnError must be one of its enumerators, 0 to 1; got 2");
}

}  // namespace
}  // namespace adjoint::data
