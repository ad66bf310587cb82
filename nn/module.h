// Module: a tree of named parameters, buffers and child modules.
//
// A Module is a handle: copies share parameters, buffers, children and mode, as copies of a Tensor share elements. A
// module of one's own derives from Module, registers what it owns and keeps handles on it:
//
//   class Residual : public nn::Module {
//    public:
//     explicit Residual(std::int64_t channels)
//         : Module("Residual"),
//           conv(register_module("conv", nn::Conv2d(channels, channels, {.kernel_size = 3, .padding = 1}))),
//           scale(register_parameter("scale", Tensor::ones({1}))) {}
//     Tensor operator()(const Tensor& x) const { return x + scale * relu(conv(x)); }
//
//     nn::Conv2d conv;
//     Tensor scale;
//   };
#pragma once

#include <adjoint/core/named_tensors.h>
#include <adjoint/core/tensor.h>

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace adjoint::nn {

struct LoadOptions {
  /// Names that are missing or unexpected are errors.
  bool strict = true;
};

/// The names that a load with .strict = false passed over.
struct LoadReport {
  std::vector<std::string> missing;     // the module has them, what was loaded does not
  std::vector<std::string> unexpected;  // the other way round
};

class ADJOINT_API Module {
 public:
  /// `type` is how the module prints.
  explicit Module(std::string type = "Module");

  // ---- What is inside. Names are paths: "encoder.0.weight". A tensor registered in two places appears once, under its
  // first name, except in state_dict().

  NamedTensors named_parameters() const;
  NamedTensors named_buffers() const;
  std::vector<Tensor> parameters() const;
  /// Elements of all parameters, each counted once.
  std::int64_t num_parameters() const;
  /// Direct children, in order of registration.
  std::vector<std::pair<std::string, Module>> named_children() const;
  /// This module under the name "", and everything below it, depth first.
  std::vector<std::pair<std::string, Module>> named_modules() const;
  const std::string& type() const;

  // ---- State. Every parameter and buffer by name, outside every tape; they share elements with the module.

  NamedTensors state_dict() const;
  /// Copies the values in, onto the module's device. Throws one Error that lists every name that is missing,
  /// unexpected, or has another shape or dtype; nothing has changed then.
  LoadReport load_state_dict(const NamedTensors& state, const LoadOptions& options = {});

  // ---- Whole-tree operations.

  /// Moves parameters, buffers and gradients in place: handles that others hold, such as optimisers, stay valid. Throws
  /// Error while a tape records.
  void to(Device device);
  /// As above, converting what is floating point. Throws Error for a dtype that is not.
  void to(DType dtype);
  /// Mode of layers that behave differently in training, such as Dropout. Modules start in training mode.
  void train(bool on = true);
  void eval() { train(false); }
  bool training() const;
  /// Forgets every parameter's gradient.
  void zero_grad();
  /// Marks every parameter; false freezes them.
  void requires_grad_(bool value = true);

  // ---- Building. Throw Error for a name that is empty, holds a dot or is taken.

  /// Returns `value`, which now requires a gradient. Throws Error unless it is a defined floating-point leaf.
  Tensor register_parameter(const std::string& name, Tensor value);
  /// State that is saved and moved, but not trained. Returns `value`.
  Tensor register_buffer(const std::string& name, Tensor value);
  /// Returns `child`. Throws Error where that would put the module inside itself.
  template <class M>
  M register_module(const std::string& name, M child) {
    add_child(name, child);
    return child;
  }

  friend bool operator==(const Module& a, const Module& b) { return a.state_ == b.state_; }

 protected:
  /// What stands between the parentheses when the module prints.
  void set_description(std::string text);

 private:
  struct State;

  void add_child(const std::string& name, const Module& child);
  template <class F>
  void move_tensors(const char* op, const F& moved) const;

  std::shared_ptr<State> state_;

  friend ADJOINT_API std::string to_string(const Module& module);
};

/// Prints like PyTorch: one line a module, children indented.
ADJOINT_API std::string to_string(const Module& module);
ADJOINT_API std::ostream& operator<<(std::ostream& out, const Module& module);

}  // namespace adjoint::nn
