#include <adjoint/core/tensor/named_tensors.h>

#include <adjoint/core/base/check.h>

#include <algorithm>

namespace adjoint {

bool NamedTensors::contains(std::string_view name) const {
  return std::any_of(begin(), end(), [name](const auto& entry) { return entry.first == name; });
}

const Tensor& NamedTensors::named(std::string_view name) const {
  for (const auto& [own, tensor] : *this) {
    if (own == name) return tensor;
  }
  constexpr std::size_t kMost = 8;
  std::string names;
  for (std::size_t i = 0; i < size() && i < kMost; ++i) names += (i == 0 ? "" : ", ") + (*this)[i].first;
  if (size() > kMost) names += fmt::format(" and {} more", size() - kMost);
  fail("NamedTensors: a name must be one of the list's; got '{}' among {}", name, empty() ? "none" : names);
}

}  // namespace adjoint
