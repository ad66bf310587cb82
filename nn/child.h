// Child<M>: the handle on a slot of a module's registry, in which a child module stands.
//
// It is an M, the one in its slot, whatever was put there last and through whichever handle. Assigning an M to it
// registers that module in the other's place. Copies are handles on the same slot; a copy of type M is a handle on the
// module alone.
#pragma once

#include <adjoint/core/export.h>

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

namespace adjoint::nn {

class Module;

namespace detail {

struct ChildSlot;

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
  /// Puts a module into the slot and has every handle follow. `typed` is the same module as an M. Throws Error, with
  /// everything as it was, where there is no slot and where the module would come to stand inside itself.
  void assign(const Module& module, const void* typed);
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

}  // namespace detail

template <class M>
class Child : public M {
 public:
  /// On no slot. Handles on slots come from Module's register_module.
  Child() requires std::default_initializable<M>
  = default;
  Child(const Child& other) : M(other), link_(other.link_.slot(), this, follow()) {}
  Child(Child&& other) : M(std::move(static_cast<M&>(other))), link_(other.link_.slot(), this, follow()) {
    other.link_.leave();
  }
  ~Child() = default;

  /// Puts `module` into the slot. Throws Error, with everything as it was, where that would put a module inside itself.
  Child& operator=(const M& module) requires std::is_copy_assignable_v<M> {
    const M held = module, before = *this;  // what goes, goes once the slot is at rest
    link_.assign(held, &held);
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
      : M(std::move(module)), link_(std::move(slot), this, follow()) {}

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

}  // namespace detail
}  // namespace adjoint::nn
