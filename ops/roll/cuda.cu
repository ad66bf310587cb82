// roll on CUDA: one element of the result a thread; its bits are moved, whatever they mean.
#include <adjoint/core/cuda/launch.h>
#include <adjoint/ops/roll/kernels.h>

namespace adjoint::cuda {
namespace {

constexpr int kThreads = 256;

template <class Bits>
__global__ void roll_elements(RollAttr attr, std::int64_t count, const Bits* __restrict__ in, Bits* __restrict__ out) {
  const std::int64_t index = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index >= count) return;
  const std::int64_t place = index / attr.inner % attr.extent;
  const std::int64_t back = place < attr.shift ? attr.shift - attr.extent : attr.shift;
  out[index] = in[index - back * attr.inner];
}

template <class Bits>
void run(const Tensor& in, Tensor& out, const RollAttr& attr) {
  const auto blocks = static_cast<unsigned>((out.numel() + kThreads - 1) / kThreads);
  launch(roll_elements<Bits>, {.grid = dim3(blocks), .block = dim3(kThreads)}, out.device().index, attr, out.numel(),
         static_cast<const Bits*>(in.raw_data()), static_cast<Bits*>(out.raw_mutable_data()));
}

}  // namespace

void roll(std::span<const Tensor> in, Tensor& out, const RollAttr& attr) {
  visit_bits(out.dtype(), [&]<class Bits>() { run<Bits>(in[0], out, attr); });
}

}  // namespace adjoint::cuda
