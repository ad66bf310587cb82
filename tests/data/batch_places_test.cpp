// Batches of examples that are large enough to be copied into the batch as they are made.
#include <adjoint/core/tensor/random.h>
#include <adjoint/data/loader.h>
#include <adjoint/tests/data/numbers.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace adjoint::data {
namespace {

/// Example i as `make` makes it; some are empty.
class Large final : public Dataset {
 public:
  using Make = std::function<Example(std::int64_t index, Generator& generator)>;
  Large(Make make, std::set<std::int64_t> broken = {}) : make_(std::move(make)), broken_(std::move(broken)) {}
  std::int64_t size() const override { return 7; }
  Example get(std::int64_t index, Generator& generator) const override {
    if (broken_.contains(index)) throw std::runtime_error("broken");
    return make_(index, generator);
  }

 private:
  Make make_;
  std::set<std::int64_t> broken_;
};

// A large input whose axes are exchanged, a small target, a large field of another dtype.
Example noise(std::int64_t index, Generator&) {
  return {Tensor::randn({80, 64}).transpose(0, 1),
          Tensor::full({}, static_cast<double>(index)),
          {{"large", Tensor::rand({50, 50}, {.dtype = kFloat64})}}};
}

std::vector<std::vector<double>> values_of(const std::optional<Example>& batch) {
  std::vector<std::vector<double>> values;
  for (const char* name : {"input", "target", "large"}) values.push_back((*batch)[name].to_vector<double>());
  return values;
}

TEST(BatchPlaces, BatchesAreThoseThatStackingGives) {
  for (const std::set<std::int64_t>& broken : std::vector<std::set<std::int64_t>>{{}, {0}, {2, 6}}) {
    const Large dataset(noise, broken);
    const DataLoaderOptions options{.batch_size = 4,
                                    .seed = 3,
                                    .on_error = OnError::kSkip,
                                    .warn = [](const std::string&) {}};
    DataLoaderOptions plain = options;
    plain.workers = 0;
    plain.collate = [](const std::vector<Example>& examples) { return stack_examples(examples); };
    for (const int workers : {0, 1, 3}) {
      DataLoaderOptions own = options;
      own.workers = workers;
      DataLoader loader(dataset, own), expected(dataset, plain);
      for (int batch = 0; batch < 2; ++batch) {
        const std::optional<Example> got = loader.next(), stacked = expected.next();
        ASSERT_TRUE(got.has_value() && stacked.has_value());
        EXPECT_EQ(got->input.shape(), stacked->input.shape());
        EXPECT_TRUE(got->input.is_contiguous());
        EXPECT_EQ(values_of(got), values_of(stacked)) << workers << " workers, " << broken.size() << " broken";
      }
      EXPECT_FALSE(loader.next().has_value());
    }
  }
}

TEST(BatchPlaces, WhatFitsNoPlaceIsAnErrorOfTheBatch) {
  const auto error_of = [](const Large::Make& make) {
    const Large dataset(make);
    std::string message;
    for (const int workers : {0, 3}) {
      DataLoader loader(dataset, {.batch_size = 7, .workers = workers});
      const std::string own = message_of([&] { loader.next(); });
      EXPECT_TRUE(message.empty() || own == message) << own;
      message = own;
    }
    return message;
  };
  EXPECT_EQ(error_of([](std::int64_t index, Generator&) {
              return Example{Tensor::zeros({80, 64 + index / 6}), {}};
            }),
            "DataLoader: inputs of a batch must agree in shape and dtype; got float32 (80, 64) and float32 (80, 65); "
            "crop them to one size, pad them (pad_examples), or use batch_size 1");
  EXPECT_EQ(error_of([](std::int64_t index, Generator&) {
              return Example{Tensor::zeros({80, 64}, {.dtype = index == 6 ? kFloat64 : kFloat32}), {}};
            }),
            "DataLoader: inputs of a batch must agree in shape and dtype; got float32 (80, 64) and float64 (80, 64); "
            "crop them to one size, pad them (pad_examples), or use batch_size 1");
  EXPECT_EQ(error_of([](std::int64_t index, Generator&) {
              return Example{Tensor::zeros({1}), index == 6 ? Tensor() : Tensor::zeros({80, 64})};
            }),
            "DataLoader: targets of a batch must be all defined or all undefined; got both");
  EXPECT_EQ(error_of([](std::int64_t, Generator&) {
              return Example{Tensor::zeros({1, 1, 1, 1, 1, 1, 80, 64}), {}};
            }),
            "DataLoader: inputs must have at most 7 axes; got (1, 1, 1, 1, 1, 1, 80, 64)");
}

// A dataset may give the same tensor again and again.
TEST(BatchPlaces, TheDatasetsTensorsStayAsTheyAre) {
  const Tensor kept = Tensor::arange(0, 80 * 64, 1, {.dtype = kFloat32}).reshape({80, 64});
  const Large dataset([&](std::int64_t, Generator&) { return Example{kept, kept}; });
  DataLoader loader(dataset, {.batch_size = 7, .workers = 2});
  std::optional<Example> batch = loader.next();
  ASSERT_TRUE(batch.has_value());
  batch->input.fill_(0.0);
  EXPECT_EQ(batch->target[6].to_vector<float>(), kept.to_vector<float>());
  EXPECT_EQ(kept.select(0, 0)[5].item<int>(), 5);
}

}  // namespace
}  // namespace adjoint::data
