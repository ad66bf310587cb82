// Calls fused attention's kernels for an arithmetic; each has its own translation unit.
#include <adjoint/ops/attention/cuda/attention.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/base/precision.h>
#include <adjoint/ops/conv/base/cuda/gpu.h>

#include <algorithm>

namespace adjoint::cuda {
namespace {

// run.operator()<kArithmetic>()
template <class Run>
void in_arithmetic(DType dtype, const Run& run) {
  switch (dtype) {
    case kBFloat16: return run.template operator()<Arithmetic::kBFloat16>();
    case kFloat16: return run.template operator()<Arithmetic::kFloat16>();
    case kFloat32: return run.template operator()<Arithmetic::kTF32>();
    default: break;
  }
  ADJOINT_ASSERT(false, "attention has no kernel of this dtype");
}

}  // namespace

bool takes_attention(DType dtype, std::int64_t query_extent, std::int64_t value_extent, int device) {
  constexpr std::int64_t kMostExtent = 256, kPackBytes = 16;
  const std::int64_t size = element_size(dtype), longest = std::max(query_extent, value_extent);
  const bool runs = element_size(dtype) == 2 || (dtype == kFloat32 && float32_precision() == Precision::kTF32);
  return runs && longest <= kMostExtent && query_extent * size % kPackBytes == 0 &&
         value_extent * size % kPackBytes == 0 && runs_wgmma(device);
}

void attention_forward(std::span<const Tensor> in, std::span<Tensor> out, const AttentionAttr& attr) {
  in_arithmetic(in[0].dtype(), [&]<Arithmetic kIn>() { run_attention<kIn>(in, out, attr); });
}

void attention_backward(std::span<const Tensor> in, std::span<Tensor> out, const AttentionAttr& attr) {
  in_arithmetic(in[0].dtype(), [&]<Arithmetic kIn>() { run_attention_gradients<kIn>(in, out, attr); });
}

}  // namespace adjoint::cuda
