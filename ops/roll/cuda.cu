// roll on CUDA: a thread has neighbours that fill 16 bytes, and moves their bits for every dtype.
#include <adjoint/ops/roll/kernels.h>
#include <adjoint/core/cuda/elementwise.cuh>
#include <adjoint/core/cuda/rows.cuh>

namespace adjoint::cuda {
namespace {

constexpr int kThreads = detail::kElementwiseThreads;

// Rows of `period` elements, whose last `shift` elements become the first. `whole`: both are multiples of V, and the
// operands are aligned to packs.
template <int V, class Bits>
__global__ void __launch_bounds__(kThreads)
    roll_elements(RowSplit by_period, std::int64_t period, std::int64_t shift, bool whole, std::int64_t count,
                  const Bits* __restrict__ in, Bits* __restrict__ out) {
  const std::int64_t first = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * V;
  if (first >= count) return;
  std::int64_t place = first;
  by_period(place);
  const auto source = [&](std::int64_t at) { return at < shift ? period - shift : -shift; };  // from the element itself
  Pack<Bits, V> pack;
  if (whole) {
    pack = *reinterpret_cast<const Pack<Bits, V>*>(in + first + source(place));
  } else {
#pragma unroll
    for (int v = 0; v < V; ++v) {
      if (first + v < count) pack.values[v] = in[first + v + source(place)];
      if (++place == period) place = 0;
    }
  }
  detail::store_contiguous(pack, out + first, count - first, is_aligned<Bits, V>(out));
}

template <class Bits>
void run(const Tensor& in, Tensor& out, const RollAttr& attr) {
  constexpr int kPack = static_cast<int>(16 / sizeof(Bits));
  const std::int64_t count = out.numel();
  if (count == 0) return;
  const std::int64_t period = attr.extent * attr.inner, shift = attr.shift * attr.inner;
  const auto* from = static_cast<const Bits*>(in.raw_data());
  auto* to = static_cast<Bits*>(out.raw_mutable_data());
  const bool whole =
      period % kPack == 0 && shift % kPack == 0 && is_aligned<Bits, kPack>(from) && is_aligned<Bits, kPack>(to);
  launch(roll_elements<kPack, Bits>, detail::covering_geometry((count - 1) / kPack + 1), out.device().index,
         RowSplit(period, count), period, shift, whole, count, from, to);
}

}  // namespace

void roll(std::span<const Tensor> in, Tensor& out, const RollAttr& attr) {
  visit_bits(out.dtype(), [&]<class Bits>() { run<Bits>(in[0], out, attr); });
}

}  // namespace adjoint::cuda
