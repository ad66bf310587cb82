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
//     nn::Child<nn::Conv2d> conv;
//     nn::Parameter scale;
//   };
//
// Copies of a module of one's own are made by the copy constructor that C++ gives it; so is a module with tensors of
// its own, nn::clone(block) (clone.h). A child that may be absent is a Child<std::optional<nn::Conv2d>> (child.h).
// Errors in a call of a layer of this library, of a Child or in a Sequential begin with the module's path, as far as it
// stands in others: "decoder.2.up: conv_transpose2d: ...".
//
// What is registered is the one truth. Parameter, Buffer and Child read what stands in the module's registry, and
// assigning to one registers anew: after `block.scale = t` or `block.conv = nn::Conv2d(...)` every copy of the block
// computes with the new one, and parameters() lists it. An optimiser that was made before still holds the old. Members
// of type Tensor or Conv2d can be made from the same calls; they are handles on what was registered first, and
// assigning to them registers nothing.
//
// A module that was moved from is empty: its members throw Error until a module is assigned to it.
#pragma once

#include <adjoint/core/named_tensors.h>
#include <adjoint/core/tensor.h>
#include <adjoint/nn/child.h>
#include <adjoint/nn/parameter.h>

#include <any>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace adjoint::nn {

struct LoadOptions {
  /// Names that are missing or unexpected are errors.
  bool strict = true;
  /// Elements of another dtype are converted to the module's, rather than an error.
  bool convert_dtype = false;
  /// Tensors of another shape are passed over, and stay what they were in the module, rather than an error.
  bool ignore_mismatched_sizes = false;
  /// Changes the names of what is loaded: wherever a pattern, a regular expression (ECMAScript), is found in a name, it
  /// becomes the text beside it, in which $1 is what the first parentheses hold. In this order, each on what the one
  /// before it made: {{"^module\\.", ""}, {"\\.gamma$", ".weight"}}.
  std::vector<std::pair<std::string, std::string>> rename = {};
};

/// The names that a load passed over, as its options allow.
struct LoadReport {
  std::vector<std::string> missing;     // the module has them, what was loaded does not
  std::vector<std::string> unexpected;  // the other way round, as they were before any .rename
  std::vector<std::string> mismatched;  // of another shape; the module's names
};

struct RegisterOptions {
  /// An undefined Tensor may stand there: nothing, under a name that is taken.
  bool optional = false;
};

class Module;

namespace detail {
class Cloning;
struct Copies;
void place(const std::shared_ptr<ChildSlot>& slot, const Module* module, std::any& own);
}  // namespace detail

/// One of the tensors that a parameter is made from.
struct ParameterPart {
  std::string name;
  Tensor value;
  /// A parameter, not a buffer.
  bool trained = true;
  /// Another path, from the module on, under which load_state_dict finds it.
  std::string alias = {};
};

/// How a parameter is made from others.
struct Reparametrization {
  std::string kind;  // "weight_norm"
  std::vector<ParameterPart> parts;
  /// Gives the parameter, in operators that tapes record, from the parts' tensors; of buffers it may change the
  /// elements.
  std::function<Tensor(const std::vector<Tensor>& parts, bool training)> make;
};

/// Sees a call's input before the module does; returns its replacement, or an undefined Tensor to leave it as it is.
using ForwardPreHook = std::function<Tensor(const Module& module, const Tensor& input)>;
/// Sees a call's result; returns its replacement, or an undefined Tensor to leave it as it is.
using ForwardHook = std::function<Tensor(const Module& module, const Tensor& input, const Tensor& output)>;

class ADJOINT_API Module {
 public:
  /// `type` is how the module prints.
  explicit Module(std::string type = "Module");
  Module(const Module& other);
  Module(Module&&) noexcept = default;
  Module& operator=(const Module& other);
  Module& operator=(Module&& other);
  ~Module() = default;

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
  /// f of every module below and then of this one, each once, children before what they stand in.
  void apply(const std::function<void(Module& module)>& f) const;
  /// f(module), under its own type, of every M below this module, each once and in apply's order:
  /// net.visit<nn::Conv2d>([](auto& conv) { nn::init::dirac_(conv.weight); }). M is the type itself, not a base, and
  /// has a copy constructor.
  template <class M, class F>
  void visit(const F& f) const {
    each_below([&](const std::any& own) {
      if (const M* module = std::any_cast<M>(&own)) {
        M handle = *module;
        f(handle);
      }
    });
  }

  // ---- State. Every parameter and buffer by name, outside every tape; they share elements with the module.

  NamedTensors state_dict() const;
  /// Copies the values in, onto the module's device. They may be the module's own, under other names. One of the names
  /// of a tensor that is registered in several places is enough. Throws one Error that lists every name that is
  /// missing, unexpected, or has another shape or dtype, and Error for patterns of .rename that are none, or give two
  /// tensors one name; nothing has changed then.
  LoadReport load_state_dict(const NamedTensors& state, const LoadOptions& options = {});

  /// Other names under which load_state_dict finds tensors, each with the state's own.
  std::vector<std::pair<std::string, std::string>> state_aliases() const;

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

  /// The handle on `value`'s slot; the value now requires a gradient. Throws Error unless it is a defined
  /// floating-point leaf, or undefined where that is an option.
  Parameter register_parameter(const std::string& name, Tensor value, const RegisterOptions& options = {});
  /// State that is saved and moved, but not trained.
  Buffer register_buffer(const std::string& name, Tensor value, const RegisterOptions& options = {});
  /// The handle on `child`'s slot: a Child<M> (an M, where M is final). M may be std::optional of a module; the slot
  /// may then be empty. Throws Error where that would put the module inside itself. The registry holds its children:
  /// one that holds the module that it stands in keeps both alive.
  template <class M>
  detail::RegisteredHandle<M> register_module(const std::string& name, M child) {
    return add_child("register_module", name, std::move(child));
  }

  // ---- Reparametrisation (reparametrize.h has PyTorch's). What stands in a parameter's slot is then made from other
  // parameters and buffers of the module whenever it is read, so that every layer, and every fused form of it, computes
  // with what its parts are now, and a tape records how it was made.

  /// The parameter `name` becomes what how.make gives; the parts are registered in its place. Optimisers that were made
  /// before still hold the old parameter. Throws Error where there is no such parameter or others make it already, for
  /// part names that are taken, and where what is made has not the parameter's shape and dtype.
  void reparametrize(const std::string& name, Reparametrization how);
  /// The parameter is again a tensor of its own, of the values that it has now in eval mode; the parts are gone. Throws
  /// Error where it is not made by a reparametrisation of this kind.
  void remove_reparametrization(const std::string& name, const std::string& kind);

  // ---- Hooks. Those of all copies, in the order of registration. They run where a module of this library is called,
  // and where any module is called as a layer of a Sequential; modules of one's own run them wherever they are called
  // if their operator() returns hooked(input, [&](const Tensor& x) { ... }). A convolution with an activation behind it
  // runs as two operators while either has hooks.

  /// Returns an id for remove_hook. Throws Error for an empty hook.
  std::uint64_t register_forward_pre_hook(ForwardPreHook hook);
  std::uint64_t register_forward_hook(ForwardHook hook);
  /// Throws Error for an id that is none.
  void remove_hook(std::uint64_t id);
  bool has_forward_hooks() const;

  friend bool operator==(const Module& a, const Module& b) { return a.state_ == b.state_; }

 protected:
  /// forward(input), between the module's hooks. Errors tell the module's path.
  template <class F>
  Tensor hooked(const Tensor& input, const F& forward) const {
    // Two pointers in place of a std::function, which every layer would instantiate anew wherever its header is read.
    return run_hooked(input, &forward,
                      [](const void* f, const Tensor& x) -> Tensor { return (*static_cast<const F*>(f))(x); });
  }
  /// What stands between the parentheses when the module prints.
  void set_description(std::string text);
  /// Throws Error, naming `op`, where the module was moved from.
  void check_not_moved_from(const char* op) const { state(op); }
  /// register_module under the name of another operation.
  template <class M>
  detail::RegisteredHandle<M> add_child(const char* op, const std::string& name, M child) {
    using Type = detail::RegisteredType<M>;
    const Type& value = child;
    auto slot = add_slot(op, name, detail::base_of(value), detail::typed(value));
    if constexpr (std::is_final_v<Type>) {
      return Type(std::move(child));
    } else {
      return Child<Type>(std::move(slot), std::move(child));
    }
  }
  /// A slot of no handles. `own` is the child under its own type.
  std::shared_ptr<detail::ChildSlot> add_slot(const char* op, const std::string& name, const Module* child,
                                              std::any own);

 private:
  struct State;

  void each_below(const std::function<void(const std::any& own)>& f) const;

  Tensor run_hooked(const Tensor& input, const void* forward, Tensor (*call)(const void*, const Tensor&)) const;

  State& state(const char* op) const;
  template <class F>
  void move_tensors(const char* op, const F& moved) const;

  std::shared_ptr<State> state_;

  friend class detail::ChildLink;
  friend class detail::Cloning;
  friend struct detail::Copies;
  friend ADJOINT_API void detail::tell_path(const Module& module, Error& error);
  friend class detail::ProfiledModule;
  friend void detail::place(const std::shared_ptr<detail::ChildSlot>& slot, const Module* module, std::any& own);
  friend ADJOINT_API std::string to_string(const Module& module);
};

/// Prints like PyTorch: one line a module, children indented.
ADJOINT_API std::string to_string(const Module& module);
ADJOINT_API std::ostream& operator<<(std::ostream& out, const Module& module);

}  // namespace adjoint::nn
