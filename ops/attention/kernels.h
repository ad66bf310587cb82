// Fused attention by device. in: query (N, H, L, E), key (N, G, S, E), value (N, G, S, V) and mask (N, H, L, S), which
// may be undefined, of any strides; G divides H, and query head h reads head h / (H / G). out: (N, H, L, V),
// contiguous, and the statistics of AttentionAttr::statistics(), undefined if no gradient needs them.
//
// The gradients' in: the result's gradient, the same four, the result, and the statistics. out: query's, key's and
// value's, contiguous, each without elements if it is not needed.
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/core/tensor/philox.h>
#include <adjoint/core/tensor/tensor.h>

#include <cstdint>
#include <span>

namespace adjoint {

struct AttentionAttr {
  double scale = 1.0;  // above 0
  double dropout_p = 0.0;
  bool is_causal = false;
  philox::Position at = {};  // the random numbers of dropout, as for a tensor (N, H, L, S)

  /// The shape of two numbers for each query: the log2 of the sum of its scores' powers of 2, then the maximum that was
  /// subtracted before. The rows of a head are padded.
  static Shape statistics(const Tensor& query) {
    constexpr std::int64_t kFields = 2, kRows = 128;
    return {kFields, query.size(0) * query.size(1), (query.size(2) + kRows - 1) / kRows * kRows};
  }
};

namespace cuda {
/// Returns true if the kernels run on the device for heads of these extents.
ADJOINT_API bool takes_attention(DType dtype, std::int64_t query_extent, std::int64_t value_extent, int device);
void attention_forward(std::span<const Tensor> in, std::span<Tensor> out, const AttentionAttr& attr);
void attention_backward(std::span<const Tensor> in, std::span<Tensor> out, const AttentionAttr& attr);
}  // namespace cuda

}  // namespace adjoint
