#include <adjoint/core/base/cpu_isa.h>

#include <adjoint/core/base/check.h>

#include <atomic>
#include <cstdlib>
#include <string_view>

namespace adjoint {
namespace {

constexpr const char* kIsaNames[] = {"baseline", "avx2", "avx512"};

const char* name(CpuIsa isa) { return kIsaNames[static_cast<int>(isa)]; }

CpuIsa checked(const char* source, CpuIsa isa) {
  ADJOINT_CHECK(isa <= best_cpu_isa(), "{}: this CPU must have the instruction set; got {}, it has {} at best", source,
                name(isa), name(best_cpu_isa()));
  return isa;
}

CpuIsa initial_isa() {
  const char* wanted = std::getenv("ADJOINT_CPU_ISA");
  if (wanted == nullptr || *wanted == '\0') return best_cpu_isa();
  for (const CpuIsa isa : {CpuIsa::kBaseline, CpuIsa::kAvx2, CpuIsa::kAvx512}) {
    if (std::string_view(wanted) == name(isa)) return checked("ADJOINT_CPU_ISA", isa);
  }
  fail("ADJOINT_CPU_ISA: must be baseline, avx2 or avx512; got '{}'", wanted);
}

std::atomic<CpuIsa>& current_isa() {
  static std::atomic<CpuIsa> isa{initial_isa()};
  return isa;
}

}  // namespace

CpuIsa best_cpu_isa() {
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  return avx512 ? CpuIsa::kAvx512 : avx2 ? CpuIsa::kAvx2 : CpuIsa::kBaseline;
#else
  return CpuIsa::kBaseline;
#endif
}

CpuIsa cpu_isa() { return current_isa().load(std::memory_order_relaxed); }

CpuIsaGuard::CpuIsaGuard(CpuIsa isa) : before_(cpu_isa()) { current_isa() = checked("CpuIsaGuard", isa); }
CpuIsaGuard::~CpuIsaGuard() { current_isa() = before_; }

}  // namespace adjoint
