#include <adjoint/core/gradient_places.h>

#include <algorithm>

namespace adjoint::detail {

constinit thread_local GradientPlaces* GradientPlaces::current_ = nullptr;

bool GradientPlaces::has(std::int64_t id) const {
  return std::any_of(places_.begin(), places_.end(), [id](const Place& place) { return place.id == id; });
}

Tensor GradientPlaces::take(const TensorSpec& spec, Device device) {
  for (Place& place : places_) {
    if (place.taken || place.place.shape() != spec.shape || place.place.dtype() != spec.dtype ||
        place.place.device() != device) {
      continue;
    }
    place.taken = true;
    return place.place.detach();
  }
  return {};
}

void GradientPlaces::settle(std::vector<Tensor>& operand_grads) const {
  for (const Place& place : places_) {
    if (!place.taken) continue;
    for (std::size_t i = 0; i < operand_grads.size(); ++i) {
      Tensor& gradient = operand_grads[i];
      if (i == place.operand || !gradient.defined()) continue;
      if (gradient.impl()->storage == place.place.impl()->storage) gradient = gradient.clone();
    }
  }
}

}  // namespace adjoint::detail
