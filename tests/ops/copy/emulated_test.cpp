// Copies that reorder a few neighbours, on the emulator, compared with the CPU's copies.
#include <cuda_runtime.h>
#include <adjoint/core/cuda/interleave.cuh>

#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace adjoint::testing {
namespace {

/// A tensor `offset` elements behind a multiple of 16 bytes.
Tensor at(const Shape& shape, DType dtype, std::int64_t offset) {
  return Tensor::zeros({shape.numel() + offset}, {.dtype = dtype}).narrow(0, offset, shape.numel()).reshape(shape);
}

/// Copies `from` to `to`, and returns true if it was interleaved.
bool copied(const Tensor& from, Tensor& to) {
  const StridedPlan<2> plan = make_strided_plan<2>(to.shape(), {to.strides(), from.strides()});
  return visit_bits(to.dtype(), [&]<class Bits>() {
    return cuda::detail::copy_interleaved(plan, 0, static_cast<const Bits*>(from.raw_data()),
                                          static_cast<Bits*>(to.raw_mutable_data()));
  });
}

void check(const std::string& what, const Tensor& from, Tensor to, bool interleaved) {
  SCOPED_TRACE(what + " " + to_string(to.dtype()));
  ASSERT_EQ(copied(from, to), interleaved);
  if (!interleaved) return;
  expect_same_bits("copy", to, from.contiguous());
}

TEST(InterleaveEmulated, IsTheCopy) {
  for (const DType dtype : {kUInt8, kBFloat16, kFloat32, kFloat64}) {
    for (const std::int64_t r : {2, 3, 4, 5}) {
      const bool fits = r <= 4 && (dtype != kFloat64 || r == 2);
      cuda::emulated_seed = static_cast<std::uint64_t>(r);
      const auto x = [&](const Shape& shape, std::int64_t offset = 0) {
        Tensor values = at(shape, dtype, offset);
        values.copy_(Tensor::from_vector(integers(shape.numel(), 100, 7), {shape.numel()}).abs().reshape(shape));
        return values;
      };
      // pixel_shuffle, pixel_unshuffle, channels last and first, parts that become neighbours.
      check("shuffle", x({2, 3, r, r, 5, 16}).permute({0, 1, 4, 2, 5, 3}), at({2, 3, 5, r, 16, r}, dtype, 0), fits);
      check("unshuffle", x({2, 3, 5, r, 16, r}).permute({0, 1, 3, 5, 2, 4}), at({2, 3, r, r, 5, 16}, dtype, 0), fits);
      check("last", x({2, r, 7, 16}).permute({0, 2, 3, 1}), at({2, 7, 16, r}, dtype, 0), fits);
      check("first", x({2, 7, 16, r}).permute({0, 3, 1, 2}), at({2, r, 7, 16}, dtype, 0), fits);
      check("one", x({r, 48}).transpose(0, 1), at({48, r}, dtype, 0), fits);
      check("repeated", x({3, 16}).unsqueeze(2).expand({3, 16, r}), at({3, 16, r}, dtype, 0), fits);
      check("into a view", x({r, 6, 16}).permute({1, 2, 0}), at({6, 4, 16, r}, dtype, 0).select(1, 2), fits);
      check("nothing", x({2, r, 0, 16}).permute({0, 2, 3, 1}), at({2, 0, 16, r}, dtype, 0), false);
      if (dtype == kBFloat16 && r == 2) {
        check("misaligned result", x({2, r, 7, 16}).permute({0, 2, 3, 1}), at({2, 7, 16, r}, dtype, 1), false);
        check("misaligned source", x({2, r, 7, 16}, 2).permute({0, 2, 3, 1}), at({2, 7, 16, r}, dtype, 0), false);
        check("odd width", x({2, r, 7, 18}).permute({0, 2, 3, 1}).narrow(2, 0, 17), at({2, 7, 17, r}, dtype, 0), false);
      }
    }
  }
}

}  // namespace
}  // namespace adjoint::testing
