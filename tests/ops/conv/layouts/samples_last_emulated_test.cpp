// The copy that puts samples behind positions, on the emulator, against its definition: in tiles of any batch.
#include <adjoint/ops/conv/layouts/orders.h>
#include <adjoint/tests/ops/conv/layouts/samples_last_emulated_run.h>
#include <adjoint/tests/support/conv_cases.h>
#include <adjoint/tests/support/emulation/kernel_run.h>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace adjoint::testing {
namespace {

/// Compares each element with its definition.
template <class T>
void check(const cuda::SamplesLast& s, std::uint64_t seed) {
  const std::int64_t plane = s.extents[0] * s.extents[1];
  std::vector<double> values(static_cast<std::size_t>(s.samples * s.channels * plane));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(1 + i * 7 % 127);
  std::vector<double> expected;
  for (std::int64_t part = 0; part < s.channels * s.positions(); ++part) {
    const std::int64_t channel = part / s.positions(), block = part % (s.blocks[0] * s.blocks[1]);
    const std::int64_t residue = part % s.positions() / (s.blocks[0] * s.blocks[1]);
    const std::int64_t h = block / s.blocks[1] * s.stride[0] + residue / s.residues[1] - s.padding[0];
    const std::int64_t w = block % s.blocks[1] * s.stride[1] + residue % s.residues[1] - s.padding[1];
    const bool inside = h >= 0 && h < s.extents[0] && w >= 0 && w < s.extents[1];
    for (std::int64_t n = 0; n < s.padded_samples; ++n) {
      const std::int64_t from = ((n * s.channels + channel) * s.extents[0] + h) * s.extents[1] + w;
      expected.push_back(inside && n < s.samples ? values[static_cast<std::size_t>(from)] : 0);
    }
  }
  expect_equal(samples_last<T>(s, values, seed).data(), expected);
}

template <class T>
class SamplesLastEmulation : public ::testing::Test {};
using Elements = ::testing::Types<float, cuda::FloatElement<kBFloat16>>;
TYPED_TEST_SUITE(SamplesLastEmulation, Elements);

TYPED_TEST(SamplesLastEmulation, AnyBatchIsPutLast) {
  std::uint64_t seed = 0;
  for (const std::int64_t batch : {1, 7, 8, 16, 33, 64, 100}) {
    for (const std::int64_t stride : {1, 2}) {
      SCOPED_TRACE(::testing::Message() << "batch " << batch << ", stride " << stride);
      const ConvCase c{.batch = batch,
                       .in_channels = 3,
                       .out_channels = 2,
                       .input = {13, 9},
                       .kernel = {4, 3},
                       .stride = {stride, stride},
                       .padding = {1, 1}};
      cuda::RearrangedPlan plan;
      ASSERT_TRUE(cuda::plan_batch_as_columns(geometry(c), sizeof(TypeParam), plan));
      check<TypeParam>(plan.image_samples, ++seed);
      check<TypeParam>(plan.feature_samples, ++seed);
    }
  }
}

}  // namespace
}  // namespace adjoint::testing
