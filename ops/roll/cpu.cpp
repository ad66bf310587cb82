// roll on the CPU: each (extent, inner) block is two runs of bytes that trade places.
#include <adjoint/core/base/parallel.h>
#include <adjoint/ops/roll/kernels.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace adjoint::cpu {
namespace {

constexpr std::int64_t kBytesPerTask = 1 << 18;  // enough to outweigh handing a task to another thread

}  // namespace

void roll(std::span<const Tensor> in, Tensor& out, const RollAttr& attr) {
  const std::int64_t step = attr.inner * element_size(out.dtype());  // bytes
  const std::int64_t block = attr.extent * step;
  const auto head = static_cast<std::size_t>(attr.shift * step);
  const auto tail = static_cast<std::size_t>(block) - head;

  const auto* from = static_cast<const std::byte*>(in[0].raw_data());
  auto* to = static_cast<std::byte*>(out.raw_mutable_data());
  const std::int64_t blocks = out.numel() / (attr.extent * attr.inner);
  parallel_ranges(blocks, std::max<std::int64_t>(1, kBytesPerTask / block), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin * block; at < end * block; at += block) {
      std::memcpy(to + at + head, from + at, tail);
      std::memcpy(to + at, from + at + tail, head);
    }
  });
}

}  // namespace adjoint::cpu
