// You are at stop 5 of 7 of the README's reading path, a layer: this is the base of all layers. conv.cpp comes next.
//
// Module: a tree of named parameters, buffers and child modules.
//
// A Module is a handle: copies share parameters, buffers, children and mode, as copies of a Tensor share elements. A
// program's own module derives from Module, registers its tensors and children and keeps handles on them:
//
//   struct Residual : nn::Module {
//     explicit Residual(std::int64_t width) : Module("Residual"), channels(width) {}
//     Tensor operator()(const Tensor& x) const { return x + scale * relu(conv(x)); }
//
//     std::int64_t channels;
//     nn::Child<nn::Conv2d> conv = register_module("conv", nn::Conv2d(channels, channels, 3, {.padding = 1}));
//     nn::Parameter scale = register_parameter("scale", ones({1}));
//   };
//
// Layers are called: conv(x). conv.forward(x) is the same, hooks included, as for every Child; a program's module may
// have a `forward` besides its operator().
//
// Members are initialised in their order of declaration: declare values that a child needs before it.
//
// The implicit copy constructor copies a program's own module; nn::clone(block) (clone.h) makes one with its own
// tensors. An optional child is a Child<std::optional<nn::Conv2d>> (child.h). Errors in a call of a layer of this
// library, of a Child or in a Sequential begin with the module's path from the outermost module: "decoder.2.up:
// conv_transpose2d: ...".
//
// The registry is the single source of truth. Parameter, Buffer and Child read the module's registry, and assigning to
// one registers the new value: after `block.scale = t` or `block.conv = nn::Conv2d(...)` every copy of the block
// computes with the new one, and parameters() lists it. An optimiser that was made earlier still holds the old one.
// Members of type Tensor or Conv2d can be made from the same calls; they are handles on the originally registered
// objects, and assigning to them registers nothing.
//
// A module that was moved from is empty: its members throw Error until a module is assigned to it.
#pragma once

#include <adjoint/core/tensor/named_tensors.h>
#include <adjoint/core/tensor/tensor.h>
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
  /// Converts elements of another dtype to the module's, instead of throwing an error.
  bool convert_dtype = false;
  /// Skips tensors of another shape, which stay unchanged in the module, instead of throwing an error.
  bool ignore_mismatched_sizes = false;
  /// Renames loaded tensors: each match of a pattern, a regular expression (ECMAScript), in a name is replaced by the
  /// text beside it, in which $1 is the match of the first parentheses. Patterns apply in order, each to the result of
  /// the previous one: {{"^module\\.", ""}, {"\\.gamma$", ".weight"}}.
  std::vector<std::pair<std::string, std::string>> rename = {};
};

/// The names that a load skipped, as its options allow.
struct LoadReport {
  std::vector<std::string> missing;     // in the module, but not in the loaded state
  std::vector<std::string> unexpected;  // in the loaded state, but not in the module; before any .rename
  std::vector<std::string> mismatched;  // of another shape; the module's names
};

struct RegisterOptions {
  /// Allows an undefined Tensor: no tensor, under a reserved name.
  bool optional = false;
};

class Module;

namespace detail {
class Cloning;
struct Copies;
struct TensorSlot;
/// Every slot of a tensor in the module and below, under its path.
std::vector<std::pair<std::string, std::shared_ptr<TensorSlot>>> tensor_slots(const Module& module);
void place(const std::shared_ptr<ChildSlot>& slot, const Module* module, std::any& own);
}  // namespace detail

/// One of the tensors from which a parameter is computed.
struct ParameterPart {
  std::string name;
  Tensor value;
  /// A parameter, not a buffer.
  bool trained = true;
  /// Another path, from the module on, under which load_state_dict finds it.
  std::string alias = {};
};

/// The computation of a parameter from others.
struct Reparametrization {
  std::string kind;  // "weight_norm"
  std::vector<ParameterPart> parts;
  /// Computes the parameter, in operators that tapes record, from the parts' tensors; it may change the elements of
  /// buffers.
  std::function<Tensor(const std::vector<Tensor>& parts, bool training)> make;
};

/// Gets a call's input before the module; returns its replacement, or an undefined Tensor to leave it unchanged.
using ForwardPreHook = std::function<Tensor(const Module& module, const Tensor& input)>;
/// Gets a call's result; returns its replacement, or an undefined Tensor to leave it unchanged.
using ForwardHook = std::function<Tensor(const Module& module, const Tensor& input, const Tensor& output)>;

class ADJOINT_API Module {
 public:
  /// `type` is the printed name of the module.
  explicit Module(std::string type = "Module");
  Module(const Module& other);
  Module(Module&&) noexcept = default;
  Module& operator=(const Module& other);
  Module& operator=(Module&& other);
  ~Module() = default;

  // ---- Contents. Names are paths: "encoder.0.weight". A tensor registered in two places appears once, under its
  // first name, except in state_dict().

  NamedTensors named_parameters() const;
  NamedTensors named_buffers() const;
  std::vector<Tensor> parameters() const;
  std::vector<Tensor> buffers() const;
  /// Elements of all parameters, each counted once.
  std::int64_t num_parameters() const;
  /// Direct children, in order of registration.
  std::vector<std::pair<std::string, Module>> named_children() const;
  std::vector<Module> children() const;
  /// This module under the name "", and everything below it, depth first.
  std::vector<std::pair<std::string, Module>> named_modules() const;
  std::vector<Module> modules() const;
  /// The module at this path below, such as "decoder.2.up"; for "" this module. Throws Error if the path leads nowhere.
  Module get_submodule(const std::string& path) const;
  const std::string& type() const;
  /// Calls f for every module below and then for this one, each once, children before their parents.
  void apply(const std::function<void(Module& module)>& f) const;
  /// f(module), under its own type, for every M below this module, each once and in apply's order:
  /// net.visit<nn::Conv2d>([](auto& conv) { nn::init::dirac_(conv.weight); }). M is the exact type, not a base, and has
  /// a copy constructor.
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
  /// Copies the values in, onto the module's device. They may be the module's own, under other names. A tensor that is
  /// registered in several places needs only one of its names. Throws one Error that lists every name that is missing,
  /// unexpected, or has another shape or dtype, and Error for .rename patterns that are invalid, or map two tensors to
  /// one name; nothing has changed then.
  LoadReport load_state_dict(const NamedTensors& state, const LoadOptions& options = {});

  /// Other names under which load_state_dict finds tensors, each with the state's own.
  std::vector<std::pair<std::string, std::string>> state_aliases() const;

  // ---- Whole-tree operations.

  /// Moves parameters, buffers and gradients in place: handles that others hold, such as optimisers, stay valid. Throws
  /// Error while a tape records.
  void to(Device device);
  /// As above, converting floating-point tensors. Throws Error for a dtype that is not floating point.
  void to(DType dtype);
  /// Moves the filters of convolutions, and all other parameters of 3 to 5 axes in modules whose type() begins with
  /// "Conv", to the format.
  void to(MemoryFormat format);
  void cpu() { to(kCPU); }
  void cuda(int index = 0) { to(Device(DeviceType::kCUDA, index)); }
  void half() { to(kFloat16); }
  void bfloat16() { to(kBFloat16); }
  /// The mode of layers that behave differently in training, such as Dropout. Modules start in training mode.
  void train(bool on = true);
  void eval() { train(false); }
  bool training() const;
  /// Drops every parameter's gradient.
  void zero_grad();
  /// Marks every parameter; false freezes them.
  void requires_grad_(bool value = true);

  // ---- Building. Throw Error for a name that is empty, holds a dot or is taken.

  /// The handle on `value`'s slot; the value then requires a gradient. Throws Error unless it is a defined
  /// floating-point leaf, or undefined if the options allow it.
  Parameter register_parameter(const std::string& name, Tensor value, const RegisterOptions& options = {});
  /// State that is saved and moved, but not trained.
  Buffer register_buffer(const std::string& name, Tensor value, const RegisterOptions& options = {});
  /// The handle on `child`'s slot: a Child<M> (an M, if M is final). M may be std::optional of a module; the slot may
  /// then be empty. Throws Error if that would put the module inside itself. The registry owns its children: a child
  /// that owns its parent keeps both alive.
  template <class M>
  detail::RegisteredHandle<M> register_module(const std::string& name, M child) {
    return add_child("register_module", name, std::move(child));
  }

  // ---- Reparametrisation (reparametrize.h has PyTorch's). A parameter is then computed from other parameters and
  // buffers of the module whenever it is read. Every layer, and every fused form of it, therefore computes with the
  // parts' present values, and a tape records this.

  /// From now on how.make computes the parameter `name`; the parts are registered in its place. Optimisers that were
  /// made before still hold the old parameter. Throws Error if there is no such parameter or it is already computed,
  /// for part names that are taken, and if the computed tensor does not have the parameter's shape and dtype.
  void reparametrize(const std::string& name, Reparametrization how);
  /// Turns the parameter back into a tensor, with its current values in eval mode, and removes the parts. Throws Error
  /// if it is not computed by a reparametrisation of this kind.
  void remove_reparametrization(const std::string& name, const std::string& kind);

  // ---- Hooks, shared by all copies, in the order of registration. Calls of this library's modules run them, and calls
  // of any module as a layer of a Sequential. Other calls of a program's own module run them if its operator() returns
  // hooked(input, [&](const Tensor& x) { ... }). A convolution with an activation behind it runs as two operators while
  // either has hooks.

  /// Returns an id for remove_hook. Throws Error for an empty hook.
  std::uint64_t register_forward_pre_hook(ForwardPreHook hook);
  std::uint64_t register_forward_hook(ForwardHook hook);
  /// Throws Error for an unknown id.
  void remove_hook(std::uint64_t id);
  bool has_forward_hooks() const;

  friend bool operator==(const Module& a, const Module& b) { return a.state_ == b.state_; }

 protected:
  /// forward(input), between the module's hooks. Errors begin with the module's path.
  template <class F>
  Tensor hooked(const Tensor& input, const F& forward) const {
    // Two pointers: with a std::function, every layer would instantiate it wherever its header is included.
    return run_hooked(input, &forward,
                      [](const void* f, const Tensor& x) -> Tensor { return (*static_cast<const F*>(f))(x); });
  }
  /// The text in parentheses when the module prints.
  void set_description(std::string text);
  /// Throws Error, naming `op`, if the module was moved from.
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
  /// A slot without handles. `own` is the child under its own type.
  std::shared_ptr<detail::ChildSlot> add_slot(const char* op, const std::string& name, const Module* child,
                                              std::any own);

 private:
  struct State;

  void list_modules(const std::string& path, std::vector<std::pair<std::string, Module>>& all) const;
  void each_below(const std::function<void(const std::any& own)>& f) const;

  Tensor run_hooked(const Tensor& input, const void* forward, Tensor (*call)(const void*, const Tensor&)) const;

  State& state(const char* op) const;
  template <class F>
  void move_tensors(const char* op, const F& moved) const;

  std::shared_ptr<State> state_;

  friend class detail::ChildLink;
  friend class detail::Cloning;
  friend struct detail::Copies;
  friend std::vector<std::pair<std::string, std::shared_ptr<detail::TensorSlot>>> detail::tensor_slots(
      const Module& module);
  friend ADJOINT_API void detail::tell_path(const Module& module, Error& error);
  friend class detail::HookWatch;
  friend class detail::ModuleCall;
  friend struct detail::TensorSlot;
  friend void detail::place(const std::shared_ptr<detail::ChildSlot>& slot, const Module* module, std::any& own);
  friend ADJOINT_API std::string to_string(const Module& module);
};

/// The elements of all tensors one after the other, 1-D and recorded; and the inverse, in place and never recorded.
/// Throw Error for several devices or dtypes, and for a vector of another number of elements.
ADJOINT_API Tensor parameters_to_vector(const std::vector<Tensor>& parameters);
ADJOINT_API void vector_to_parameters(const Tensor& vector, std::vector<Tensor> parameters);

/// Prints like PyTorch: one line per module, children indented.
ADJOINT_API std::string to_string(const Module& module);
ADJOINT_API std::ostream& operator<<(std::ostream& out, const Module& module);

}  // namespace adjoint::nn
