// The location of a tensor's bytes.
#pragma once

#include <adjoint/core/base/export.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

namespace adjoint {

enum class DeviceType : std::uint8_t { kCPU, kCUDA };

/// The CPU, or one CUDA device by its index: kCPU, Device(DeviceType::kCUDA, 1), Device("cuda:1").
struct Device {
  DeviceType type = DeviceType::kCPU;
  std::int8_t index = 0;

  constexpr Device() = default;
  /// Throws Error for an index that no device can have: below 0, above 127, or other than 0 for the CPU.
  constexpr Device(DeviceType t, int i = 0) : type(t), index(static_cast<std::int8_t>(i)) {
    if (i < 0 || i > (t == DeviceType::kCUDA ? 127 : 0) || t > DeviceType::kCUDA) no_such_device(t, i);
  }
  /// From its name: "cpu", "cuda", which is "cuda:0", or "cuda:1". Throws Error for any other name.
  template <class Name>
  requires(std::convertible_to<const Name&, std::string_view> && !std::same_as<Name, std::nullptr_t>)
      Device(const Name& name)  // NOLINT(google-explicit-constructor)
      : Device(parsed(std::string_view(name))) {}
  constexpr bool is_cpu() const { return type == DeviceType::kCPU; }
  constexpr bool is_cuda() const { return type == DeviceType::kCUDA; }
  friend constexpr bool operator==(const Device&, const Device&) = default;

 private:
  ADJOINT_API static Device parsed(std::string_view name);
  [[noreturn]] ADJOINT_API static void no_such_device(DeviceType type, int index);
};

inline constexpr Device kCPU{DeviceType::kCPU};
inline constexpr Device kCUDA{DeviceType::kCUDA};

/// "cpu", "cuda:0".
ADJOINT_API std::string to_string(Device device);
ADJOINT_API std::ostream& operator<<(std::ostream& out, Device device);
/// The number of CUDA devices that this build can use; 0 if it was built without CUDA.
ADJOINT_API int cuda_device_count();
ADJOINT_API bool cuda_is_available();
/// 10 * major + minor of a CUDA device's compute capability: 90 for an H100. 0 for the CPU. Throws Error for a device
/// that does not exist.
ADJOINT_API int compute_capability(Device device);
/// kCUDA if a CUDA device is available, else kCPU.
ADJOINT_API Device default_device();

}  // namespace adjoint
