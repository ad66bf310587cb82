// Transforms by Eigen, a row after the other, and overlapping sums, on the CPU.
#include <adjoint/core/parallel.h>
#include <adjoint/ops/signal/kernels.h>

#include <unsupported/Eigen/FFT>

#include <algorithm>
#include <complex>
#include <map>
#include <vector>

namespace adjoint::cpu {
namespace {

constexpr std::int64_t kElementsPerTask = 1 << 14;  // enough to outweigh handing a task to another thread
constexpr std::size_t kPlans = 8;                   // tables that a thread keeps, of n numbers each

std::int64_t rows_per_task(std::int64_t n) { return std::max<std::int64_t>(1, kElementsPerTask / n); }

// Its tables are made where it is first used, and it has memory of its own: one a thread.
template <class T>
Eigen::FFT<T>& transform_of(std::int64_t n) {
  thread_local std::map<std::int64_t, Eigen::FFT<T>> made;
  const auto found = made.find(n);
  if (found != made.end()) return found->second;
  if (made.size() == kPlans) made.clear();
  Eigen::FFT<T>& transform = made[n];
  transform.SetFlag(Eigen::FFT<T>::Unscaled);
  transform.SetFlag(Eigen::FFT<T>::HalfSpectrum);
  return transform;
}

// to = from times what each bin counts; bins that are their own conjugates are real.
template <class T>
void weigh(const std::complex<T>* from, std::complex<T>* to, T own, T shared, const FftAttr& attr) {
  const std::int64_t bins = attr.bins(), paired = (attr.n + 1) / 2;  // [1, paired) have a conjugate in the other half
  to[0] = from[0].real() * own;
  for (std::int64_t k = 1; k < paired; ++k) to[k] = {from[k].real() * shared, from[k].imag() * shared};
  if (paired < bins) to[paired] = from[paired].real() * own;
}

template <class T>
void forward(const Tensor& in, Tensor& out, const FftAttr& attr) {
  const T* const from = in.data<T>();
  auto* const to = reinterpret_cast<std::complex<T>*>(out.mutable_data<T>());
  const auto own = static_cast<T>(attr.scale), shared = static_cast<T>(attr.doubled ? 2 * attr.scale : attr.scale);
  parallel_ranges(in.numel() / attr.n, rows_per_task(attr.n), [&](std::int64_t begin, std::int64_t end) {
    Eigen::FFT<T>& transform = transform_of<T>(attr.n);
    for (std::int64_t row = begin; row < end; ++row) {
      std::complex<T>* const bins = to + row * attr.bins();
      if (attr.n == 1) {  // which Eigen does not take
        bins[0] = from[row];
      } else {
        transform.fwd(bins, from + row * attr.n, attr.n);
      }
      weigh(bins, bins, own, shared, attr);
    }
  });
}

template <class T>
void inverse(const Tensor& in, Tensor& out, const FftAttr& attr) {
  const auto* const from = reinterpret_cast<const std::complex<T>*>(in.data<T>());
  T* const to = out.mutable_data<T>();
  // Eigen counts both halves.
  const auto own = static_cast<T>(attr.scale), shared = static_cast<T>(attr.doubled ? attr.scale : attr.scale / 2);
  parallel_ranges(out.numel() / attr.n, rows_per_task(attr.n), [&](std::int64_t begin, std::int64_t end) {
    Eigen::FFT<T>& transform = transform_of<T>(attr.n);
    std::vector<std::complex<T>> bins(static_cast<std::size_t>(attr.bins()));
    for (std::int64_t row = begin; row < end; ++row) {
      weigh(from + row * attr.bins(), bins.data(), own, shared, attr);
      if (attr.n == 1) {
        to[row] = bins[0].real();
      } else {
        transform.inv(to + row * attr.n, bins.data(), attr.n);
      }
    }
  });
}

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
  const std::int64_t blocks = (attr.length - 1) / kElementsPerTask + 1;
  parallel_ranges(out.numel() / attr.length * blocks, std::max<std::int64_t>(1, kElementsPerTask / attr.length),
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t block = begin; block < end; ++block) {
                      const std::int64_t row = block / blocks, first = block % blocks * kElementsPerTask;
                      const std::int64_t behind = std::min(attr.length, first + kElementsPerTask);
                      T* const signal = to + row * attr.length;
                      std::fill(signal + first, signal + behind, T(0));
                      add_frames(from + row * attr.count() * attr.size, signal, first, behind, attr);
                    }
                  });
}

}  // namespace

void rfft(std::span<const Tensor> in, Tensor& out, const FftAttr& attr) {
  out.dtype() == kFloat64 ? forward<double>(in[0], out, attr) : forward<float>(in[0], out, attr);
}

void irfft(std::span<const Tensor> in, Tensor& out, const FftAttr& attr) {
  out.dtype() == kFloat64 ? inverse<double>(in[0], out, attr) : inverse<float>(in[0], out, attr);
}

void overlap_add(std::span<const Tensor> in, Tensor& out, const FrameAttr& attr) {
  out.dtype() == kFloat64 ? add<double>(in[0], out, attr) : add<float>(in[0], out, attr);
}

}  // namespace adjoint::cpu
