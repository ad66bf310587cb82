// DataParallel: a network that every process trains on its own part of each batch, with the average of all processes'
// gradients, so that the networks stay the same, bit for bit.
//
//   distributed::init();
//   Net net;
//   net.to(default_device());
//   distributed::DataParallel model(net);
//   optim::Adam adam(net.parameters(), {.lr = 1e-3});
//   for (...) {
//     Tape tape;
//     Tensor loss = mse_loss(model(x), y);  // of this process's part of the batch
//     tape.backward(loss);                  // .grad() of every parameter is the average
//     adam.step();
//     adam.zero_grad();
//   }
#pragma once

#include <adjoint/core/distributed/world.h>
#include <adjoint/core/export.h>
#include <adjoint/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace adjoint::distributed {

struct DataParallelOptions {
  /// A bucket is full once it has this many bytes, or an eighth of all gradients' and a MiB at least, whichever is
  /// less: what the last bucket's sum takes no sweep hides.
  std::int64_t bucket_bytes = std::int64_t{25} << 20;
  /// Parameters without a gradient count as zeros where other ranks have one, and keep none where no rank has. Else
  /// they are an error that names them.
  bool find_unused_parameters = false;
  /// Buffers of modules in training mode become rank 0's at the end of each sweep that sums gradients.
  bool broadcast_buffers = true;
  /// Thread blocks that NCCL may take for a bucket's sum; the sweep beside it leaves it as many multiprocessors. 0: as
  /// many as NCCL likes, and none left. kAutomatic: where gradients have 64 MiB or more, whose sums would slow the
  /// sweep by what they take, 4, or 16 behind a forward pass under autocast, whose sweep is shorter; and else 0. The
  /// last bucket, beside which there is no sweep, always gets what NCCL likes. Another value than 0 makes a
  /// communicator for it, in the first sweep.
  static constexpr int kAutomatic = -1;
  int max_ctas = kAutomatic;
};

namespace detail {

/// What DataParallel does, whatever the network's type.
class ADJOINT_API Reducer {
 public:
  Reducer(const nn::Module& module, const DataParallelOptions& options);
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  void before_forward();
  void set_sync(bool on);
  bool sync() const;
  std::vector<std::vector<std::string>> buckets() const;
  std::size_t num_copied() const;

 private:
  class Sink;
  std::shared_ptr<Sink> sink_;
};

}  // namespace detail

/// A handle on `module`; copies of the module share parameters with it. At construction every parameter and buffer
/// becomes rank 0's. Make it once the parameters are those that will be trained, and before the optimiser steps: a
/// parameter that is assigned later is not averaged. It must live while tapes are swept.
///
/// Each backward() averages what it adds to .grad(), and what was there before. Gradients are computed in their places
/// in the buckets, whose addresses stay; a bucket whose last gradient is final is summed at once, on a stream of its
/// own, while the sweep goes on. The buckets, the same on every rank, follow the order in which rank 0 got its
/// gradients in the first sweep. .grad() is a part of its bucket, which the next sweep writes over unless somebody
/// holds it. A sweep that reaches none of the parameters sums nothing; sweeps of Tape::gradient never do. Errors of a
/// sweep: those of the collectives, and parameters without a gradient.
///
/// A captured step (GraphedStep) holds the sums too. It throws Error where the first sweep is captured, where .grad()
/// is in the buckets as the sweep begins (zero_grad() comes first; accumulation is no_sync()'s), with
/// find_unused_parameters, and where GPUs are summed without NCCL.
template <class M>
class DataParallel {
 public:
  /// Throws Error where ranks' parameters differ in name, shape or dtype, or ranks' options, for bucket_bytes below 1
  /// and max_ctas below 0 that is not kAutomatic, and where a parameter stands in another DataParallel that lives.
  explicit DataParallel(const M& module, const DataParallelOptions& options = {})
      : module_(module), reducer_(std::make_unique<detail::Reducer>(module_, options)) {}

  /// module(inputs...).
  template <class... Inputs>
  auto operator()(Inputs&&... inputs) const {
    reducer_->before_forward();
    return module_(std::forward<Inputs>(inputs)...);
  }

  M& module() { return module_; }
  const M& module() const { return module_; }

  /// While it lives, gradients are added up on each rank alone, for accumulation over several backward(): the first one
  /// after its end averages the whole.
  class NoSync {
   public:
    explicit NoSync(detail::Reducer& reducer) : reducer_(reducer), before_(reducer.sync()) { reducer_.set_sync(false); }
    ~NoSync() { reducer_.set_sync(before_); }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    detail::Reducer& reducer_;
    bool before_;
  };
  [[nodiscard]] NoSync no_sync() { return NoSync(*reducer_); }

  /// The parameters' names, by bucket, in the order in which they are summed; empty before the first sweep.
  std::vector<std::vector<std::string>> buckets() const { return reducer_->buckets(); }
  /// How many gradients the last sweep could not compute in their places, and copied: those of the first sweep, and of
  /// parameters that are used twice, have hooks or come from a program's own node (custom).
  std::size_t num_copied() const { return reducer_->num_copied(); }

 private:
  M module_;
  std::unique_ptr<detail::Reducer> reducer_;
};

/// Every BatchNorm1d and BatchNorm2d below `module` takes its statistics over all ranks' batches in
/// training (PyTorch's SyncBatchNorm), to any order differentiable. Ranks may have different numbers of samples.
ADJOINT_API void convert_sync_batchnorm(const nn::Module& module);

}  // namespace adjoint::distributed
