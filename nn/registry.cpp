#include <adjoint/nn/registry.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/nn/module_state.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace adjoint::nn {
namespace detail {
namespace {

thread_local std::vector<std::pair<const Slot*, const void*>> departures;
thread_local bool all_depart = false;

}  // namespace

void reserve_departures(std::size_t count) { departures.reserve(departures.size() + count); }

void depart(const Slot& slot, const void* to) { departures.emplace_back(&slot, to); }

bool departs(const Slot& slot, const Slot* to) {
  if (all_depart) return true;
  const auto found = std::find_if(departures.begin(), departures.end(), [&](const auto& departure) {
    return departure.first == &slot && (to == nullptr || to->owner.lock().get() == departure.second);
  });
  if (found == departures.end()) return false;
  departures.erase(found);
  return true;
}

void settle() {
  if (!departures.empty()) departures.clear();
}

AllDepart::AllDepart() : before_(std::exchange(all_depart, true)) {}
AllDepart::~AllDepart() { all_depart = before_; }
bool AllDepart::on() { return all_depart; }

Tensor Computed::read() const {
  std::vector<Tensor> values;
  for (const auto& part : parts) values.push_back(part->tensor);
  const std::shared_ptr<const bool> mode = training.lock();
  return how.make(values, mode != nullptr && *mode);
}

void TensorSlot::check(const char* op, const Tensor& value) const {
  ADJOINT_CHECK(computed == nullptr,
                "{}: a parameter that others make must not be written; got '{}' in {}, which {} makes; write to its "
                "parts, or remove the reparametrisation first",
                op, name, owner_type, computed->how.kind);
  const char* what = trained ? "parameter" : "buffer";
  if (!value.defined()) {
    ADJOINT_CHECK(optional, "{}: a {} must be defined; got Tensor{{}} as '{}' in {}", op, what, name, owner_type);
    return;
  }
  if (trained) {
    ADJOINT_CHECK(is_floating_point(value.dtype()), "{}: a parameter must be floating point; got {} as '{}' in {}", op,
                  value.dtype(), name, owner_type);
    ADJOINT_CHECK(!value.impl()->recorded(),
                  "{}: a parameter must be a leaf; got the result of a recorded operation, of shape {}, as '{}' in {}; "
                  "detach() it",
                  op, value.shape(), name, owner_type);
  } else {
    ADJOINT_CHECK(!value.requires_grad(),
                  "{}: a buffer must not require a gradient; got '{}' in {}; detach() it, or register a parameter", op,
                  name, owner_type);
  }
}

std::string TensorSlot::name_of(const TensorImpl& parameter) const {
  const auto state = std::static_pointer_cast<const Module::State>(owner.lock());
  return state == nullptr || tensor.impl() != &parameter ? std::string() : join(state->path(true), name);
}

void TensorSlot::put(const char* op, Tensor value, bool from_parameter) {
  check(op, value);
  if (trained && value.defined() && !from_parameter) value.requires_grad_();
  if (trained && value.defined()) adjoint::detail::mark_parameter(value, weak_from_this());
  std::swap(tensor, value);  // the old one is released after the new one is in place
}

// ---- ChildLink.

void ChildLink::enter(std::shared_ptr<ChildSlot> slot, void* child, Follow follow) {
  leave();
  if (slot == nullptr) return;
  const std::lock_guard lock(slot->handles);
  child_ = child;
  follow_ = follow;
  next_ = std::exchange(slot->first, this);
  if (next_ != nullptr) next_->previous_ = this;
  slot_ = std::move(slot);
}

void ChildLink::leave() {
  if (slot_ == nullptr) return;
  {
    const std::lock_guard lock(slot_->handles);
    (previous_ != nullptr ? previous_->next_ : slot_->first) = next_;
    if (next_ != nullptr) next_->previous_ = previous_;
  }
  previous_ = next_ = nullptr;
  slot_.reset();
}

void ChildLink::on_no_slot(const Module& module) {
  module.check_not_moved_from("Child");
  fail(
      "Child: a module that is called must be registered; got a {} on no slot, whose parameters no optimiser would see; "
      "give it one: nn::Child<...> layer = register_module(\"layer\", ...)",
      module.type());
}

bool ChildLink::follows_owner(const std::shared_ptr<ChildSlot>& slot) const {
  return slot_ == nullptr || departs(*slot_, slot.get());
}

void ChildLink::assign(const Module* module, const void* value, std::any own) {
  constexpr const char* kOp = "Child::operator=";
  settle();
  if (module != nullptr) module->check_not_moved_from(kOp);
  ADJOINT_CHECK(slot_ != nullptr, "{}: the handle must be on a slot; got {} without one; register_module gives one",
                kOp, module == nullptr ? "an empty one" : "one of a " + module->type());
  if (const auto owner = std::static_pointer_cast<const Module::State>(slot_->owner.lock());
      owner != nullptr && module != nullptr) {
    ADJOINT_CHECK(!owner->stands_in(*module->state_), "{}: a module must not be put inside itself; got '{}' in {}", kOp,
                  slot_->name, slot_->owner_type);
  }
  const std::shared_ptr<ChildSlot> slot = slot_;
  const AllDepart guard;
  const std::lock_guard lock(slot->handles);
  place(slot, module, own);
  for (ChildLink* link = slot->first; link != nullptr; link = link->next_) link->follow_(link->child_, value);
}

}  // namespace detail

// ---- Parameter.

Tensor Parameter::tensor() const {
  detail::settle();
  return slot_ == nullptr ? Tensor() : slot_->read();
}

Tensor Parameter::own(const char* op) const {
  detail::settle();
  if (slot_ == nullptr) return {};
  if (slot_->computed != nullptr) slot_->check(op, {});
  return slot_->tensor;
}

void Parameter::assign(const Tensor& value) {
  detail::settle();
  ADJOINT_CHECK(slot_ != nullptr,
                "Parameter::operator=: the handle must be on a slot; got one without a slot; register_parameter and "
                "register_buffer give one");
  slot_->put("Parameter::operator=", value);
}

Parameter& Parameter::operator=(const Parameter& other) {
  if (slot_ == other.slot_) return *this;
  if (slot_ == nullptr || detail::departs(*slot_, other.slot_.get())) {
    slot_ = other.slot_;
  } else {
    slot_->put("Parameter::operator=", other.tensor(),
               other.slot_ != nullptr && other.slot_->trained && other.slot_->computed == nullptr);
  }
  return *this;
}

Parameter& Parameter::operator=(Parameter&& other) {
  if (slot_ == other.slot_) return *this;
  if (slot_ == nullptr || detail::departs(*slot_, other.slot_.get())) {
    slot_ = std::exchange(other.slot_, nullptr);
    return *this;
  }
  return *this = std::as_const(other);
}

}  // namespace adjoint::nn
