// The part of CUDA's runtime that launches use, on the emulator, in place of core/cuda/runtime.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace adjoint::cuda {

struct DeviceGuard {
  explicit DeviceGuard(int /*device*/) {}
};

/// For later launches.
inline int emulated_multiprocessors = 3;
inline int multiprocessor_count(int /*device*/) { return emulated_multiprocessors; }

/// Every byte is 0xff at first: floats and halves are NaN.
class Workspace {
 public:
  Workspace(std::size_t nbytes, int /*device*/) : bytes_(nbytes + kAlignment, 0xff), nbytes_(nbytes) {}
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  void* data() const {
    const auto begin = reinterpret_cast<std::uintptr_t>(bytes_.data());
    return reinterpret_cast<void*>((begin + kAlignment - 1) / kAlignment * kAlignment);
  }
  std::size_t nbytes() const { return nbytes_; }

 private:
  static constexpr std::size_t kAlignment = 256;
  std::vector<unsigned char> bytes_;
  std::size_t nbytes_;
};

}  // namespace adjoint::cuda
