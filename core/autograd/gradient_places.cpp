#include <adjoint/core/autograd/gradient_places.h>

#include <adjoint/core/base/forked.h>

#include <algorithm>
#include <mutex>

namespace adjoint::detail {
namespace {

struct Watching {
  std::mutex mutex;
  HeldAtFork at_fork{mutex};
  std::vector<std::weak_ptr<PlacingSink>> sinks;
};
Watching& watching() {
  static auto* const all = new Watching;  // outlives static destructors that still sweep
  return *all;
}

}  // namespace

void watch_sweeps(std::weak_ptr<PlacingSink> sink) {
  const std::lock_guard lock(watching().mutex);
  std::erase_if(watching().sinks, [](const auto& other) { return other.expired(); });
  watching().sinks.push_back(std::move(sink));
}

std::vector<std::shared_ptr<PlacingSink>> sinks_that_watch() {
  std::vector<std::shared_ptr<PlacingSink>> live;
  const std::lock_guard lock(watching().mutex);
  for (const auto& sink : watching().sinks) {
    if (auto held = sink.lock()) live.push_back(std::move(held));
  }
  return live;
}

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
