// Owned: std::unique_ptr for a class's hidden implementation. A public header that uses it compiles faster.
#pragma once

#include <utility>

namespace adjoint {

/// The only owner of an object, or null. T may be incomplete except where an Owned is destroyed or assigned to.
template <class T>
class Owned {
 public:
  Owned() = default;
  explicit Owned(T* object) : object_(object) {}
  Owned(Owned&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    T* const taken = std::exchange(other.object_, nullptr);
    destroy(std::exchange(object_, taken));
    return *this;
  }
  ~Owned() { destroy(object_); }

  T* get() const { return object_; }
  T& operator*() const { return *object_; }
  T* operator->() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  static void destroy(T* object) {
    static_assert(sizeof(T) > 0, "T is complete here");
    delete object;
  }

  T* object_ = nullptr;
};

}  // namespace adjoint
