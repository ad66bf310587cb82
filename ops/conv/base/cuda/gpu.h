// The properties of a problem's GPU by which kernels are chosen.
#pragma once

#include <adjoint/core/base/export.h>

#include <optional>

namespace adjoint::cuda {

struct Gpu {
  int architecture;        // its compute capability, 10 * major + minor
  bool runs_wgmma;         // true for sm_90 itself, not later architectures, in a build with sm_90a code
  int smem_bytes;          // shared memory per multiprocessor
  int smem_bytes_a_block;  // the most of it that a block may have

  friend bool operator==(const Gpu&, const Gpu&) = default;
};

/// Queries the driver once per thread and device.
ADJOINT_API Gpu gpu_of(int device);

inline bool runs_wgmma(int device) { return gpu_of(device).runs_wgmma; }

/// While it lives, this thread treats every device as `gpu`: tests choose kernels, without running them, without a GPU.
class ADJOINT_API PretendGpu {
 public:
  explicit PretendGpu(const Gpu& gpu);
  ~PretendGpu();
  PretendGpu(const PretendGpu&) = delete;
  PretendGpu& operator=(const PretendGpu&) = delete;

 private:
  std::optional<Gpu> before_;
};

/// Returns true if `device` runs this build's code for sm_90a.
bool has_wgmma_code(int device);

}  // namespace adjoint::cuda
