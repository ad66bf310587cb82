// Registration: makes the slots of a module's registry.
#include <adjoint/core/base/check.h>
#include <adjoint/nn/module_state.h>

#include <utility>

namespace adjoint::nn {

std::shared_ptr<TensorSlot> detail::make_slot(const char* op, const std::string& name, const std::string& owner_type,
                                              const std::shared_ptr<const void>& owner, bool trained,
                                              const RegisterOptions& options, Tensor value, TensorSlots& slots) {
  auto slot = std::make_shared<TensorSlot>();
  slot->name = name;
  slot->owner_type = owner_type;
  slot->owner = owner;
  slot->trained = trained;
  slot->optional = options.optional;
  reserve_one(slots);
  slot->put(op, std::move(value));
  slots.push_back(slot);
  return slot;
}

Parameter Module::register_parameter(const std::string& name, Tensor value, const RegisterOptions& options) {
  constexpr const char* kOp = "register_parameter";
  State& own = state(kOp);
  own.check_name(kOp, name);
  return Parameter(detail::make_slot(kOp, name, own.type, state_, true, options, std::move(value), own.parameters));
}

Buffer Module::register_buffer(const std::string& name, Tensor value, const RegisterOptions& options) {
  constexpr const char* kOp = "register_buffer";
  State& own = state(kOp);
  own.check_name(kOp, name);
  return Buffer(detail::make_slot(kOp, name, own.type, state_, false, options, std::move(value), own.buffers));
}

std::shared_ptr<ChildSlot> Module::add_slot(const char* op, const std::string& name, const Module* child,
                                            std::any typed) {
  State& own = state(op);
  if (child != nullptr) child->check_not_moved_from(op);
  own.check_name(op, name);
  // A child without children can contain this module only by being this module.
  const bool inside =
      child != nullptr && (*child == *this || (!child->state_->children.empty() && own.stands_in(*child->state_)));
  ADJOINT_CHECK(!inside, "{}: a module must not be put inside itself; got '{}' in {}", op, name, own.type);
  auto slot = std::make_shared<ChildSlot>();
  slot->name = name;
  slot->owner_type = own.type;
  slot->owner = state_;
  detail::reserve_one(own.children);
  detail::place(slot, child, typed);
  own.children.push_back(slot);
  return slot;
}

}  // namespace adjoint::nn
