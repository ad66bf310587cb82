#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/error.h>
#include <adjoint/data/tensor_dataset.h>
#include <adjoint/tests/data/numbers.h>

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace adjoint::data {
namespace {

Tensor counting(const Shape& shape, DType dtype = kFloat32) {
  return Tensor::arange(0, static_cast<double>(shape.numel()), 1, {.dtype = dtype}).reshape(shape);
}

TEST(Examples, AreTakenApartAsInputAndTarget) {
  Example example{Tensor::full({}, 1.0), Tensor::full({}, 2.0), {{"weight", Tensor::full({}, 3.0)}}};
  auto& [input, target] = example;
  EXPECT_EQ(input.item<int>(), 1);
  input = Tensor::full({}, 5.0);
  EXPECT_EQ(example.input.item<int>(), 5);
  const auto& [same_input, same_target] = std::as_const(example);
  EXPECT_EQ(&same_input, &example.input);
  EXPECT_EQ(&same_target, &example.target);
  auto [copy, other] = example;
  copy = Tensor();
  EXPECT_TRUE(example.input.defined());
  EXPECT_EQ(target.item<int>() + other.item<int>(), 4);
}

TEST(Examples, HaveTensorsByName) {
  const Example example{Tensor::full({}, 1.0), {}, {{"weight", Tensor::full({}, 3.0)}}};
  EXPECT_EQ(example["input"].item<int>(), 1);
  EXPECT_EQ(example["weight"].item<int>(), 3);
  EXPECT_EQ(message_of([&] { example["wieght"]; }),
            "Example: there must be a tensor of that name; got 'wieght' among input, weight");
  EXPECT_EQ(message_of([&] { example["target"]; }),
            "Example: there must be a tensor of that name; got 'target' among input, weight");
}

TEST(TensorDatasets, AnyNumberOfTensorsStaysTogether) {
  const TensorDataset pair({counting({7, 2}), counting({7}, kInt64)});
  EXPECT_EQ(pair.size(), 7);
  DataLoader loader(pair, {.batch_size = 3, .shuffle = true, .seed = 2});
  std::set<int> seen;
  for (const auto& [input, target] : loader) {
    EXPECT_EQ(input.shape(), (Shape{target.size(0), 2}));
    EXPECT_EQ(target.dtype(), kInt64);
    for (int i = 0; i < target.size(0); ++i) {
      const int number = target.select(0, i).item<int>();
      EXPECT_EQ(input.select(0, i).to_vector<int>(), (std::vector<int>{2 * number, 2 * number + 1}));
      seen.insert(number);
    }
  }
  EXPECT_EQ(seen.size(), 7U);

  const TensorDataset named(
      {.input = {},
       .target = {},
       .fields = {{"a", counting({5})}, {"b", counting({5, 1, 2}, kUInt8)}, {"c", counting({5})}}});
  DataLoader batches(named, {.batch_size = 2});
  const auto batch = batches.next();
  ASSERT_TRUE(batch);
  EXPECT_FALSE(batch->input.defined());
  EXPECT_EQ((*batch)["a"].to_vector<int>(), (std::vector<int>{0, 1}));
  EXPECT_EQ((*batch)["b"].shape(), (Shape{2, 1, 2}));
  EXPECT_EQ((*batch)["b"].dtype(), kUInt8);
  EXPECT_EQ((*batch)["c"].to_vector<int>(), (std::vector<int>{0, 1}));

  const TensorDataset alone({counting({3})});
  EXPECT_FALSE(DataLoader(alone).next()->target.defined());
  const TensorDataset view({counting({2, 3}).permute({1, 0})});
  EXPECT_EQ(DataLoader(view, {.batch_size = 3}).next()->input.to_vector<int>(), (std::vector<int>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(TensorDataset({Tensor::zeros({0, 3})}).size(), 0);
}

TEST(TensorDatasets, ErrorsNameTheTensor) {
  EXPECT_EQ(message_of([] { TensorDataset(Example{}); }),
            "TensorDataset: at least one tensor must be defined; got none");
  EXPECT_EQ(message_of([] {
              TensorDataset({Tensor::zeros({3}), Tensor::zeros({})});
            }),
            "TensorDataset: 'target' must have a first axis, of examples; got a scalar");
  EXPECT_EQ(message_of([] {
              TensorDataset({Tensor::zeros({3}), {}, {{"w", Tensor::zeros({4})}}});
            }),
            "TensorDataset: tensors must have as many rows; got 3 in 'input' and 4 in 'w'");
  for (const char* name : {"", "input", "target"}) {
    EXPECT_EQ(message_of([&] {
                TensorDataset({Tensor::zeros({3}), {}, {{name, Tensor::zeros({3})}}});
              }),
              "TensorDataset: fields' names must be distinct, not empty, and neither input nor target; got '" +
                  std::string(name) + "'");
  }
  EXPECT_EQ(message_of([&] {
              TensorDataset({{}, {}, {{"w", Tensor::zeros({3})}, {"w", Tensor::zeros({3})}}});
            }),
            "TensorDataset: fields' names must be distinct, not empty, and neither input nor target; got 'w'");
  const TensorDataset three({Tensor::zeros({3})});
  Generator generator(0);
  for (const std::int64_t index : {-1, 3}) {
    EXPECT_EQ(message_of([&] { three.get(index, generator); }),
              "TensorDataset: index must be from 0 to 2; got " + std::to_string(index));
  }
}

/// Sequences of 1, 2, 3, ... elements, as (length) and (2, length).
class Sequences final : public Dataset {
 public:
  std::int64_t size() const override { return 5; }
  Example get(std::int64_t index, Generator&) const override {
    return {counting({index + 1}, kInt64), {}, {{"wave", counting({2, index + 1})}, {"class", Tensor::full({}, 4.0)}}};
  }
};

TEST(Collation, PadsToTheLongestAndTellsLengths) {
  const Sequences sequences;
  for (const int workers : {0, 2}) {
    DataLoader loader(sequences, {.batch_size = 3, .workers = workers, .collate = pad_examples({.value = -1})});
    // The wave is not padded.
    EXPECT_EQ(
        message_of([&] { loader.next(); }),
        "pad_examples: fields 'wave' of a batch must agree in shape and dtype; got float32 (2, 1) and float32 (2, "
        "2); crop them to one size, pad them (pad_examples), or use batch_size 1");
    DataLoader both(sequences, {.batch_size = 3,
                                .workers = workers,
                                .collate = pad_examples({.names = {"input", "wave"}, .axis = -1, .value = -1})});
    const auto first = both.next(), second = both.next();
    ASSERT_TRUE(first && second);
    EXPECT_EQ(first->input.to_vector<int>(), (std::vector<int>{0, -1, -1, 0, 1, -1, 0, 1, 2}));
    EXPECT_EQ(first->input.dtype(), kInt64);
    EXPECT_EQ((*first)["input_lengths"].to_vector<int>(), (std::vector<int>{1, 2, 3}));
    EXPECT_EQ((*first)["input_lengths"].dtype(), kInt64);
    EXPECT_EQ((*first)["wave"].to_vector<int>(),
              (std::vector<int>{0, -1, -1, 1, -1, -1, 0, 1, -1, 2, 3, -1, 0, 1, 2, 3, 4, 5}));
    EXPECT_EQ((*second)["wave_lengths"].to_vector<int>(), (std::vector<int>{4, 5}));
    EXPECT_EQ((*second)["class"].to_vector<int>(), (std::vector<int>{4, 4}));
    EXPECT_FALSE(both.next());
  }
}

TEST(Collation, ErrorsNameTheTensor) {
  const auto collated = [](const PadOptions& options, const std::vector<Example>& examples) {
    return message_of([&] { pad_examples(options)(examples); });
  };
  const std::vector<Example> two{{Tensor::zeros({2, 3}), {}, {{"w", Tensor::zeros({})}}},
                                 {Tensor::zeros({2, 4}), {}, {{"w", Tensor::zeros({})}}}};
  EXPECT_EQ(collated({.names = {}}, two), "pad_examples: names must list the fields to pad; got none");
  EXPECT_EQ(collated({}, {}), "pad_examples: a batch must have at least one example; got none");
  EXPECT_EQ(collated({.names = {"v"}}, two), "pad_examples: every example must have 'v'; got input, w");
  EXPECT_EQ(collated({.names = {"target"}}, two), "pad_examples: every example must have 'target'; got input, w");
  EXPECT_EQ(collated({.names = {"w"}}, two).substr(0, 14), "pad_examples: ");
  EXPECT_EQ(collated({.axis = 2}, two).substr(0, 14), "pad_examples: ");
  EXPECT_EQ(
      collated({.names = {"input", "input"}, .axis = 1}, two),
      "pad_examples: fields' names must be distinct, not empty, and neither input nor target; got 'input_lengths'");
  EXPECT_NE(collated({.axis = 0}, two).find("must agree in shape and dtype"), std::string::npos);
  EXPECT_EQ(collated({.axis = 1}, two), "no error");
  const std::vector<Example> bytes{{counting({1, 1}, kUInt8)}, {counting({1, 2}, kUInt8)}};
  EXPECT_EQ(collated({.axis = 1, .value = 255}, bytes), "no error");
  EXPECT_TRUE(collated({.axis = 1, .value = 256}, bytes).starts_with("pad_examples: "));
  EXPECT_EQ(message_of([] { stack_examples({}); }), "stack_examples: a batch must have at least one example; got none");
  EXPECT_EQ(message_of([&] {
              stack_examples({two[0], {Tensor::zeros({2, 3})}});
            }),
            "stack_examples: examples of a batch must have the same fields; got input, w and input");
  EXPECT_EQ(message_of([&] {
              stack_examples({{Tensor::zeros({1, 1, 1, 1, 1, 1, 1, 1})}});
            }),
            "stack_examples: inputs must have at most 7 axes; got (1, 1, 1, 1, 1, 1, 1, 1)");
  const Example swapped{Tensor::zeros({2, 3}), {}, {{"v", Tensor::zeros({})}}};
  EXPECT_EQ(message_of([&] {
              stack_examples({two[0], swapped});
            }),
            "stack_examples: examples of a batch must have the same fields; got input, w and input, v");
}

TEST(Collation, AUsersOwnFunctionMakesTheBatch) {
  const NumberedExamples numbers(5);
  Tape tape;
  for (const int workers : {0, 2}) {
    std::atomic<int> calls{0};
    DataLoader loader(numbers,
                      {.batch_size = 2, .workers = workers, .collate = [&](const std::vector<Example>& examples) {
                         ++calls;
                         Example batch = stack_examples(examples);
                         batch.fields.emplace_back("count", Tensor::full({}, static_cast<double>(examples.size())));
                         return batch;
                       }});
    std::vector<int> counts;
    for (const auto& batch : loader) counts.push_back(batch["count"].item<int>());
    EXPECT_EQ(counts, (std::vector<int>{2, 2, 1}));
    EXPECT_EQ(calls, 3);
  }
  EXPECT_EQ(tape.size(), 0U);
}

TEST(Transforms, OfALoaderAreSeededByExample) {
  const NumberedExamples numbers(9);
  std::vector<Batches> epochs;
  for (const int workers : {0, 1, 3}) {
    DataLoader loader(
        numbers,
        {.batch_size = 2,
         .shuffle = true,
         .workers = workers,
         .transform = [](const Example& example, Generator& generator) {
           return Example{Tensor::full({2}, generator.uniform()) + Tensor::rand({2}) + example.input, example.target};
         }});
    const Batches first = rest_of_epoch(loader), second = rest_of_epoch(loader);
    EXPECT_NE(first, second);
    epochs.push_back(first);
  }
  EXPECT_EQ(epochs[0], epochs[1]);
  EXPECT_EQ(epochs[0], epochs[2]);
}

TEST(DataLoaders, AnExampleHasATensorAndProperNames) {
  const NumberedExamples numbers(2);
  const auto with = [&](const Example& result) {
    DataLoader loader(numbers, {.transform = [&](const Example&, Generator&) { return result; }});
    return message_of([&] { loader.next(); });
  };
  EXPECT_EQ(with({}), "DataLoader: an example's input must be defined; got none from example 0");
  EXPECT_EQ(with({{}, {}, {{"input", Tensor::zeros({1})}}}),
            "DataLoader: fields' names must be distinct, not empty, and neither input nor target; got 'input'");
  EXPECT_EQ(with({{}, {}, {{"x", Tensor::zeros({1})}}}), "no error");
}

}  // namespace
}  // namespace adjoint::data
