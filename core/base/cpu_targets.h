// Loops compiled for each of the CPU's instruction sets. Internal.
//
// If a loop's body consists of templates and inline functions, as with elementwise functors, a file compiled for AVX2
// would leave copies of them that the linker may use elsewhere. Here each instruction set is an attribute of one
// function, into which everything it calls is inlined; copies outside it are for every CPU. Files that use this are
// compiled without contraction of products and sums (cmake/AdjointModule.cmake).
#pragma once

#include <adjoint/core/base/cpu_isa.h>

namespace adjoint {

#if defined(__x86_64__)
#define ADJOINT_AVX2 "avx2,fma,f16c"
#if defined(__clang__)
#define ADJOINT_AVX512 ADJOINT_AVX2 ",avx512f,avx512dq,avx512bw,avx512vl"
#else
#define ADJOINT_AVX512 ADJOINT_AVX2 ",avx512f,avx512dq,avx512bw,avx512vl,prefer-vector-width=512"
#endif

namespace detail {

template <class F>
[[gnu::target(ADJOINT_AVX2), gnu::flatten]] void run_avx2(const F& f) {
  f();
}
template <class F>
[[gnu::target(ADJOINT_AVX512), gnu::flatten]] void run_avx512(const F& f) {
  f();
}
template <class F>
[[gnu::flatten, gnu::noinline]] void run_baseline(const F& f) {
  f();
}

}  // namespace detail

/// f(), compiled for the instruction set of cpu_isa(), or for kWidest if that is less.
template <CpuIsa kWidest = CpuIsa::kAvx512, class F>
void run_for_isa(const F& f) {
  const CpuIsa isa = cpu_isa();
  if constexpr (kWidest == CpuIsa::kAvx512) {
    if (isa == CpuIsa::kAvx512) return detail::run_avx512(f);
  }
  return isa == CpuIsa::kBaseline ? detail::run_baseline(f) : detail::run_avx2(f);
}

#undef ADJOINT_AVX2
#undef ADJOINT_AVX512
#else

template <CpuIsa kWidest = CpuIsa::kAvx512, class F>
void run_for_isa(const F& f) {
  f();
}

#endif

}  // namespace adjoint
