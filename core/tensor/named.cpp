#include <adjoint/core/tensor/named.h>

#include <adjoint/core/base/check.h>

#include <algorithm>

namespace adjoint {

std::size_t place_of(const char* option, std::string_view name, std::span<const char* const> names) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) {
    std::string all;
    for (const char* each : names) all += (all.empty() ? "\"" : ", \"") + std::string(each) + '"';
    fail("{}: a name must be one of {}; got \"{}\"", option, all, name);
  }
  return static_cast<std::size_t>(found - names.begin());
}

}  // namespace adjoint
