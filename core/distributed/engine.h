// Carries tensors between processes. core knows the interface; Adjoint::distributed has the engines, and init()
// installs one. Internal.
#pragma once

#include <adjoint/core/distributed/world.h>
#include <adjoint/core/tensor/tensor.h>

#include <chrono>
#include <memory>
#include <span>
#include <string>

namespace adjoint::distributed {

enum class Kind : std::uint8_t {
  kAllReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kBarrier,
  kReplay,
  kFinalize,
  kFailure
};

/// The parts of a collective call on which the ranks must agree.
struct Call {
  Kind kind = Kind::kBarrier;
  ReduceOp op = ReduceOp::kSum;
  int root = 0;
  /// The caller, if not the program itself: "DataParallel, bucket 3". Ranks agree on it too.
  std::string caller = {};
  /// Thread blocks that NCCL may use beside a concurrent sweep; 0: NCCL's choice. It does not affect the call's result.
  int max_ctas = 0;
};

/// An in-place call. The tensor is contiguous.
struct Part {
  Call call;
  Tensor tensor;
};

/// Every rank calls the same functions in the same order, on any thread and one at a time.
class Engine {
 public:
  virtual ~Engine() = default;
  virtual int rank() const = 0;
  virtual int world_size() const = 0;
  virtual int local_rank() const = 0;
  /// `in` and `out` are contiguous, of one dtype and device, and may be the same tensor. On a GPU it runs in the order
  /// of the current stream. Throws Error, naming ranks and operation, if the ranks do not agree or do not arrive.
  virtual void run(const Call& call, const Tensor& in, Tensor& out) = 0;
  /// Parts on one device as one call, with the first part's Call: the ranks agree on that and on the number of parts,
  /// and its max_ctas counts.
  virtual void run_together(std::span<Part> parts) = 0;
  /// run() of a part, on a GPU concurrently with later work of the current stream, and after its earlier work; later
  /// kernels leave it max_ctas multiprocessors. The tensor must live, and stay untouched, until join(), on this thread.
  virtual void run_beside(Part part) = 0;
  /// Orders later work of the current stream after every run_beside().
  virtual void join(Device device) = 0;
  /// Creates the resources for calls with this max_ctas. Every rank calls it, like a collective.
  virtual void prepare(int max_ctas) = 0;
  /// Tells the others, in place of the next call, that this rank cannot continue: their next call throws Error with the
  /// reason.
  virtual void tell_failure(const std::string& reason) noexcept = 0;
};

/// Throws Error if one is already installed. `engine` may be null: a world of one.
ADJOINT_API void install_engine(std::unique_ptr<Engine> engine);
/// Null in a world of one.
ADJOINT_API Engine* engine();
/// Destroys the engine, which closes its resources.
ADJOINT_API void remove_engine();

/// engine()->run(), or a copy in a world of one.
ADJOINT_API void run(const Call& call, const Tensor& in, Tensor& out);
/// The root's text, on every rank.
ADJOINT_API std::string broadcast_text(const std::string& text, int root, const std::string& caller);
/// Makes every rank throw Error: this one with the reason, the others, in their next call, with this one's reason.
[[noreturn]] ADJOINT_API void fail_everywhere(const std::string& reason);

/// The duration of InitOptions::timeout. Throws Error for an invalid one.
ADJOINT_API std::chrono::milliseconds resolve_timeout(const InitOptions& options);

/// default_device() is this GPU from now on.
ADJOINT_API void set_default_gpu(int index);

/// "all_reduce"; for messages.
ADJOINT_API const char* name_of(Kind kind);
ADJOINT_API const char* name_of(ReduceOp op);

}  // namespace adjoint::distributed
