// nonzero: counts flags in chunks, adds the counts up on the CPU, and writes each chunk's places behind those of the
// chunks before.
#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/copy.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/index/index.h>
#include <adjoint/ops/index/kernels.h>

namespace adjoint {

#if defined(ADJOINT_WITH_CUDA)
#define ADJOINT_ON_DEVICE(tensor, call) (tensor).device().is_cuda() ? cuda::call : cpu::call
#else
#define ADJOINT_ON_DEVICE(tensor, call) cpu::call
#endif

Tensor nonzero(const Tensor& x) {
  const OpScope scope("nonzero");
  check_defined("nonzero", "x", x);
  const Tensor flags = contiguous_copy(x.detach().to(kBool));
  const auto rank = static_cast<std::int64_t>(x.shape().size());
  const Device device = x.device();
  std::int64_t total = 0;
  Tensor counts;
  if (x.numel() > 0) {
    const Shape chunks{(x.numel() - 1) / kNonzeroChunk + 1};
    counts = make_tensor({chunks, kInt64}, device);
    ADJOINT_ON_DEVICE(flags, count_flags(flags, counts));
    Tensor before = counts.to(kCPU);
    if (before.impl() == counts.impl()) before = counts.clone();
    auto* const data = before.mutable_data<std::int64_t>();
    for (std::int64_t c = 0; c < before.numel(); ++c) {
      const std::int64_t here = data[c];
      data[c] = total;
      total += here;
    }
    counts = before.to(device);
  }
  Tensor places = make_tensor({{total, rank}, kInt64}, device);
  if (places.numel() > 0) ADJOINT_ON_DEVICE(flags, write_places(flags, counts, x.shape(), places));
  return places;
}

Tensor masked_select(const Tensor& x, const Tensor& mask) {
  const OpScope scope("masked_select");
  check_defined("masked_select", "x", x);
  check_defined("masked_select", "mask", mask);
  ADJOINT_CHECK(mask.dtype() == kBool, "masked_select: mask must be bool; got {}", mask.dtype());
  Shape shape = broadcast_shapes("masked_select", x.shape(), mask.shape());
  if (shape.empty()) shape = {1};
  return index(x.expand(shape), {mask.expand(shape)});
}

}  // namespace adjoint
