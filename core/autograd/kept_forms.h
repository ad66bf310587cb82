// Forms that kernels have derived from the elements of a frozen tensor (nn::freeze), such as a filter in their reading
// order: kept until the tensor is unfrozen. Internal.
#pragma once

#include <adjoint/core/base/export.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>

namespace adjoint::detail {

/// The bytes of all values on which a form depends, except the elements.
class FormKey {
 public:
  explicit FormKey(std::string_view maker) : bytes_(maker) {}
  template <class T>
  FormKey& operator<<(const T& value) {
    static_assert(std::has_unique_object_representations_v<T>, "padding has no value");
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

/// Any number of threads may use it at once.
class ADJOINT_API KeptForms {
 public:
  /// The largest number of forms; each is made for a whole problem. Beyond that a kernel makes its own form in each
  /// call.
  static constexpr std::size_t kMost = 8;

  /// Null if none is kept under that key.
  std::shared_ptr<const void> find(const FormKey& key) const;
  /// Returns true if there is room for another form.
  bool has_room() const;
  /// Keeps a form of `nbytes` if there is room, and returns the form that is now kept under that key, which may be an
  /// earlier one of another thread; null if there is no room.
  std::shared_ptr<const void> keep(const FormKey& key, std::shared_ptr<const void> form, std::size_t nbytes);

  std::size_t count() const;
  std::size_t nbytes() const;

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const void>> forms_;
  std::size_t nbytes_ = 0;
};

}  // namespace adjoint::detail
