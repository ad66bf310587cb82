// Transforms by cuFFT: each thread's plans, most recently used first, and their workspace in the order of the current
// stream.
#include <adjoint/core/base/check.h>
#include <adjoint/core/cuda/runtime.h>
#include <adjoint/ops/signal/kernels.h>

#include <cufft.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace adjoint::cuda {
namespace {

constexpr std::size_t kPlans = 32;

void check_fft(cufftResult status, const char* call) {
  if (status == CUFFT_SUCCESS) [[likely]]
    return;
  fail("cufft: {} must succeed; got status {}; see cuFFT's documentation of cufftResult", call,
       static_cast<int>(status));
}

#define ADJOINT_CUFFT(call) check_fft((call), #call)

struct Plan {
  int device = 0;
  cufftType type = CUFFT_R2C;
  std::int64_t n = 0, rows = 0;
  cufftHandle handle = 0;
  std::size_t workspace_bytes = 0;

  bool does(const Plan& other) const {
    return device == other.device && type == other.type && n == other.n && rows == other.rows;
  }
};

// The device must be current.
void make(Plan& plan) {
  ADJOINT_CUFFT(cufftCreate(&plan.handle));
  try {
    ADJOINT_CUFFT(cufftSetAutoAllocation(plan.handle, 0));
    long long n[] = {plan.n};
    ADJOINT_CUFFT(cufftMakePlanMany64(plan.handle, 1, n, nullptr, 1, 0, nullptr, 1, 0, plan.type, plan.rows,
                                      &plan.workspace_bytes));
  } catch (...) {
    cufftDestroy(plan.handle);
    throw;
  }
}

class Plans {
 public:
  Plans() { plans_.reserve(kPlans); }
  ~Plans() {
    for (const Plan& plan : plans_) cufftDestroy(plan.handle);
  }

  const Plan& of(const Plan& wanted) {
    const auto found = std::find_if(plans_.begin(), plans_.end(), [&](const Plan& p) { return p.does(wanted); });
    if (found != plans_.end()) {
      std::rotate(plans_.begin(), found, found + 1);
      return plans_.front();
    }
    Plan made = wanted;
    make(made);
    if (plans_.size() == kPlans) {
      cufftDestroy(plans_.back().handle);
      plans_.pop_back();
    }
    plans_.insert(plans_.begin(), made);
    return plans_.front();
  }

 private:
  std::vector<Plan> plans_;
};

void run(cufftType type, const FftAttr& attr, std::int64_t rows, int device, const void* from, void* to) {
  const DeviceGuard guard(device);
  thread_local Plans plans;
  const Plan& plan = plans.of({.device = device, .type = type, .n = attr.n, .rows = rows});
  const Workspace workspace(plan.workspace_bytes, device);
  ADJOINT_CUFFT(cufftSetStream(plan.handle, current_stream(device)));
  ADJOINT_CUFFT(cufftSetWorkArea(plan.handle, workspace.data()));
  void* const source = const_cast<void*>(from);  // cuFFT's functions are not const-correct
  switch (type) {
    case CUFFT_R2C:
      return ADJOINT_CUFFT(cufftExecR2C(plan.handle, static_cast<cufftReal*>(source), static_cast<cufftComplex*>(to)));
    case CUFFT_D2Z:
      return ADJOINT_CUFFT(
          cufftExecD2Z(plan.handle, static_cast<cufftDoubleReal*>(source), static_cast<cufftDoubleComplex*>(to)));
    case CUFFT_C2R:
      return ADJOINT_CUFFT(cufftExecC2R(plan.handle, static_cast<cufftComplex*>(source), static_cast<cufftReal*>(to)));
    default:
      return ADJOINT_CUFFT(
          cufftExecZ2D(plan.handle, static_cast<cufftDoubleComplex*>(source), static_cast<cufftDoubleReal*>(to)));
  }
}

}  // namespace

void rfft(std::span<const Tensor> in, Tensor& out, const FftAttr& attr) {
  const int device = out.device().index;
  const cufftType type = out.dtype() == kFloat64 ? CUFFT_D2Z : CUFFT_R2C;
  const std::int64_t rows = in[0].numel() / attr.n;
  const auto* from = static_cast<const std::byte*>(in[0].raw_data());
  // cuFFT reads pairs, so a view that begins at an odd element is copied.
  const bool aligned =
      reinterpret_cast<std::uintptr_t>(from) % (2 * static_cast<std::uintptr_t>(element_size(out.dtype()))) == 0;
  const Workspace moved(aligned ? 0 : in[0].nbytes(), device);
  if (!aligned) {
    ADJOINT_CUDA(cudaMemcpyAsync(moved.data(), from, in[0].nbytes(), cudaMemcpyDeviceToDevice, current_stream(device)));
    from = static_cast<const std::byte*>(moved.data());
  }
  run(type, attr, rows, device, from, out.raw_mutable_data());
  if (attr.doubled || attr.scale != 1.0) {
    weigh_bins(out.dtype(), out.raw_data(), out.raw_mutable_data(), rows, attr.n, attr.scale,
               attr.doubled ? 2 * attr.scale : attr.scale, device);
  }
}

void irfft(std::span<const Tensor> in, Tensor& out, const FftAttr& attr) {
  const int device = out.device().index;
  const cufftType type = out.dtype() == kFloat64 ? CUFFT_Z2D : CUFFT_C2R;
  const std::int64_t rows = out.numel() / attr.n;
  // cuFFT overwrites its input, and counts both halves.
  const Workspace bins(in[0].nbytes(), device);
  weigh_bins(out.dtype(), in[0].raw_data(), bins.data(), rows, attr.n, attr.scale,
             attr.doubled ? attr.scale : attr.scale / 2, device);
  run(type, attr, rows, device, bins.data(), out.raw_mutable_data());
}

}  // namespace adjoint::cuda
