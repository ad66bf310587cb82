// A module's hooks: all its copies share them through their state.
#include <adjoint/nn/module_state.h>

namespace adjoint::nn {

namespace {

// The module whose hooks a Layer is running, so that it does not run them again.
thread_local const void* with_hooks = nullptr;

}  // namespace

std::uint64_t Module::register_forward_pre_hook(ForwardPreHook hook) {
  State& own = state("register_forward_pre_hook");
  ADJOINT_CHECK(hook != nullptr, "register_forward_pre_hook: the hook must not be empty; got one without a target");
  own.pre_hooks.emplace_back(own.next_hook, std::move(hook));
  own.await_hooks();
  return own.next_hook++;
}

std::uint64_t Module::register_forward_hook(ForwardHook hook) {
  State& own = state("register_forward_hook");
  ADJOINT_CHECK(hook != nullptr, "register_forward_hook: the hook must not be empty; got one without a target");
  own.hooks.emplace_back(own.next_hook, std::move(hook));
  own.await_hooks();
  return own.next_hook++;
}

void Module::remove_hook(std::uint64_t id) {
  State& own = state("Module::remove_hook");
  const auto has_id = [&](const auto& hook) { return hook.first == id; };
  const auto removed = std::erase_if(own.pre_hooks, has_id) + std::erase_if(own.hooks, has_id);
  ADJOINT_CHECK(removed == 1, "Module::remove_hook: the id must be a hook's; got {} for {}", id, own.type);
}

bool Module::has_forward_hooks() const {
  return state_ != nullptr && !(state_->pre_hooks.empty() && state_->hooks.empty());
}

Tensor Module::run_hooked(const Tensor& input, const void* forward, Tensor (*call)(const void*, const Tensor&)) const {
  return detail::located(*this, [&]() -> Tensor {
    if (!has_forward_hooks()) return call(forward, input);
    const std::shared_ptr<State> own = state_;
    const void* const before = std::exchange(with_hooks, nullptr);
    if (before == own.get()) return call(forward, input);
    if (own->unproven) own->prove();
    const auto pre_hooks = own->pre_hooks;  // hooks may remove themselves
    const auto hooks = own->hooks;
    Tensor given = input;
    for (const auto& [id, hook] : pre_hooks) {
      if (Tensor replacement = hook(*this, given); replacement.defined()) given = std::move(replacement);
    }
    struct Mark {
      explicit Mark(const void* module) { with_hooks = module; }
      ~Mark() { with_hooks = nullptr; }
    };
    Tensor output;
    {
      const Mark mark(own.get());
      output = call(forward, given);
    }
    for (const auto& [id, hook] : hooks) {
      if (Tensor replacement = hook(*this, given, output); replacement.defined()) output = std::move(replacement);
    }
    return output;
  });
}

}  // namespace adjoint::nn
