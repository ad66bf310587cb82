#include <adjoint/core/cuda/profile.h>
#include <adjoint/core/cuda/runtime.h>

#include <nvtx3/nvToolsExt.h>

namespace adjoint::cuda {
namespace {

double attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  ADJOINT_CUDA(cudaDeviceGetAttribute(&value, which, device));
  return value;
}

// FLOP per clock and multiprocessor. From NVIDIA's A100, A10, L40 and H100 architecture white papers: the products'
// rates there, divided by multiprocessors and boost clock. 16-bit products are summed in float32.
struct PerClock {
  int compute_capability;
  double float64, float32, tf32, low;
};
constexpr PerClock kPerClock[] = {
    {80, 128, 128, 1024, 2048},
    {86, 4, 256, 256, 512},
    {89, 4, 256, 512, 1024},
    {90, 256, 256, 2048, 4096},
};

}  // namespace

void wait_for_device(int device) {
  const DeviceGuard guard(device);
  ADJOINT_CUDA(cudaDeviceSynchronize());
}

void push_range(const char* name) { nvtxRangePushA(name); }
void pop_range() { nvtxRangePop(); }

double peak_bytes_per_second(int device) {
  constexpr double kDataRate = 2.0, kKilohertz = 1e3, kBitsPerByte = 8.0;
  return kDataRate * kKilohertz * attribute(cudaDevAttrMemoryClockRate, device) *
         attribute(cudaDevAttrGlobalMemoryBusWidth, device) / kBitsPerByte;
}

double peak_flop_per_second(int device, DType dtype, bool tf32) {
  constexpr double kKilohertz = 1e3, kTen = 10.0;
  const double capability = kTen * attribute(cudaDevAttrComputeCapabilityMajor, device) +
                            attribute(cudaDevAttrComputeCapabilityMinor, device);
  for (const PerClock& known : kPerClock) {
    if (known.compute_capability != static_cast<int>(capability)) continue;
    double per_clock = tf32 ? known.tf32 : known.float32;
    if (dtype == kFloat64) per_clock = known.float64;
    if (dtype == kFloat16 || dtype == kBFloat16) per_clock = known.low;
    return per_clock * kKilohertz * attribute(cudaDevAttrClockRate, device) * multiprocessor_count(device);
  }
  return 0.0;
}

}  // namespace adjoint::cuda
