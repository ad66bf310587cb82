// Loaders whose batches go to a GPU.
#include <adjoint/core/base/device.h>
#include <adjoint/data/loader.h>
#include <adjoint/data/tensor_dataset.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace adjoint::data {
namespace {

// Shuffled batches of tensors on a GPU are those on the CPU, for any workers, from the start and from a place on.
TEST(DataLoaderCuda, ShuffledTensorsGoOnFromAnyState) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  const TensorDataset rows(
      {Tensor::arange(0, 92, 1, {.dtype = kFloat32}).reshape({23, 4}), Tensor::arange(0, 23, 1, {.dtype = kInt64})});
  DataLoader expected(rows, {.batch_size = 4, .shuffle = true, .workers = 0, .seed = 5});
  std::vector<std::pair<Example, DataLoaderState>> all;  // and the place behind each
  while (expected.state().epoch < 2) {
    if (const auto batch = expected.next()) all.emplace_back(*batch, expected.state());
  }
  for (const int workers : {0, 1, 3}) {
    const DataLoaderOptions options{.batch_size = 4, .shuffle = true, .workers = workers, .seed = 5, .device = kCUDA};
    for (const std::size_t stop : {std::size_t{0}, std::size_t{4}, std::size_t{8}}) {
      SCOPED_TRACE(std::to_string(workers) + " workers, from batch " + std::to_string(stop));
      DataLoader before(rows, options);
      for (std::size_t i = 0; i < stop;) i += before.next().has_value() ? 1 : 0;
      DataLoader after(rows, options);
      after.load_state(before.state());
      for (std::size_t i = stop; i < all.size();) {
        const std::optional<Example> batch = after.next();
        if (!batch) continue;  // an epoch's end
        EXPECT_EQ(batch->input.device(), Device(kCUDA));
        EXPECT_EQ(batch->target.device(), Device(kCUDA));
        EXPECT_EQ(batch->input.to_vector<float>(), all[i].first.input.to_vector<float>());
        EXPECT_EQ(batch->target.to_vector<std::int64_t>(), all[i].first.target.to_vector<std::int64_t>());
        EXPECT_EQ(after.state(), all[i++].second);
      }
    }
  }
}

}  // namespace
}  // namespace adjoint::data
