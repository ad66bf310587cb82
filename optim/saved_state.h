// Shared by optimisers and averages of weights: the check of weights, and state that is read by name. Internal to
// optim.
#pragma once

#include <adjoint/core/tensor/named_tensors.h>

#include <cstdint>
#include <string>
#include <unordered_map>

namespace adjoint::optim {

/// An upper bound for counts of steps: no training reaches it, and every sum with them fits.
inline constexpr std::int64_t kMostSteps = std::int64_t{1} << 62;

/// Throws Error, naming `owner` and `as`, unless the weight is a contiguous floating-point leaf.
void check_weight(const std::string& owner, const Tensor& weight, const std::string& as);

/// A saved state from which tensors are removed one by one. Errors name `owner`.
class SavedState {
 public:
  /// Throws Error for undefined tensors and for a name that occurs twice.
  SavedState(std::string owner, const NamedTensors& state);

  bool contains(const std::string& name) const { return left_.contains(name); }
  /// All throw Error for a name that is missing or was already taken.
  Tensor take(const std::string& name);
  /// One int64. Throws Error for anything else, for less than `least`, which is 0 or 1, and for kMostSteps or more.
  std::int64_t take_count(const std::string& name, std::int64_t least);
  /// A copy on the weight's device, in state_dtype() of its dtype. Throws Error for another shape, and for a dtype that
  /// is neither that nor narrower.
  Tensor take_like(const std::string& name, const Tensor& weight);
  /// Throws Error, naming `whom`, if an entry is left.
  void check_taken(const std::string& whom) const;

 private:
  std::string owner_;
  std::size_t size_;
  std::unordered_map<std::string, Tensor> left_;
};

}  // namespace adjoint::optim
