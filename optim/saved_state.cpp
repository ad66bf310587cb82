#include <adjoint/optim/saved_state.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/optim/batch.h>

#include <utility>

namespace adjoint::optim {

void check_weight(const std::string& owner, const Tensor& weight, const std::string& as) {
  ADJOINT_CHECK(weight.defined(), "{}: parameters must be defined; got Tensor{{}} as {}", owner, as);
  const bool recorded = weight.impl()->recorded();
  ADJOINT_CHECK(is_floating_point(weight.dtype()) && !recorded && weight.is_contiguous(),
                "{}: parameters must be contiguous floating-point leaves; got {} {}{} as {}", owner, weight.dtype(),
                weight.shape(), recorded ? ", the result of an operation" : "", as);
}

SavedState::SavedState(std::string owner, const NamedTensors& state) : owner_(std::move(owner)), size_(state.size()) {
  for (const auto& [name, tensor] : state) {
    ADJOINT_CHECK(tensor.defined(), "load_state_dict ({}): every tensor must be defined; got Tensor{{}} as '{}'",
                  owner_, name);
    ADJOINT_CHECK(left_.emplace(name, tensor).second, "load_state_dict ({}): names must be unique; got '{}' twice",
                  owner_, name);
  }
}

Tensor SavedState::take(const std::string& name) {
  const auto found = left_.find(name);
  ADJOINT_CHECK(found != left_.end(), "load_state_dict ({}): the state must hold '{}'; got {} other names", owner_,
                name, size_);
  Tensor tensor = std::move(found->second);
  left_.erase(found);
  return tensor;
}

std::int64_t SavedState::take_count(const std::string& name, std::int64_t least) {
  const Tensor tensor = take(name);
  ADJOINT_CHECK(tensor.numel() == 1 && tensor.dtype() == kInt64,
                "load_state_dict ({}): '{}' must be one int64; got {} {}", owner_, name, tensor.dtype(),
                tensor.shape());
  const auto count = tensor.item<std::int64_t>();
  ADJOINT_CHECK(count >= least && count < kMostSteps, "load_state_dict ({}): '{}' must {}; got {}", owner_, name,
                count >= kMostSteps ? "be below 2^62"
                : least == 0        ? "not be negative"
                                    : "be at least 1",
                count);
  return count;
}

Tensor SavedState::take_like(const std::string& name, const Tensor& weight) {
  const Tensor tensor = take(name);
  const DType dtype = state_dtype(weight.dtype());
  ADJOINT_CHECK(tensor.shape() == weight.shape() &&
                    (tensor.dtype() == dtype || state_dtype(tensor.dtype()) == kFloat32),
                "load_state_dict ({}): '{}' must be {} {} (a narrower float is converted); got {} {}", owner_, name,
                dtype, weight.shape(), tensor.dtype(), tensor.shape());
  Tensor copy = Tensor::empty(weight.shape(), {.dtype = dtype, .device = weight.device()});
  copy.copy_(tensor);
  return copy;
}

void SavedState::check_taken(const std::string& whom) const {
  ADJOINT_CHECK(left_.empty(), "load_state_dict ({}): every name must belong to one of the {}; got '{}'", owner_, whom,
                left_.begin()->first);
}

}  // namespace adjoint::optim
