// What kernels have made of the elements of a tensor that a program froze (nn::freeze), such as a filter in the order
// in which they read it: kept until it is unfrozen. Internal.
#pragma once

#include <adjoint/core/export.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>

namespace adjoint::detail {

/// What a form depends on besides the elements, in bytes.
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

/// Any number of threads may ask at once.
class ADJOINT_API KeptForms {
 public:
  /// So many, for a form is made for a whole problem: for further ones a kernel makes its own in each call.
  static constexpr std::size_t kMost = 8;

  /// Null where none is kept under that key.
  std::shared_ptr<const void> find(const FormKey& key) const;
  /// Whether there is room for a further one.
  bool has_room() const;
  /// Keeps a form of `nbytes` where there is room, and returns what is kept under that key now, which is another
  /// thread's form where that was first; null where there is no room.
  std::shared_ptr<const void> keep(const FormKey& key, std::shared_ptr<const void> form, std::size_t nbytes);

  std::size_t count() const;
  std::size_t nbytes() const;

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const void>> forms_;
  std::size_t nbytes_ = 0;
};

}  // namespace adjoint::detail
