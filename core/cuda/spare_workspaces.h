// Workspaces that a thread keeps for its next kernels. Where calls are small, the host's time is what they take, and
// the pool's two calls are some of it.
#pragma once

#include <cstddef>

namespace adjoint::cuda {

/// Memory as allocate() gives it on the default stream, for workspaces of at most SpareBlocks::kMostBytes: a block that
/// this thread released on that stream, in whose order it is free for what is enqueued from now on. No other stream's
/// are kept: others may be destroyed, or capture. With ADJOINT_KEEP_WORKSPACES=0 in the environment nothing is kept, so
/// that tools which watch memory see every use.
void* take_workspace(std::size_t nbytes, int device);
/// Where a workspace goes that take_workspace() gave.
void leave_workspace(void* data, std::size_t nbytes, int device) noexcept;
/// Whether a workspace comes from there.
bool keeps_workspaces(std::size_t nbytes, void* stream);
/// Gives what this thread keeps back to the pools.
void release_spare_workspaces() noexcept;

}  // namespace adjoint::cuda
