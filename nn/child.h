// Child<M>: the handle on a slot of a module's registry, in which a child module stands.
//
// It is an M, the one in its slot, whatever was put there last and through whichever handle. Assigning an M to it
// registers that module in the other's place. Copies are handles on the same slot; a copy of type M is a handle on the
// module alone. Where M is std::optional of a module, the slot may be empty:
//
//   nn::Child<std::optional<nn::BatchNorm2d>> norm;
//   norm(register_module("norm", wanted ? std::optional(nn::BatchNorm2d(8)) : std::nullopt))  // in the constructor
//   if (norm) std::cout << norm->weight;
//   y = norm(conv(x));     // the identity where it is empty
//   norm = std::nullopt;   // for all handles
//
// Errors in a call of a Child tell where in the tree the module stands: "decoder.2.up: conv_transpose2d: ...".
#pragma once

#include <adjoint/core/error.h>
#include <adjoint/core/export.h>
#include <adjoint/core/profiled_call.h>
#include <adjoint/core/tensor.h>

#include <any>
#include <concepts>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

namespace adjoint::nn {

class Module;

namespace detail {

struct ChildSlot;

/// Puts the module's path in front of the message, unless it begins with the path of what is inside the module.
ADJOINT_API void tell_path(const Module& module, Error& error);

/// A call of the module, for a Profiler; nothing where none collects or the module's call is the innermost already.
class ADJOINT_API ProfiledModule {
 public:
  explicit ProfiledModule(const Module& module) {
    if (adjoint::detail::Profiling::on()) [[unlikely]]
      begin(module);
  }
  ~ProfiledModule() {
    if (call_) [[unlikely]]
      end();
  }
  ProfiledModule(const ProfiledModule&) = delete;
  ProfiledModule& operator=(const ProfiledModule&) = delete;

 private:
  void begin(const Module& module);
  void end() noexcept;

  adjoint::detail::ProfiledCall call_;
  const void* outer_;
};

/// f(), of which Errors tell the module's path.
template <class F>
decltype(auto) located(const Module& module, const F& f) {
  const ProfiledModule profiled(module);
  try {
    return f();
  } catch (Error& error) {
    tell_path(module, error);
    throw;
  }
}

/// The module in a Child<M>, as a std::any of its type; empty where there is none, or where it cannot be copied.
template <class M>
std::any typed(const M& module) {
  if constexpr (std::copy_constructible<M>) return module;
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

template <class M>
auto call_of() {
  if constexpr (requires { &M::operator(); }) return &M::operator();
}

/// M, whose calls are located; as it is where operator() is overloaded, a template or not const.
template <class M, class Call = decltype(call_of<M>())>
class Called : public M {
 public:
  Called() = default;
  explicit Called(const M& module) : M(module) {}
  explicit Called(M&& module) : M(std::move(module)) {}
};

template <class M, class R, class Class, class... Args>
class Called<M, R (Class::*)(Args...) const> : public M {
 public:
  Called() = default;
  explicit Called(const M& module) : M(module) {}
  explicit Called(M&& module) : M(std::move(module)) {}

  R operator()(Args... args) const {
    return located(*this, [&]() -> R { return M::operator()(std::forward<Args>(args)...); });
  }
  /// Where the others have defaults.
  template <class... First>
  requires(sizeof...(First) < sizeof...(Args) && std::is_invocable_v<const M&, First...>) R operator()(
      First&&... first) const {
    return located(*this, [&]() -> R { return M::operator()(std::forward<First>(first)...); });
  }
};

template <class M>
class Called<std::optional<M>, void> : public std::optional<M> {
 public:
  Called() = default;
  explicit Called(const std::optional<M>& module) : std::optional<M>(module) {}
  explicit Called(std::optional<M>&& module) : std::optional<M>(std::move(module)) {}

  /// x where there is no module.
  Tensor operator()(const Tensor& x) const {
    const std::optional<M>& module = *this;
    return module ? located(*module, [&]() -> Tensor { return (*module)(x); }) : x;
  }

  // What would change this handle alone: assign std::nullopt or a module.
  void reset() = delete;
  template <class... Args>
  void emplace(Args&&...) = delete;
  void swap(std::optional<M>&) = delete;
};

/// Where a Child stands among the handles on its slot, so that all of them follow what is put there.
class ADJOINT_API ChildLink {
 public:
  /// Makes the M at `child` the M at `module`.
  using Follow = void (*)(void* child, const void* module);

  ChildLink() = default;
  ChildLink(std::shared_ptr<ChildSlot> slot, void* child, Follow follow);
  ChildLink(const ChildLink&) = delete;
  ChildLink& operator=(const ChildLink&) = delete;
  ~ChildLink() { leave(); }

  const std::shared_ptr<ChildSlot>& slot() const { return slot_; }
  /// Puts a module, or none, into the slot and has every handle follow. `value` is the same as an M, `own` of the
  /// module's own type. Throws Error, with everything as it was, where there is no slot and where the module would come
  /// to stand inside itself.
  void assign(const Module* module, const void* value, std::any own);
  /// True where this handle is to become one on `slot`, because it has none or because the module that it is a member
  /// of is being assigned.
  bool follows_owner(const std::shared_ptr<ChildSlot>& slot) const;
  void enter(std::shared_ptr<ChildSlot> slot, void* child, Follow follow);
  void leave();

 private:
  std::shared_ptr<ChildSlot> slot_;
  void* child_ = nullptr;
  Follow follow_ = nullptr;
  ChildLink* previous_ = nullptr;
  ChildLink* next_ = nullptr;
};

/// The slot's copy while a module is cloned (clone.h), else the slot.
ADJOINT_API std::shared_ptr<ChildSlot> copied_slot(const std::shared_ptr<ChildSlot>& slot);

}  // namespace detail

template <class M>
class Child : public detail::Called<M> {
  using Base = detail::Called<M>;

 public:
  /// On no slot. Handles on slots come from Module's register_module.
  Child() requires std::default_initializable<M>
  = default;
  Child(const Child& other)
      : Base(static_cast<const M&>(other)), link_(detail::copied_slot(other.link_.slot()), this, follow()) {}
  Child(Child&& other) : Base(std::move(static_cast<M&>(other))), link_(other.link_.slot(), this, follow()) {
    other.link_.leave();
  }
  ~Child() = default;

  /// Puts `module` into the slot. Throws Error, with everything as it was, where that would put a module inside itself.
  Child& operator=(const M& module) requires std::is_copy_assignable_v<M> {
    const M held = module, before = *this;  // what goes, goes once the slot is at rest
    link_.assign(detail::base_of(held), &held, detail::typed(held));
    return *this;
  }
  /// As above, so that the module stands in both slots. Where whole modules are assigned, their members become handles
  /// on the other module's slots instead.
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
  Child(std::shared_ptr<detail::ChildSlot> slot, M module)
      : Base(std::move(module)), link_(std::move(slot), this, follow()) {}

  static detail::ChildLink::Follow follow() {
    if constexpr (std::is_copy_assignable_v<M>) {
      return [](void* child, const void* module) {
        static_cast<M&>(*static_cast<Child*>(child)) = *static_cast<const M*>(module);
      };
    } else {
      return nullptr;  // nothing can be assigned
    }
  }

  detail::ChildLink link_;
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
/// The module's own type, where it may have come by a handle on a slot.
template <class M>
using RegisteredType = typename Registered<M>::Type;
/// What is a handle on the module's slot. No class derives from a final one.
template <class M>
using RegisteredHandle =
    std::conditional_t<std::is_final_v<RegisteredType<M>>, RegisteredType<M>, Child<RegisteredType<M>>>;

}  // namespace detail
}  // namespace adjoint::nn
