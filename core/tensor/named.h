// Named<E>: an enumerator, or PyTorch's name for it, for calls and options that accept either: .mode = "bilinear".
#pragma once

#include <adjoint/core/base/export.h>

#include <concepts>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace adjoint {

/// E is an enumeration with a function `E enumerator(std::string_view name, E)`, which throws Error for a name that it
/// does not have.
template <class E>
class Named {
 public:
  constexpr Named(E value) : value_(value) {}  // NOLINT(google-explicit-constructor)
  template <std::size_t N>
  Named(const char (&name)[N]) : value_(enumerator(std::string_view(name), E{})) {}  // NOLINT
  template <std::same_as<std::string> Name>
  Named(const Name& name) : value_(enumerator(std::string_view(name), E{})) {}  // NOLINT
  constexpr operator E() const { return value_; }                               // NOLINT(google-explicit-constructor)

 private:
  E value_;
};

/// The index of `name` in `names`. Throws Error, naming `option`, if `names` lacks it.
ADJOINT_API std::size_t place_of(const char* option, std::string_view name, std::span<const char* const> names);

/// The first member of options with designated initialisers: braces with numbers, as in Conv2d(3, 8, {3, 5}), are then
/// a size, because no number converts to this.
class ByName {
 public:
  constexpr ByName() {}  // NOLINT(modernize-use-equals-default): an aggregate would be left out of braces
  friend constexpr bool operator==(const ByName&, const ByName&) { return true; }
};

}  // namespace adjoint
