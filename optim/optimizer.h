// Optimizer: what all optimisers share: the parameters, the learning rate, and state that can be saved.
//
//   optim::Adam adam(net.parameters(), {.lr = 1e-3});
//   ...
//   tape.backward(loss);
//   adam.step();
//   adam.zero_grad();
//
// An optimiser of one's own says what happens to one parameter:
//
//   class SignSGD : public optim::Optimizer {
//    public:
//     SignSGD(std::vector<Tensor> parameters, double lr)
//         : Optimizer("SignSGD", std::move(parameters), lr, {"momentum"}) {}
//
//    protected:
//     void update(const optim::ParameterUpdate& u) override {
//       u.state[0].mul_(0.9).add_(u.gradient.to(u.state[0].dtype()));
//       u.parameter.add_(sign(u.state[0]).to(u.parameter.dtype()), -lr());
//     }
//   };
#pragma once

#include <adjoint/core/named_tensors.h>
#include <adjoint/core/tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace adjoint::optim {

struct Batch;

/// One parameter's update, on its own device and outside every tape.
struct ParameterUpdate {
  Tensor& parameter;        // to be changed in place
  const Tensor& gradient;   // contiguous, of the parameter's shape and dtype
  std::span<Tensor> state;  // a tensor for each of the optimiser's state names, to be changed in place
  std::int64_t step;        // this update's number, from 1
};

class ADJOINT_API Optimizer {
 public:
  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  Optimizer(Optimizer&&) noexcept = default;
  Optimizer& operator=(Optimizer&&) noexcept = default;

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
  Optimizer(std::string name, std::vector<Tensor> parameters, double lr, std::vector<std::string> state_names);

  /// What a derived class overrides. step() calls it once for each parameter that has a gradient, in any order. What it
  /// throws leaves step(), and parameters that were updated before stay so. Throws Error where it is not overridden.
  virtual void update(const ParameterUpdate& update);
  /// For the library's own: many parameters at once.
  virtual void update_batch(const Batch& batch);

 private:
  struct Slot {
    std::int64_t step = 0;
    std::vector<Tensor> state;  // (state_names_); empty before the first update
  };

  std::vector<Tensor> fitting_state(std::size_t i) const;
  Slot load_slot(std::size_t i, std::vector<Tensor> given) const;

  std::string name_;
  std::vector<Tensor> parameters_;
  double lr_ = 0.0;
  std::vector<std::string> state_names_;
  std::vector<Slot> slots_;  // (parameters_)
};

}  // namespace adjoint::optim
