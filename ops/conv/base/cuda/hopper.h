// Where the kernels that use wgmma run.
#pragma once

namespace adjoint::cuda {

/// On sm_90 itself, not what comes later, in a build that holds their sm_90a code.
bool runs_wgmma(int device);

}  // namespace adjoint::cuda
