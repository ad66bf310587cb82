// DataParallel: a network that every process trains on its own part of each batch, with the average of all processes'
// gradients, so that the networks stay identical, bit for bit.
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

#include <adjoint/core/base/export.h>
#include <adjoint/core/base/owned.h>
#include <adjoint/core/distributed/world.h>
#include <adjoint/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace adjoint::distributed {

struct DataParallelOptions {
  /// A bucket is full at this many bytes, or at an eighth of all gradients' but at least a MiB, whichever is less: no
  /// sweep hides the sum of the last bucket.
  std::int64_t bucket_bytes = std::int64_t{25} << 20;
  /// A parameter without a gradient counts as zeros if other ranks have one; if no rank has, it stays without. If
  /// false, such parameters are an error that names them. A rank whose loss uses no parameter takes part with zeros.
  /// Each backward() of any loss therefore first asks all ranks if a loss uses a parameter, and ranks must make equally
  /// many such calls, not counting those in no_sync().
  bool find_unused_parameters = false;
  /// Buffers of modules in training mode become rank 0's at the end of each sweep that sums gradients.
  bool broadcast_buffers = true;
  /// Thread blocks that NCCL may use for a bucket's sum; the concurrent sweep leaves it as many multiprocessors. 0:
  /// NCCL's choice, and no multiprocessors are reserved. kAutomatic: if gradients have 64 MiB or more, whose sums would
  /// slow down the sweep, 4, or 16 after a forward pass under autocast, whose sweep is shorter; otherwise 0. For the
  /// last bucket, which has no concurrent sweep, NCCL always chooses. Values other than 0 create a communicator, in the
  /// first sweep.
  static constexpr int kAutomatic = -1;
  int max_ctas = kAutomatic;
};

namespace detail {

/// The implementation of DataParallel, independent of the network's type.
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
/// becomes rank 0's. Construct it after the parameters, and before the optimiser steps. It must live while tapes are
/// swept.
///
/// Each backward() averages the parameters that require a gradient at its beginning, and those that did when the tape
/// recorded them; ranks must freeze and thaw the same ones. Frozen parameters are left alone: no gradient, no zeros. If
/// the set has changed, and is not empty, the buckets are rebuilt.
///
/// Each backward() averages the gradients that it adds to .grad(), and those that were there before. Gradients are
/// computed in their places in the buckets, whose addresses stay. As soon as a bucket's last gradient is final, the
/// bucket is summed on its own stream while the sweep continues. The buckets, the same on every rank, follow the order
/// in which rank 0 got its gradients in the first sweep. .grad() is a part of its bucket, which the next sweep
/// overwrites unless a handle on it exists. A sweep that reaches none of the parameters on any rank sums nothing; nor
/// do sweeps of Tape::gradient. A sweep's errors are those of the collectives, parameters without a gradient, and a
/// parameter that was assigned, added or removed since. A rank whose loss used no parameter, while others' did, gets an
/// error in its next sweep if the module was called under that loss's tape.
///
/// A captured step (GraphedStep) also holds the sums. A sweep in a captured step throws Error if it builds buckets, if
/// .grad() is in the buckets when the sweep begins (call zero_grad() first; accumulate with no_sync()), with
/// find_unused_parameters, and if GPUs are summed without NCCL.
template <class M>
class DataParallel {
 public:
  /// Throws Error if ranks' parameters differ in name, shape or dtype, if ranks' options differ, for bucket_bytes below
  /// 1, for max_ctas below 0 other than kAutomatic, and if a parameter that requires a gradient belongs to another live
  /// DataParallel; for one that is thawed later the sweep throws.
  explicit DataParallel(const M& module, const DataParallelOptions& options = {})
      : module_(module), reducer_(new detail::Reducer(module_, options)) {}

  /// module(inputs...).
  template <class... Inputs>
  auto operator()(Inputs&&... inputs) const {
    reducer_->before_forward();
    return module_(std::forward<Inputs>(inputs)...);
  }
  template <class... Inputs>
  auto forward(Inputs&&... inputs) const {
    return (*this)(std::forward<Inputs>(inputs)...);
  }

  M& module() { return module_; }
  const M& module() const { return module_; }

  /// While it lives, each rank accumulates gradients alone, over several backward(): the first one after its end
  /// averages the total.
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
  [[nodiscard]] NoSync no_sync() & { return NoSync(*reducer_); }

  /// The parameters' names, by bucket, in the order of summation; empty before the first sweep.
  std::vector<std::vector<std::string>> buckets() const { return reducer_->buckets(); }
  /// The number of gradients that the last sweep could not compute in place and copied: those of the sweep that builds
  /// the buckets, and of parameters that are used twice, have hooks or come from a program's own node (custom).
  std::size_t num_copied() const { return reducer_->num_copied(); }

 private:
  M module_;
  Owned<detail::Reducer> reducer_;
};

/// Makes every BatchNorm1d, BatchNorm2d and BatchNorm3d below `module` take its statistics over all ranks' batches in
/// training (PyTorch's SyncBatchNorm), differentiable to any order. Ranks may have different numbers of samples.
ADJOINT_API void convert_sync_batchnorm(const nn::Module& module);

}  // namespace adjoint::distributed
