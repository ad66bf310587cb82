// Child<M>: the handle on a slot of a module's registry that holds a child module.
//
// It is the M in its slot; any handle may replace it. Assigning an M to it registers that module in place of the other.
// Copies are handles on the same slot; a copy of type M is a handle on the module alone. If M is std::optional of a
// module, the slot may be empty:
//
//   nn::Child<std::optional<nn::BatchNorm2d>> norm;
//   norm(register_module("norm", wanted ? std::optional(nn::BatchNorm2d(8)) : std::nullopt))  // in the constructor
//   if (norm) std::cout << norm->weight;
//   y = norm(conv(x));     // the identity if it is empty
//   norm = std::nullopt;   // for all handles
//
// Errors in a call of a Child begin with the module's path: "decoder.2.up: conv_transpose2d: ...". Calling a Child
// without a slot throws Error, because no optimiser would see its parameters. This reveals members that were never
// registered. Hooks of a module that maps one tensor to one run in a call of its Child, for any operator().
#pragma once

#include <adjoint/core/autograd/module_calls.h>
#include <adjoint/core/base/error.h>
#include <adjoint/core/base/export.h>
#include <adjoint/core/tensor/tensor.h>

#include <any>
#include <concepts>
#include <exception>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

namespace adjoint::nn {

class Layer;
class Module;

namespace detail {

struct ChildSlot;

/// Prepends the module's path to the message, unless the message begins with the path of a module inside it.
ADJOINT_API void tell_path(const Module& module, Error& error);

/// A call of the module, for its watchers (core/autograd/module_calls.h).
class ADJOINT_API ModuleCall {
 public:
  explicit ModuleCall(const Module& module) {
    if (adjoint::detail::ModuleCalls::watched()) [[unlikely]]
      begin(module);
  }
  ~ModuleCall() {
    if (watched_ != nullptr) [[unlikely]]
      end();
  }
  ModuleCall(const ModuleCall&) = delete;
  ModuleCall& operator=(const ModuleCall&) = delete;

 private:
  struct Watched;
  void begin(const Module& module);
  void end() noexcept;

  Watched* watched_ = nullptr;
};

/// Watches a call of the module by its Child. If the call returns and the module's hooks did not run in it, a warning
/// says so, once per module.
class ADJOINT_API HookWatch {
 public:
  explicit HookWatch(const Module& module) {
    if (adjoint::detail::ModuleCalls::watched_by(adjoint::detail::ModuleWatcher::kHooks)) [[unlikely]]
      begin(module);
  }
  ~HookWatch() noexcept(false) {
    if (module_ != nullptr) [[unlikely]]
      end();
  }
  HookWatch(const HookWatch&) = delete;
  HookWatch& operator=(const HookWatch&) = delete;

 private:
  void begin(const Module& module);
  void end() const;

  const Module* module_ = nullptr;
  int exceptions_ = 0;
};

/// f(), whose Errors begin with the module's path.
template <class F>
decltype(auto) located(const Module& module, const F& f) {
  const ModuleCall call(module);
  try {
    return f();
  } catch (Error& error) {
    tell_path(module, error);
    throw;
  }
}

/// The module in a Child<M>, as a std::any of its type; empty if there is none, or if it cannot be copied.
template <class M>
std::any typed(const M& module) {
  if constexpr (requires { module.own_type(); }) {
    return module.own_type();  // for a Layer
  } else if constexpr (std::copy_constructible<M>) {
    return module;
  }
  return {};
}
template <class M>
std::any typed(const std::optional<M>& module) {
  return module ? typed(*module) : std::any();
}
template <class M>
const Module* base_of(const M& module) {
  return &module;
}
template <class M>
const Module* base_of(const std::optional<M>& module) {
  return module ? &*module : nullptr;
}

/// The place of a Child among the handles on its slot, so that all of them follow a replacement.
class ADJOINT_API ChildLink {
 public:
  /// Makes the M at `child` the M at `module`.
  using Follow = void (*)(void* child, const void* module);

  ChildLink() = default;
  ChildLink(const ChildLink&) = delete;
  ChildLink& operator=(const ChildLink&) = delete;
  ~ChildLink() { leave(); }

  const std::shared_ptr<ChildSlot>& slot() const { return slot_; }
  /// Throws Error for a call of `module` by a handle on no slot.
  void check_called(const Module& module) const {
    if (slot_ == nullptr) [[unlikely]]
      on_no_slot(module);
  }
  /// Puts a module, or no module, into the slot and lets every handle follow. `value` is the same module as an M, `own`
  /// has the module's own type. Throws Error, and changes nothing, if there is no slot or if the module would contain
  /// itself.
  void assign(const Module* module, const void* value, std::any own);
  /// Returns true if this handle must move to `slot`, because it has no slot or because the module that it is a member
  /// of is being assigned.
  bool follows_owner(const std::shared_ptr<ChildSlot>& slot) const;
  void enter(std::shared_ptr<ChildSlot> slot, void* child, Follow follow);
  void leave();

 private:
  static void on_no_slot(const Module& module);

  std::shared_ptr<ChildSlot> slot_;
  void* child_ = nullptr;
  Follow follow_ = nullptr;
  ChildLink* previous_ = nullptr;
  ChildLink* next_ = nullptr;
};

template <class M>
auto call_of() {
  if constexpr (requires { &M::operator(); }) return &M::operator();
}

/// True if register_forward_hook's hooks can see the call: one tensor in, one out. A Layer runs them itself.
template <class M, class R, class... Args>
inline constexpr bool kIsHookable = false;
template <class M, class Arg>
inline constexpr bool kIsHookable<M, Tensor, Arg> =
    std::is_convertible_v<const Tensor&, Arg> && !std::is_same_v<M, Layer>;

/// M with calls that add its path to errors; M itself if operator() is overloaded, a template or not const.
template <class M, class Call = decltype(call_of<M>())>
class Called : public M {
 public:
  Called() = default;
  explicit Called(const M& module) : M(module) {}
  explicit Called(M&& module) : M(std::move(module)) {}

 protected:
  ChildLink link_;
};

template <class M, class R, class Class, class... Args>
class Called<M, R (Class::*)(Args...) const> : public M {
 public:
  Called() = default;
  explicit Called(const M& module) : M(module) {}
  explicit Called(M&& module) : M(std::move(module)) {}

  R operator()(Args... args) const {
    link_.check_called(*this);
    if constexpr (kIsHookable<M, R, Args...>) {
      return this->M::hooked(args..., [&](const Tensor& x) -> Tensor { return M::operator()(x); });
    } else {
      return located(*this, [&]() -> R {
        const HookWatch watch(*this);
        return M::operator()(std::forward<Args>(args)...);
      });
    }
  }
  /// For calls in which the other arguments have defaults.
  template <class... First>
  requires(sizeof...(First) < sizeof...(Args) && std::is_invocable_v<const M&, First...>) R operator()(
      First&&... first) const {
    link_.check_called(*this);
    return located(*this, [&]() -> R {
      const HookWatch watch(*this);
      return M::operator()(std::forward<First>(first)...);
    });
  }
  /// M's forward() if it accepts these inputs; otherwise the call, under PyTorch's name.
  template <class... Inputs>
  decltype(auto) forward(Inputs&&... inputs) const {
    if constexpr (requires(const M& module) { module.forward(std::forward<Inputs>(inputs)...); }) {
      link_.check_called(*this);
      return located(*this, [&]() -> decltype(auto) { return M::forward(std::forward<Inputs>(inputs)...); });
    } else {
      return (*this)(std::forward<Inputs>(inputs)...);
    }
  }

 protected:
  ChildLink link_;
};

template <class M>
class Called<std::optional<M>, void> : public std::optional<M> {
 public:
  Called() = default;
  explicit Called(const std::optional<M>& module) : std::optional<M>(module) {}
  explicit Called(std::optional<M>&& module) : std::optional<M>(std::move(module)) {}

  /// Returns x if there is no module.
  Tensor operator()(const Tensor& x) const {
    const std::optional<M>& module = *this;
    if (!module) return x;
    link_.check_called(*module);
    return located(*module, [&]() -> Tensor {
      const HookWatch watch(*module);
      return (*module)(x);
    });
  }

  // Would change only this handle: assign std::nullopt or a module instead.
  void reset() = delete;
  template <class... Args>
  void emplace(Args&&...) = delete;
  void swap(std::optional<M>&) = delete;

 protected:
  ChildLink link_;
};

/// The slot's copy while a module is cloned (clone.h), else the slot.
ADJOINT_API std::shared_ptr<ChildSlot> copied_slot(const std::shared_ptr<ChildSlot>& slot);

}  // namespace detail

template <class M>
class Child : public detail::Called<M> {
  using Base = detail::Called<M>;
  using Base::link_;

 public:
  /// A handle without a slot. Module's register_module returns handles on slots.
  Child() requires std::default_initializable<M>
  = default;
  Child(const Child& other) : Base(static_cast<const M&>(other)) {
    link_.enter(detail::copied_slot(other.link_.slot()), this, follow());
  }
  Child(Child&& other) : Base(std::move(static_cast<M&>(other))) {
    link_.enter(other.link_.slot(), this, follow());
    other.link_.leave();
  }
  ~Child() = default;

  /// Puts `module` into the slot. Throws Error, with everything unchanged, if that would put a module inside itself.
  Child& operator=(const M& module) requires std::is_copy_assignable_v<M> {
    const M held = module, before = *this;  // released only after the slot is consistent
    link_.assign(detail::base_of(held), &held, detail::typed(held));
    return *this;
  }
  /// As above, so that the module is in both slots. When whole modules are assigned, their members become handles on
  /// the other module's slots instead.
  Child& operator=(const Child& other) requires std::is_copy_assignable_v<M> {
    if (link_.slot() == other.link_.slot()) return *this;
    if (!link_.follows_owner(other.link_.slot())) return *this = static_cast<const M&>(other);
    M::operator=(other);
    link_.enter(other.link_.slot(), this, follow());
    return *this;
  }
  Child& operator=(Child&& other) requires std::is_copy_assignable_v<M> {
    const bool moves = link_.slot() != other.link_.slot() && link_.follows_owner(other.link_.slot());
    if (!moves) return *this = std::as_const(other);
    M::operator=(std::move(static_cast<M&>(other)));
    link_.enter(other.link_.slot(), this, follow());
    other.link_.leave();
    return *this;
  }

 private:
  friend class Module;
  Child(std::shared_ptr<detail::ChildSlot> slot, M module) : Base(std::move(module)) {
    link_.enter(std::move(slot), this, follow());
  }

  static detail::ChildLink::Follow follow() {
    if constexpr (std::is_copy_assignable_v<M>) {
      return [](void* child, const void* module) {
        static_cast<M&>(*static_cast<Child*>(child)) = *static_cast<const M*>(module);
      };
    } else {
      return nullptr;  // there is nothing to assign
    }
  }
};

namespace detail {

template <class M>
struct Registered {
  using Type = M;
};
template <class M>
struct Registered<Child<M>> {
  using Type = M;
};
/// The module's own type, even if it came through a handle on a slot.
template <class M>
using RegisteredType = typename Registered<M>::Type;
/// The type of a handle on the module's slot. No class can derive from a final one.
template <class M>
using RegisteredHandle =
    std::conditional_t<std::is_final_v<RegisteredType<M>>, RegisteredType<M>, Child<RegisteredType<M>>>;

}  // namespace detail
}  // namespace adjoint::nn
