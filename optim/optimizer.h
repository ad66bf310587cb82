// Optimizer: what all optimisers share: the parameters, the learning rate, and state that can be saved.
//
//   optim::Adam adam(net.parameters(), {.lr = 1e-3});
//   ...
//   tape.backward(loss);
//   adam.step();
//   adam.zero_grad();
#pragma once

#include <adjoint/core/named_tensors.h>
#include <adjoint/core/tensor.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace adjoint::optim {

struct Batch;

class ADJOINT_API Optimizer {
 public:
  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Updates every parameter that has a gradient, in place; not recorded, whatever tape is alive. Computed in float32
  /// for parameters of half precision, which are rounded once. A parameter's state is made on its first update, float32
  /// where the parameter is narrower and else of its dtype, and follows it when it is moved or converted. Where memory
  /// runs out nothing has changed.
  void step();
  /// Forgets the parameters' gradients.
  void zero_grad();

  const std::vector<Tensor>& parameters() const { return parameters_; }
  double lr() const { return lr_; }
  /// Throws Error unless `lr` is finite and not negative.
  void set_lr(double lr);

  /// What the next steps depend on, beside the parameters and the options: "lr" (float64) and, for each parameter i
  /// that was updated, "i.step" (int64) and the optimiser's own tensors, such as "i.exp_avg", which share elements with
  /// it.
  NamedTensors state_dict() const;
  /// Copies the state in, onto the parameters' devices. State of a narrower floating-point dtype, such as float16 for a
  /// float16 parameter, is converted. Throws Error, and changes nothing, for names, shapes or dtypes that do not fit.
  void load_state_dict(const NamedTensors& state);

 protected:
  /// `name` is for errors; `state_names` (at most 3) are the tensors of a parameter's shape that the optimiser keeps
  /// for it, zeros at first. Throws Error unless the parameters are distinct, contiguous floating-point leaves.
  Optimizer(const char* name, std::vector<Tensor> parameters, double lr, std::vector<std::string> state_names);

  /// Updates parameters and state in place.
  virtual void update(const Batch& batch) = 0;

 private:
  struct Slot {
    std::int64_t step = 0;
    std::vector<Tensor> state;  // (state_names_); empty before the first update
  };

  std::vector<Tensor> fitting_state(std::size_t i) const;
  Slot load_slot(std::size_t i, std::vector<Tensor> given) const;

  const char* name_;
  std::vector<Tensor> parameters_;
  double lr_ = 0.0;
  std::vector<std::string> state_names_;
  std::vector<Slot> slots_;  // (parameters_)
};

}  // namespace adjoint::optim
