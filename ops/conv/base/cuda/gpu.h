// What kernels are chosen by of the GPU that a problem runs on.
#pragma once

#include <adjoint/core/export.h>

#include <optional>

namespace adjoint::cuda {

struct Gpu {
  int architecture;        // its compute capability, 10 * major + minor
  bool runs_wgmma;         // whether it is sm_90 itself, not what comes later, in a build that holds sm_90a code
  int smem_bytes;          // shared memory of a multiprocessor
  int smem_bytes_a_block;  // of which a block may have so much

  friend bool operator==(const Gpu&, const Gpu&) = default;
};

/// The driver is asked once a thread and device.
ADJOINT_API Gpu gpu_of(int device);

inline bool runs_wgmma(int device) { return gpu_of(device).runs_wgmma; }

/// While it lives, this thread takes every device for `gpu`: tests choose kernels, and run none, without a GPU.
class ADJOINT_API PretendGpu {
 public:
  explicit PretendGpu(const Gpu& gpu);
  ~PretendGpu();
  PretendGpu(const PretendGpu&) = delete;
  PretendGpu& operator=(const PretendGpu&) = delete;

 private:
  std::optional<Gpu> before_;
};

/// Whether `device` runs this build's code for sm_90a.
bool has_wgmma_code(int device);

}  // namespace adjoint::cuda
