// You are at stop 3 of 7 of the README's reading path, an elementwise operator: this is the loop on a CPU.
// ops/elementwise/cuda/map.cuh comes next.
//
// Elementwise loops on the CPU. For each functor and dtype the compiler sees one loop, over contiguous spans, which it
// vectorises; operands that are not contiguous are gathered, a block at a time, into buffers that stay in the L1 cache.
#pragma once

#include <adjoint/core/base/cpu_targets.h>
#include <adjoint/core/base/vector_math.h>
#include <adjoint/core/tensor/convert.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/ops/elementwise/functor.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <type_traits>

// An operand may be the result itself, but never overlaps it shifted. Without this promise GCC checks for overlap at
// run time, and does not vectorise if the result is an operand. clang's equivalent warns wherever it cannot be used.
#if defined(__clang__)
#define ADJOINT_INDEPENDENT_ITERATIONS
#else
#define ADJOINT_INDEPENDENT_ITERATIONS _Pragma("GCC ivdep")
#endif

namespace adjoint::cpu {

inline constexpr int kMaxArity = 4;

/// One instantiated loop: `run` reads `n` elements of each operand and writes n results.
struct SpanLoop {
  void (*run)(const void* const* in, void* out, std::int64_t n, const void* functor);
  const void* functor;
};

/// Feeds all of `out` (contiguous) and the operands (any strides) to `loop`, in parallel. If `widens`, the operands and
/// the result, unless it is bool, have a 16-bit format, and the loop runs on blocks converted to float32.
void run_spans(std::span<const Tensor> in, Tensor& out, const SpanLoop& loop, bool widens = false);

/// The number of elements that are computed together. Every element passes the same loop of a fixed count, so its
/// result does not depend on its position: vectors of a loop's remainder, or single numbers, may round differently.
inline constexpr std::int64_t kSpanBlock = 64;

/// The next block of an operand; the last block is padded with its last element.
template <class T>
const T* span_block(const T* from, std::int64_t rest, T* filled) {
  if (rest >= kSpanBlock) return from;
  for (std::int64_t j = 0; j < kSpanBlock; ++j) filled[j] = from[j < rest ? j : rest - 1];
  return filled;
}

/// The widest instruction set for which a functor's loops of float32 and float64 are compiled. If an element needs
/// little computation, AVX2 is at least as fast: an EPYC (Zen 4) takes 3 to 15% more time for reads and writes in
/// 512-bit vectors, and also for libmvec's erff (bench/lab/LOG.md).
template <template <class> class F>
inline constexpr CpuIsa kWidestIsa = CpuIsa::kAvx512;
// Placed before the functors' instantiations.
#define ADJOINT_UP_TO_AVX2(F, ...) \
  template <>                      \
  inline constexpr CpuIsa kWidestIsa<functor::F> = CpuIsa::kAvx2;
#define ADJOINT_UNARY_UP_TO_AVX2(F, ...) \
  ADJOINT_UP_TO_AVX2(F)                  \
  ADJOINT_UP_TO_AVX2(GradientOf<functor::F>::Functor)

template <template <class> class F, class T>
void span_loop(const void* const* in, void* out, std::int64_t n, const void* functor) {
  using Traits = F<float>;
  using Result = std::conditional_t<Traits::kPredicate, bool, T>;
  using First = std::conditional_t<Traits::kMask, bool, T>;
  constexpr CpuIsa kWidest = std::is_floating_point_v<T> ? kWidestIsa<F> : CpuIsa::kAvx512;
  run_for_isa<kWidest>([=] {
    const F<T> f = *static_cast<const F<T>*>(functor);
    First filled_a[kSpanBlock];
    [[maybe_unused]] T filled_b[kSpanBlock], filled_c[kSpanBlock];
    Result results[kSpanBlock];
    for (std::int64_t i = 0; i < n; i += kSpanBlock) {
      const std::int64_t rest = n - i;
      Result* const to = static_cast<Result*>(out) + i;
      Result* const result = rest < kSpanBlock ? results : to;
      const First* const a = span_block(static_cast<const First*>(in[0]) + i, rest, filled_a);
      if constexpr (Traits::kArity == 1) {
        ADJOINT_INDEPENDENT_ITERATIONS
        for (std::int64_t j = 0; j < kSpanBlock; ++j) result[j] = convert<Result>(f(a[j]));
      } else if constexpr (Traits::kArity == 2) {
        const T* const b = span_block(static_cast<const T*>(in[1]) + i, rest, filled_b);
        ADJOINT_INDEPENDENT_ITERATIONS
        for (std::int64_t j = 0; j < kSpanBlock; ++j) result[j] = convert<Result>(f(a[j], b[j]));
      } else {
        const T* const b = span_block(static_cast<const T*>(in[1]) + i, rest, filled_b);
        const T* const c = span_block(static_cast<const T*>(in[2]) + i, rest, filled_c);
        ADJOINT_INDEPENDENT_ITERATIONS
        for (std::int64_t j = 0; j < kSpanBlock; ++j) result[j] = convert<Result>(f(a[j], b[j], c[j]));
      }
      if (rest < kSpanBlock) std::copy(results, results + rest, to);
    }
  });
}

template <template <class> class F>
void map(std::span<const Tensor> in, Tensor& out, const typename F<float>::Attr& attr) {
  using Traits = F<float>;
  const auto run = [&]<class T>() {
    using Compute = functor::compute_of<F, T>;
    const auto functor = functor::make<F<Compute>>(attr);
    run_spans(in, out, {span_loop<F, Compute>, &functor}, !std::is_same_v<T, Compute>);
  };
  const DType dtype = in[Traits::kMask ? 1 : 0].dtype();
  if constexpr (Traits::kAccepts == functor::kFloating) {
    visit_floating(dtype, run);
  } else if constexpr (Traits::kAccepts == functor::kEverything) {
    visit(dtype, run);
  } else {
    visit(dtype, [&]<class T>() {
      if constexpr (!std::is_same_v<T, bool>) run.template operator()<T>();
    });
  }
}

}  // namespace adjoint::cpu
