#include <adjoint/core/autograd/custom.h>

#include <adjoint/core/autograd/gradient_places.h>
#include <adjoint/core/autograd/node.h>
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/profile/profiled_call.h>

#include <algorithm>
#include <utility>

namespace adjoint {
namespace {

void check_gradients(const std::string& name, const std::vector<Tensor>& inputs, const std::vector<bool>& needed,
                     const std::vector<Tensor>& gradients) {
  ADJOINT_CHECK(gradients.size() == inputs.size(), "{}: backward must return a gradient for each input; got {} for {}",
                name, gradients.size(), inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor &gradient = gradients[i], &input = inputs[i];
    if (!needed[i] || !gradient.defined()) continue;
    ADJOINT_CHECK(gradient.shape() == input.shape() && gradient.dtype() == input.dtype() &&
                      gradient.device() == input.device(),
                  "{}: backward's gradients must have their inputs' shape, dtype and device; got {} {} on {} for input "
                  "{}, {} {} on {}",
                  name, gradient.shape(), gradient.dtype(), gradient.device(), i, input.shape(), input.dtype(),
                  input.device());
  }
}

class CustomNode final : public detail::Node {
 public:
  CustomNode(std::string name, CustomBackward backward) : name_(std::move(name)), backward_(std::move(backward)) {}
  const char* name() const override { return name_.c_str(); }

  void backward(std::span<const Tensor> grads, const std::vector<bool>& needed,
                std::vector<Tensor>& operand_grads) override {
    const std::vector<Tensor> inputs(saved, saved + size), outs(saved + size, saved + size + results);
    const detail::GradientPlaces none;  // the program may keep the tensors it makes
    operand_grads = backward_({inputs, outs, {grads.begin(), grads.end()}, needed});
    check_gradients(name_, inputs, needed, operand_grads);
  }

 private:
  std::string name_;
  CustomBackward backward_;
};

// forward(inputs), unrecorded, as tensors owned by the operator.
std::vector<Tensor> run(const std::string& name, const std::vector<Tensor>& inputs, const CustomForward& forward) {
  const detail::ProfiledCall profiled(name.c_str(), inputs);
  const detail::Versions versions(inputs);
  std::vector<Tensor> results;
  {
    const PauseTape pause;
    results = forward(inputs);
    ADJOINT_CHECK(Tape::current() == nullptr, "{}: forward must end the tapes that it makes; got one recording", name);
  }
  const std::size_t changed = versions.first_changed();
  ADJOINT_CHECK(changed == inputs.size(),
                "{}: forward must not change its inputs in place; got input {} of shape {} changed; change a clone()",
                name, changed, inputs[changed].shape());
  for (std::size_t i = 0; i < results.size(); ++i) {
    ADJOINT_CHECK(results[i].defined(), "{}: forward's results must be defined; got Tensor{{}} as result {}", name, i);
    results[i] = results[i].detach();  // it may be an input, or recorded by someone else
  }
  return results;
}

}  // namespace

std::vector<Tensor> custom(const std::string& name, const std::vector<Tensor>& inputs, const CustomForward& forward,
                           const CustomBackward& backward) {
  ADJOINT_CHECK(!name.empty(), "custom: name must not be empty");
  ADJOINT_CHECK(forward != nullptr, "{}: forward must be a function; got an empty one", name);
  ADJOINT_CHECK(backward != nullptr, "{}: backward must be a function; got an empty one", name);
  Tape* const tape = Tape::current();
  if (tape == nullptr) return run(name, inputs, forward);
  detail::Recording recording(*tape, name.c_str(), inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].defined()) recording.use(i, inputs[i]);
  }
  std::vector<Tensor> results = run(name, inputs, forward);
  ADJOINT_CHECK(Tape::current() == tape, "{}: forward must not end the tape that records; got its end", name);
  const auto carries_gradient = [](const Tensor& result) { return is_floating_point(result.dtype()); };
  if (recording.needed() && std::any_of(results.begin(), results.end(), carries_gradient)) {
    recording.commit(tape->impl().make_node<CustomNode>(name, backward), inputs, results, results.size(),
                     detail::kSaveEveryOperand | detail::kSaveEveryResult);
  }
  return results;
}

}  // namespace adjoint
