// Carries tensors between GPUs, by NCCL if the build has it. Internal.
#pragma once

#include <adjoint/core/distributed/mpi/exchange.h>

#include <functional>
#include <memory>

namespace adjoint::distributed {

class GpuEngine {
 public:
  virtual ~GpuEngine() = default;
  /// In the order of the current stream; checks while it runs that every rank makes the same call.
  virtual void run(const Call& call, const Header& header, const Tensor& in, Tensor& out) = 0;
  virtual void run_together(const Header& header, std::span<Part> parts, bool beside) = 0;
  virtual void join() = 0;
  virtual void prepare(int max_ctas) = 0;
  /// The id of the graph that the current stream is being captured into; 0 if it is not.
  virtual std::uint64_t capture_id() const = 0;
  /// Announces the replay of a graph with collectives on the current stream.
  virtual void replay(const Header& header) = 0;
  /// Returns when no collective is running; if one cannot end, it ends the process and reports why.
  virtual void finish() = 0;
};

struct GpuStart {
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0, size = 1, device = 0;
  std::chrono::milliseconds timeout{};
  /// Sends rank 0's bytes to every rank.
  std::function<void(void* bytes, std::size_t size)> broadcast;
};

#if defined(ADJOINT_WITH_NCCL)
std::unique_ptr<GpuEngine> start_nccl(const GpuStart& how);
#endif

}  // namespace adjoint::distributed
