// Reports a module's call to its observers: a Profiler learns its path, anomaly mode its path and type, and a module
// with hooks learns that a part of it was called before its hooks ran.
#include <adjoint/core/base/check.h>
#include <adjoint/core/base/forked.h>
#include <adjoint/core/base/warning.h>
#include <adjoint/core/profile/profiled_call.h>
#include <adjoint/nn/module_state.h>

#include <exception>
#include <mutex>
#include <optional>
#include <utility>

namespace adjoint::nn {
namespace detail {
namespace {

using adjoint::detail::ModuleCalls;
using adjoint::detail::ModuleWatcher;

thread_local const void* innermost_module = nullptr;  // of this thread, that somebody watches

std::mutex unproven_guard;
const HeldAtFork unproven_at_fork(unproven_guard);
std::size_t unproven_modules = 0;  // whose hooks are yet to run for the first time

}  // namespace

struct ModuleCall::Watched {
  std::optional<adjoint::detail::ProfiledCall> profiled;
  std::string name;  // in anomaly mode
  const void* outer_module = nullptr;
  const std::string* outer_name = nullptr;
};

void ModuleCall::begin(const Module& module) {
  if (module.state_ == nullptr) return;
  const Module::State& state = *module.state_;
  // A Child, a Layer and the module itself report the same call.
  const bool again = &state == innermost_module;
  if (!again && ModuleCalls::watched_by(ModuleWatcher::kHooks)) state.called();
  auto watched = std::make_unique<Watched>();
  if (!again && adjoint::detail::Profiling::on()) {
    const std::string path = state.path(true);
    watched->profiled.emplace().begin_named(adjoint::detail::ProfiledKind::kModule, path.empty() ? "Module" : path,
                                            kCPU);
  }
  if (ModuleCalls::watched_by(ModuleWatcher::kAnomaly)) {
    const std::string path = state.path();
    watched->name = path.empty() ? state.type : fmt::format("'{}' ({})", path, state.type);
  }
  // From here on nothing fails.
  watched->outer_module = std::exchange(innermost_module, &state);
  watched->outer_name = ModuleCalls::innermost();
  if (!watched->name.empty()) ModuleCalls::set_innermost(&watched->name);
  watched_ = watched.release();
}

void ModuleCall::end() noexcept {
  innermost_module = watched_->outer_module;
  ModuleCalls::set_innermost(watched_->outer_name);
  delete watched_;
}

void HookWatch::begin(const Module& module) {
  if (module.state_ == nullptr || !module.state_->unproven) return;
  module_ = &module;
  exceptions_ = std::uncaught_exceptions();
}

void HookWatch::end() const {
  if (module_->state_ != nullptr && std::uncaught_exceptions() == exceptions_) module_->state_->tell_of_hooks();
}

}  // namespace detail

// ---- Hooks that did not run. A module is unproven from its first hook on until its hooks run.

Module::State::~State() { prove(); }

void Module::State::await_hooks() {
  const std::lock_guard lock(detail::unproven_guard);
  if (proven || unproven.exchange(true)) return;
  ++detail::unproven_modules;
  adjoint::detail::ModuleCalls::watch(adjoint::detail::ModuleWatcher::kHooks, true);
}

void Module::State::prove() {
  proven = true;
  if (!unproven) return;
  const std::lock_guard lock(detail::unproven_guard);
  if (!unproven.exchange(false)) return;
  if (--detail::unproven_modules == 0)
    adjoint::detail::ModuleCalls::watch(adjoint::detail::ModuleWatcher::kHooks, false);
}

void Module::State::tell_of_hooks() {
  if (!unproven) return;  // another thread was first
  prove();
  if (pre_hooks.empty() && hooks.empty()) return;
  adjoint::detail::warn(fmt::format(
      "register_forward_hook: a module's call must run its hooks; got a call of {} (a {}) that did not; return "
      "hooked(input, [&](const Tensor& x) {{ ... }}) from its operator()",
      path(true), type));
}

// A program may call a part of a module alone. A part that is called twice is taken to be called by the module.
void Module::State::called() const {
  std::vector<std::shared_ptr<const State>> above;
  for (auto owner = first_place().second; owner != nullptr; owner = above.back()->first_place().second) {
    above.push_back(owner);
    auto& state = const_cast<State&>(*owner);
    if (!state.unproven) continue;
    const State* first = nullptr;
    if (!state.called_below.compare_exchange_strong(first, this) && first == this) state.tell_of_hooks();
  }
}

}  // namespace adjoint::nn
