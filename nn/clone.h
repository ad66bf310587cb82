// clone: a module with its own tensors, of any class. A function, because a member of Module would not know the class.
//
//   nn::Sequential average = nn::clone(net);
//
// A module's copy constructor makes another handle on the registered objects. While clone() copies, it makes a handle
// on copies of them: the registry below the module is copied first, and Module, Parameter, Child and Shared look up
// there which copies their handles belong to. A class of a program's own is therefore cloned by its implicit copy
// constructor, with its children, including empty ones and those in containers. An object in two places is one object
// in the clone too: tied parameters and shared layers stay so.
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/core/base/owned.h>
#include <adjoint/nn/child.h>

#include <concepts>
#include <memory>
#include <utility>

namespace adjoint::nn {
namespace detail {

struct Copies;

/// While it lives, copies of modules and their members on this thread become handles on copies of `module`'s registry.
class ADJOINT_API Cloning {
 public:
  explicit Cloning(const Module& module);
  ~Cloning();
  Cloning(const Cloning&) = delete;
  Cloning& operator=(const Cloning&) = delete;

  /// Throws Error if `made` is not a clone, or got Tensors of the original.
  void check(const Module& made) const;

 private:
  Owned<Copies> copies_;
  Copies* outer_;
};

/// The copy of the object at `original`; null outside clone() and before it is copied.
ADJOINT_API std::shared_ptr<void> find_copy(const void* original);
/// No effect outside clone().
ADJOINT_API void keep_copy(std::shared_ptr<const void> original, std::shared_ptr<void> copy);
ADJOINT_API bool cloning();

}  // namespace detail

/// State that all copies of a module share besides its registry, such as a Sequential's layers. Clones have their own,
/// with copies of the T's modules. T is default-constructible.
template <class T>
class Shared {
 public:
  Shared() : value_(std::make_shared<T>()) {}
  Shared(const Shared& other) : value_(detail::cloning() ? copy(other.value_) : other.value_) {}
  Shared(Shared&&) noexcept = default;
  Shared& operator=(const Shared&) = default;
  Shared& operator=(Shared&&) noexcept = default;
  ~Shared() = default;

  T& operator*() const { return *value_; }
  T* operator->() const { return value_.get(); }

 private:
  static std::shared_ptr<T> copy(const std::shared_ptr<T>& original) {
    if (original == nullptr) return nullptr;
    if (std::shared_ptr<void> found = detail::find_copy(original.get())) return std::static_pointer_cast<T>(found);
    auto made = std::make_shared<T>();
    detail::keep_copy(original, made);  // before it is filled, because it may hold a handle on itself
    *made = T(*original);
    return made;
  }

  std::shared_ptr<T> value_;
};

/// A module like `module`, with copies of all parameters and buffers below it: of their values, dtypes and devices,
/// requiring gradients as they do; with its mode, its hooks and its reparametrisations. Gradients and the hooks of
/// tensors are not copied. Functions (hooks, and layers of a Sequential) are copied as in C++: modules that they hold
/// by value are cloned, and objects that they refer to are not. Objects that are not registered below the module are
/// shared with the clone. Throws Error for a class that keeps a registered tensor as a Tensor, which would be the
/// original's (use nn::Parameter members), and for one whose copy constructor does not copy Module.
template <std::derived_from<Module> M>
requires std::copy_constructible<M> detail::RegisteredType<M> clone(const M& module) {
  using Type = detail::RegisteredType<M>;
  const detail::Cloning cloning(module);
  Type made(static_cast<const Type&>(module));
  cloning.check(made);
  return made;
}

}  // namespace adjoint::nn
