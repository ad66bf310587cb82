// The processes that compute together: their number, and this process's rank.
//
//   int main() {
//     distributed::init();                      // first of all
//     Net net;
//     net.to(default_device());                 // this process's GPU
//     distributed::DataParallel model(net);     // nn/data_parallel.h
//     ...
//   }
//
// `mpirun -n 4 ./program` starts four of them. A program that was started alone is a world of one, in which every
// collective (ops/distributed/collectives.h) returns its input. Programs link Adjoint::distributed; one that links only
// Adjoint::adjoint can only be started alone. docs/distributed.md is the guide.
#pragma once

#include <adjoint/core/base/export.h>

#include <cstdint>
#include <optional>

namespace adjoint::distributed {

struct InitOptions {
  /// The seconds that a rank waits for another, or for a sum on its GPU, before it fails. Defaults to the environment
  /// variable ADJOINT_DISTRIBUTED_TIMEOUT, or 10 minutes.
  std::optional<double> timeout = {};
};

namespace detail {
ADJOINT_API void start_alone(const InitOptions& options);
/// Defined in Adjoint::distributed.
ADJOINT_API void start(const InitOptions& options);
}  // namespace detail

/// Connects to the other processes that the launcher started. Each process takes the GPU with its number among the
/// processes of its host, and default_device() is that GPU from here on. Resources are closed when the program exits.
/// Ends the process if a rank does not arrive within the timeout. Throws Error if it was called before, for a timeout
/// outside 0.001 to 1e9 seconds, for more processes on a host than GPUs, if there are any, and if a launcher started
/// several processes of a program that was linked without Adjoint::distributed.
inline void init(const InitOptions& options = {}) {
#if defined(ADJOINT_DISTRIBUTED)
  detail::start(options);
#else
  detail::start_alone(options);
#endif
}

/// Returns true if init() has been called.
ADJOINT_API bool is_initialized();
/// This process's number, from 0; 0 before init().
ADJOINT_API int rank();
/// The number of processes; 1 before init().
ADJOINT_API int world_size();
/// This process's number among those of its host.
ADJOINT_API int local_rank();

/// How elements of several ranks are combined. kAvg is the sum divided by the number of ranks.
enum class ReduceOp : std::uint8_t { kSum, kAvg, kProduct, kMin, kMax };

}  // namespace adjoint::distributed
