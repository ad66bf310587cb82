#include <adjoint/ops/view/memory_order.h>

namespace adjoint {

Tensor to_memory_order(const Tensor& x) { return x.permute(memory_order(x.shape().size(), kChannelsLast)); }

Tensor from_memory_order(const Tensor& x) {
  Dims back;
  for (std::size_t axis = 0; axis < x.shape().size(); ++axis) {
    back.push_back(static_cast<std::int64_t>(memory_axis(axis, x.shape().size())));
  }
  return x.permute(back);
}

}  // namespace adjoint
