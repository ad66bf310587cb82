// What carries tensors between processes. core knows the interface; Adjoint::distributed has the engines, and installs
// one in init(). Internal.
#pragma once

#include <adjoint/core/distributed/world.h>
#include <adjoint/core/tensor.h>

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

/// A collective call, as far as the ranks must agree on it.
struct Call {
  Kind kind = Kind::kBarrier;
  ReduceOp op = ReduceOp::kSum;
  int root = 0;
  /// Who calls, where that is not the program itself: "DataParallel, bucket 3". Ranks agree on it too.
  std::string caller = {};
  /// Thread blocks that NCCL may take, beside a sweep that wants them too; 0: as many as it likes. What the call is
  /// does not depend on it.
  int max_ctas = 0;
};

/// A call in place. The tensor is contiguous.
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
  /// of the current stream. Throws Error, naming ranks and operation, where the ranks do not agree or do not come.
  virtual void run(const Call& call, const Tensor& in, Tensor& out) = 0;
  /// Parts on one device as one call, which is the first's: the ranks agree on that and on how many there are, and its
  /// max_ctas counts.
  virtual void run_together(std::span<Part> parts) = 0;
  /// run() of a part, on a GPU beside what the current stream is given from here on, and behind what it was given so
  /// far, whose kernels leave it max_ctas multiprocessors from here on. The tensor must live, and be left alone, until
  /// join(), on this thread.
  virtual void run_beside(Part part) = 0;
  /// What the current stream is given from here on comes behind every run_beside().
  virtual void join(Device device) = 0;
  /// Makes what calls with this max_ctas need. Every rank calls it, like a collective.
  virtual void prepare(int max_ctas) = 0;
  /// Tells the others, in place of the next call, that this rank cannot go on: their next call throws Error with the
  /// reason.
  virtual void tell_failure(const std::string& reason) noexcept = 0;
};

/// Throws Error where one is installed already. `engine` may be null: a world of one.
ADJOINT_API void install_engine(std::unique_ptr<Engine> engine);
/// Null in a world of one.
ADJOINT_API Engine* engine();
/// Ends the engine, which closes what it opened.
ADJOINT_API void remove_engine();

/// engine()->run(), and in a world of one a copy.
ADJOINT_API void run(const Call& call, const Tensor& in, Tensor& out);
/// What the root's text is, on every rank.
ADJOINT_API std::string broadcast_text(const std::string& text, int root, const std::string& caller);
/// Every rank throws Error: this one with the reason, the others, in their next call, with this one's.
[[noreturn]] ADJOINT_API void fail_everywhere(const std::string& reason);

/// What InitOptions::timeout means. Throws Error for one that is none.
ADJOINT_API std::chrono::milliseconds resolve_timeout(const InitOptions& options);

/// default_device() is this GPU from now on.
ADJOINT_API void set_default_gpu(int index);

/// "all_reduce"; for messages.
ADJOINT_API const char* name_of(Kind kind);
ADJOINT_API const char* name_of(ReduceOp op);

}  // namespace adjoint::distributed
