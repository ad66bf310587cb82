#include <adjoint/nn/clone.h>

#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/nn/module_state.h>

#include <unordered_map>

namespace adjoint::nn {
namespace detail {
namespace {

thread_local Copies* under_way = nullptr;

}  // namespace

// Maps originals to their copies. Originals are kept alive, so that none of their addresses is reused.
struct Copies {
  using State = Module::State;
  struct Copy {
    std::shared_ptr<const void> original;
    std::shared_ptr<void> copy;
  };
  struct Watched {
    const TensorSlot* slot;
    long handles;
  };

  std::unordered_map<const void*, Copy> all;
  std::unordered_map<const TensorImpl*, Tensor> tensors;
  std::vector<std::pair<std::shared_ptr<const State>, std::shared_ptr<State>>> states;
  std::vector<Watched> watched;
  const State* root = nullptr;

  template <class T>
  std::shared_ptr<T> find(const std::shared_ptr<T>& original) const {
    const auto found = all.find(original.get());
    return found == all.end() ? nullptr : std::static_pointer_cast<T>(found->second.copy);
  }

  Tensor tensor(const Tensor& original) {
    if (!original.defined()) return {};
    Tensor& copy = tensors[original.impl()];
    if (!copy.defined()) {
      copy = original.detach().clone();
      if (original.requires_grad()) copy.requires_grad_();
    }
    return copy;
  }

  std::shared_ptr<TensorSlot> slot(const std::shared_ptr<TensorSlot>& original, const std::shared_ptr<State>& owner) {
    auto copy = std::make_shared<TensorSlot>(*original);
    copy->owner = owner;
    copy->tensor = tensor(original->tensor);
    if (copy->trained && copy->tensor.defined()) adjoint::detail::mark_parameter(copy->tensor, copy);
    all[original.get()] = {original, copy};
    return copy;
  }

  // The registry below, without the modules that functions and classes hold.
  std::shared_ptr<State> state(const std::shared_ptr<State>& original) {
    if (auto found = find(original)) return found;
    auto copy = std::make_shared<State>();
    all[original.get()] = {original, copy};
    states.emplace_back(original, copy);
    copy->type = original->type;
    copy->description = original->description;
    copy->training = original->training;
    copy->next_hook = original->next_hook;
    for (const auto& each : original->parameters) copy->parameters.push_back(slot(each, copy));
    for (const auto& each : original->buffers) copy->buffers.push_back(slot(each, copy));
    for (const auto& each : original->children) {
      auto child = std::make_shared<ChildSlot>();
      static_cast<Slot&>(*child) = *each;
      child->owner = copy;
      if (each->module) {
        Module module;
        module.state_ = state(each->module->state_);
        std::any none;
        place(child, &module, none);
      }
      copy->children.push_back(child);
      all[each.get()] = {each, child};
    }
    return copy;
  }

  // Functions may hold handles on any of it, so Copies must be active by now.
  void functions() const {
    for (const auto& [original, copy] : states) {
      copy->pre_hooks = std::vector(original->pre_hooks);
      copy->hooks = std::vector(original->hooks);
      if (original->unproven) copy->await_hooks();
      for (const auto& each : original->parameters) {
        if (each->computed == nullptr) continue;
        auto computed = std::make_shared<Computed>();
        computed->how = each->computed->how;
        for (const auto& part : each->computed->parts) computed->parts.push_back(find(part));
        computed->training = std::shared_ptr<const bool>(copy, &copy->training);
        find(each)->computed = std::move(computed);
      }
    }
  }

  // Children under their own types.
  void types() const {
    for (const auto& [original, copy] : states) {
      for (const auto& each : original->children) find(each)->own = std::any(each->own);
    }
  }

  void watch() {
    for (const auto& [original, copy] : states) {
      for (const TensorSlots* slots : {&original->parameters, &original->buffers}) {
        for (const auto& each : *slots) {
          if (each->tensor.defined()) watched.push_back({each.get(), each->tensor.impl_ptr().use_count()});
        }
      }
    }
  }
};

Cloning::Cloning(const Module& module) : copies_(new Copies), outer_(under_way) {
  constexpr const char* kOp = "clone";
  const OpScope scope(kOp);
  module.check_not_moved_from(kOp);
  const PauseTape pause;
  copies_->root = module.state_.get();
  copies_->state(module.state_);
  under_way = copies_.get();
  try {
    copies_->functions();
    copies_->watch();
    copies_->types();
  } catch (...) {
    under_way = outer_;
    throw;
  }
}

Cloning::~Cloning() { under_way = outer_; }

void Cloning::check(const Module& made) const {
  ADJOINT_CHECK(made.state_.get() != copies_->root,
                "clone: the copy constructor must copy the base class Module; got the original of a {}", made.type());
  for (const auto& [slot, handles] : copies_->watched) {
    ADJOINT_CHECK(
        slot->tensor.impl_ptr().use_count() <= handles,
        "clone: a module must keep registered tensors as nn::Parameter or nn::Buffer; got a Tensor of '{}' in "
        "{}, which is the original's",
        slot->name, slot->owner_type);
  }
}

std::shared_ptr<void> find_copy(const void* original) {
  const auto found = under_way->all.find(original);
  return found == under_way->all.end() ? nullptr : found->second.copy;
}

void keep_copy(std::shared_ptr<const void> original, std::shared_ptr<void> copy) {
  const void* const key = original.get();
  under_way->all[key] = {std::move(original), std::move(copy)};
}

bool cloning() { return under_way != nullptr; }

// The copy of a slot or a state, or the original outside clone() and if it is registered elsewhere.
template <class T>
std::shared_ptr<T> copied(const std::shared_ptr<T>& original) {
  if (under_way == nullptr) return original;
  std::shared_ptr<T> found = under_way->find(original);
  return found == nullptr ? original : found;
}

std::shared_ptr<ChildSlot> copied_slot(const std::shared_ptr<ChildSlot>& slot) { return copied(slot); }

}  // namespace detail

Module::Module(const Module& other) : state_(detail::copied(other.state_)) {}
Parameter::Parameter(const Parameter& other) : slot_(detail::copied(other.slot_)) {}

}  // namespace adjoint::nn
