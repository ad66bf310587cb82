// The places of modules in others: the slots that hold them, and the path from the outermost one.
#include <adjoint/core/base/check.h>
#include <adjoint/core/base/forked.h>
#include <adjoint/nn/module_state.h>

#include <algorithm>
#include <mutex>
#include <new>
#include <stdexcept>
#include <unordered_set>
#include <utility>

namespace adjoint::nn {
namespace {

// Threads may put one module into separate trees.
std::mutex places_guard;
const HeldAtFork places_at_fork(places_guard);

}  // namespace

std::pair<std::shared_ptr<const ChildSlot>, std::shared_ptr<const Module::State>> Module::State::first_place() const {
  std::vector<std::shared_ptr<const ChildSlot>> held;  // let go once the guard is
  const std::lock_guard lock(places_guard);
  for (const auto& place : places) {
    held.push_back(place.lock());
    const auto& slot = held.back();
    if (slot == nullptr || !slot->module || slot->module->state_.get() != this) continue;
    if (auto owner = std::static_pointer_cast<const State>(slot->owner.lock())) return {slot, std::move(owner)};
  }
  return {};
}

std::string Module::State::path(bool typed) const {
  const auto [slot, owner] = first_place();
  if (owner == nullptr) return typed ? type : std::string();
  return detail::join(owner->path(typed), slot->name);
}

bool Module::State::stands_in(const State& other) const {
  std::vector<std::shared_ptr<const void>> held;  // let go once the guard is
  std::unordered_set<const State*> seen{this};
  std::vector<const State*> left{this};
  const std::lock_guard lock(places_guard);
  while (!left.empty()) {
    const State* const now = left.back();
    if (now == &other) return true;
    left.pop_back();
    for (const auto& place : now->places) {
      const auto slot = place.lock();
      if (slot == nullptr) continue;
      held.push_back(slot);
      if (!slot->module || slot->module->state_.get() != now) continue;
      const auto owner = std::static_pointer_cast<const State>(slot->owner.lock());
      if (owner == nullptr || !seen.insert(owner.get()).second) continue;
      held.push_back(owner);
      left.push_back(owner.get());
    }
  }
  return false;
}

void Module::State::list_below(std::vector<std::shared_ptr<ChildSlot>>& all,
                               std::unordered_set<const State*>& seen) const {
  for (const auto& slot : children) {
    if (!slot->module || !seen.insert(slot->module->state_.get()).second) continue;
    slot->module->state_->list_below(all, seen);
    all.push_back(slot);
  }
}

void detail::tell_path(const Module& module, Error& error) {
  if (module.state_ == nullptr) return;
  try {
    const std::string path = module.state_->path(), message = error.what();
    if (path.empty() || message.starts_with(path + ".") || message.starts_with(path + ": ")) return;
    // The same exception continues, with its class.
    static_cast<std::runtime_error&>(error) = std::runtime_error(path + ": " + message);
  } catch (const std::bad_alloc&) {
    return;  // no memory for a longer message
  }
}

void detail::place(const std::shared_ptr<ChildSlot>& slot, const Module* module, std::any& own) {
  std::optional<Module> before;  // destroyed after the guard
  const std::lock_guard lock(places_guard);
  if (module != nullptr) {
    auto& places = module->state_->places;
    if (places.size() == places.capacity()) std::erase_if(places, [](const auto& place) { return place.expired(); });
    places.push_back(slot);
  }
  slot->own.swap(own);
  if (slot->module) before.emplace(std::move(*slot->module));
  slot->module.reset();
  if (module != nullptr) slot->module.emplace(*module);
}

}  // namespace adjoint::nn
