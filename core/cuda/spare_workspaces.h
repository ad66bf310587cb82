// Workspaces that a thread keeps for its next kernels. Small calls are bound by the host's time, and the pool's two
// calls are part of it.
#pragma once

#include <cstddef>

namespace adjoint::cuda {

/// Memory from allocate() on the default stream, for workspaces of at most SpareBlocks::kMostBytes: a block that this
/// thread released on that stream, in whose order it is free for later work. Blocks of other streams are not kept,
/// because those may be destroyed, or capture. With ADJOINT_KEEP_WORKSPACES=0 in the environment nothing is kept, so
/// that memory checkers see every use.
void* take_workspace(std::size_t nbytes, int device);
/// Returns a workspace from take_workspace().
void leave_workspace(void* data, std::size_t nbytes, int device) noexcept;
/// Returns true if workspaces of this size on this stream come from there.
bool keeps_workspaces(std::size_t nbytes, void* stream);
/// Returns this thread's kept workspaces to the pools.
void release_spare_workspaces() noexcept;

}  // namespace adjoint::cuda
