// Overlapping sums and magnitudes on the CPU.
#include <adjoint/core/base/parallel.h>
#include <adjoint/ops/elementwise/scalar_math.h>
#include <adjoint/ops/signal/kernels.h>

#include <algorithm>

namespace adjoint::cpu {
namespace {

constexpr std::int64_t kFrameElementsPerTask = 1 << 14;  // enough to outweigh handing a task to another thread

// Adds the frames in their order to elements [begin, end) of a signal, which are zero.
template <class T>
void add_frames(const T* frames, T* signal, std::int64_t begin, std::int64_t end, const FrameAttr& attr) {
  const std::int64_t first = begin < attr.size ? 0 : (begin - attr.size) / attr.hop + 1;
  const std::int64_t last = std::min(attr.count() - 1, (end - 1) / attr.hop);
  for (std::int64_t t = first; t <= last; ++t) {
    const std::int64_t start = t * attr.hop, from = std::max(begin, start), to = std::min(end, start + attr.size);
    const T* const frame = frames + t * attr.size - start;
    for (std::int64_t i = from; i < to; ++i) signal[i] += frame[i];
  }
}

template <class T>
void add(const Tensor& in, Tensor& out, const FrameAttr& attr) {
  const T* const from = in.data<T>();
  T* const to = out.mutable_data<T>();
  const std::int64_t blocks = (attr.length - 1) / kFrameElementsPerTask + 1;
  parallel_ranges(out.numel() / attr.length * blocks, std::max<std::int64_t>(1, kFrameElementsPerTask / attr.length),
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t block = begin; block < end; ++block) {
                      const std::int64_t row = block / blocks, first = block % blocks * kFrameElementsPerTask;
                      const std::int64_t behind = std::min(attr.length, first + kFrameElementsPerTask);
                      T* const signal = to + row * attr.length;
                      std::fill(signal + first, signal + behind, T(0));
                      add_frames(from + row * attr.count() * attr.size, signal, first, behind, attr);
                    }
                  });
}

template <class T>
void measure(const Tensor& in, Tensor& out, bool squared) {
  const T* const from = in.data<T>();
  T* const to = out.mutable_data<T>();
  parallel_ranges(out.numel(), kFrameElementsPerTask, [=](std::int64_t begin, std::int64_t end) {
    if (squared) {
      for (std::int64_t i = begin; i < end; ++i) to[i] = from[2 * i] * from[2 * i] + from[2 * i + 1] * from[2 * i + 1];
    } else {
      for (std::int64_t i = begin; i < end; ++i) to[i] = scalar::hypot(from[2 * i], from[2 * i + 1]);
    }
  });
}

}  // namespace

void magnitudes(std::span<const Tensor> in, Tensor& out, const MagnitudeAttr& attr) {
  const auto run = out.dtype() == kFloat64 ? measure<double> : measure<float>;
  run(in[0], out, attr.squared);
}

void overlap_add(std::span<const Tensor> in, Tensor& out, const FrameAttr& attr) {
  out.dtype() == kFloat64 ? add<double>(in[0], out, attr) : add<float>(in[0], out, attr);
}

}  // namespace adjoint::cpu
