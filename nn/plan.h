// Plan: a network's call that was decided before.
//
//   net.eval();
//   nn::Plan plan(net, {Tensor::zeros({1, 1, 256})});
//   while (const Tensor x = next_block(); x.defined()) play(plan.run({x})[0]);
//
// A Plan records the operators that a network calls for inputs of fixed shapes. It keeps their kernels and attributes,
// and gives every intermediate result a place in one block of memory; results whose lives do not overlap share memory.
// Filters are packed once. A call then runs the kernels alone: with one thread it does not allocate, lock or make a
// system call, so a thread with a deadline (sound, control) can make it.
//
// Results have the same bits as the network's own call.
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/core/base/owned.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/nn/module.h>
#include <adjoint/nn/tensor_function.h>

#include <concepts>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <span>
#include <vector>

namespace adjoint::nn {

struct PlanOptions {
  /// 1: calls run on the calling thread alone. Any other positive number: on the threads of set_num_threads().
  int threads = 1;
};

/// For tensors on the CPU. All functions of a moved-from Plan throw Error. Any number of plans may share a network's
/// parameters and their packed forms; each runs on one thread at a time. Plans of one network must be made and
/// destroyed by one thread at a time, while no other thread calls the network itself.
///
/// The parameters, and every other tensor that the network reads, are frozen (nn/freeze.h) while the Plan lives:
/// writing to them throws Error.
class ADJOINT_API Plan {
 public:
  /// Plans f for inputs of the examples' shapes, dtypes and strides. The elements of the examples matter only if f's
  /// course depends on them. Runs f once. The precision, backend and mixed precision of this thread become the plan's.
  ///
  /// Throws Error, naming the operator and the module, if f reads or writes elements of a tensor that depends on an
  /// input (item(), data()), uses random numbers, or writes to earlier tensors such as its parameters and buffers,
  /// which then have their previous elements; for tensors on a GPU; and for undefined examples or outputs.
  Plan(std::function<std::vector<Tensor>(const std::vector<Tensor>&)> f, const std::vector<Tensor>& examples,
       const PlanOptions& options = {});
  /// The same for a module, called with one to four inputs. Its results are a tensor, or a pair, tuple or vector of
  /// tensors. Throws Error in training mode. The module may be destroyed before the Plan.
  template <std::derived_from<Module> M>
  Plan(const M& module, const std::vector<Tensor>& examples, const PlanOptions& options = {})
      : Plan(
            [&](const std::vector<Tensor>& x) {
              detail::check_evaluated("Plan", module);
              return detail::call_with("Plan", module, x);
            },
            examples, options) {}
  Plan(Plan&&) noexcept;
  Plan& operator=(Plan&&) noexcept;
  ~Plan();

  /// Copies the inputs into the plan's and computes the outputs. The plan owns them: the next call overwrites them.
  /// Nothing is recorded. Throws Error for inputs of other shapes or dtypes than the examples'.
  const std::vector<Tensor>& run(std::span<const Tensor> inputs);
  const std::vector<Tensor>& run(std::initializer_list<Tensor> inputs) {
    return run(std::span<const Tensor>(inputs.begin(), inputs.size()));
  }
  /// Computes from the elements in inputs(), for programs that write them there directly.
  const std::vector<Tensor>& run();

  const std::vector<Tensor>& inputs() const;
  const std::vector<Tensor>& outputs() const;

  /// Bytes of the block that holds inputs, intermediate results, outputs, and the operators' temporary memory.
  std::size_t nbytes() const;
  /// The number of operators that a call runs.
  std::size_t size() const;

 private:
  struct Impl;
  Impl& impl() const;
  Owned<Impl> impl_;
};

}  // namespace adjoint::nn
