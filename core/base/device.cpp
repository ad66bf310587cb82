#include <adjoint/core/base/device.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/distributed/engine.h>

#include <atomic>
#include <charconv>
#include <system_error>

#if defined(ADJOINT_WITH_CUDA)
#include <adjoint/core/cuda/backend.h>
#endif

namespace adjoint {
namespace {

std::atomic<int> default_gpu{0};

}  // namespace

void distributed::set_default_gpu(int index) { default_gpu = index; }

void Device::no_such_device(DeviceType type, int index) {
  fail("Device: the type must be kCPU or kCUDA and the index 0 for the CPU, 0 to 127 for CUDA; got type {}, index {}",
       static_cast<int>(type), index);
}

Device Device::parsed(std::string_view name) {
  if (name == "cpu") return kCPU;
  if (name == "cuda") return kCUDA;
  constexpr std::string_view kPrefix = "cuda:";
  int index = -1;
  if (name.starts_with(kPrefix)) {
    const std::string_view digits = name.substr(kPrefix.size());
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (error != std::errc() || end != digits.data() + digits.size()) index = -1;
  }
  ADJOINT_CHECK(index >= 0 && index <= 127,
                "Device: a name must be \"cpu\", \"cuda\" or \"cuda:\" with an index from 0 to 127; got \"{}\"", name);
  return {DeviceType::kCUDA, index};
}

std::string to_string(Device device) {
  if (device.is_cpu()) return device.index == 0 ? "cpu" : fmt::format("cpu:{}", device.index);
  return device.is_cuda() ? fmt::format("cuda:{}", device.index)
                          : fmt::format("DeviceType({}):{}", static_cast<int>(device.type), device.index);
}

int cuda_device_count() {
#if defined(ADJOINT_WITH_CUDA)
  return cuda::device_count();
#else
  return 0;
#endif
}

bool cuda_is_available() { return cuda_device_count() > 0; }

int compute_capability(Device device) {
  if (device.is_cpu()) return 0;
  ADJOINT_CHECK(device.index < cuda_device_count(),
                "compute_capability: the device must exist; got {}, with {} CUDA devices available", device,
                cuda_device_count());
#if defined(ADJOINT_WITH_CUDA)
  return cuda::compute_capability(device.index);
#else
  return 0;
#endif
}

Device default_device() { return cuda_is_available() ? Device(DeviceType::kCUDA, default_gpu) : kCPU; }

}  // namespace adjoint
