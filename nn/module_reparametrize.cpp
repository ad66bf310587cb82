// Computed parameters: the slot holds the computation, and the parts get slots beside it.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/nn/module_state.h>

#include <algorithm>

namespace adjoint::nn {

void Module::reparametrize(const std::string& name, Reparametrization how) {
  State& own = state("Module::reparametrize");
  const std::string kind = how.kind;
  const char* const kOp = kind.c_str();
  const auto found =
      std::find_if(own.parameters.begin(), own.parameters.end(), [&](const auto& slot) { return slot->name == name; });
  ADJOINT_CHECK(found != own.parameters.end() && (*found)->read().defined(),
                "{}: the module must have the parameter; got '{}' for {}", kOp, name, own.type);
  const std::shared_ptr<TensorSlot> slot = *found;
  ADJOINT_CHECK(slot->computed == nullptr, "{}: nothing else must make the parameter; got '{}' in {}, which {} makes",
                kOp, name, own.type, slot->computed->how.kind);
  const PauseTape pause;
  auto computed = std::make_shared<detail::Computed>();
  TensorSlots parameters, buffers;
  for (const ParameterPart& part : how.parts) {
    own.check_name(kOp, part.name);
    TensorSlots& slots = part.trained ? parameters : buffers;
    computed->parts.push_back(detail::make_slot(kOp, part.name, own.type, state_, part.trained, {}, part.value, slots));
    computed->parts.back()->alias = part.alias;
  }
  computed->training = std::shared_ptr<const bool>(state_, &own.training);
  computed->how = std::move(how);
  for (ParameterPart& part : computed->how.parts) part.value = {};
  std::vector<Tensor> values;
  for (const auto& part : computed->parts) values.push_back(part->tensor);
  const Tensor made = computed->how.make(values, false);
  ADJOINT_CHECK(made.defined() && made.shape() == slot->tensor.shape() && made.dtype() == slot->tensor.dtype(),
                "{}: the computed tensor must have the parameter's shape and dtype; got {}, '{}' is {} {}", kOp,
                made.defined() ? to_string(made.dtype()) + " " + to_string(made.shape()) : "nothing", name,
                slot->tensor.dtype(), slot->tensor.shape());
  for (const auto& [from, to] : {std::pair{&parameters, &own.parameters}, {&buffers, &own.buffers}}) {
    to->reserve(to->size() + from->size());
  }
  own.parameters.insert(own.parameters.end(), parameters.begin(), parameters.end());
  own.buffers.insert(own.buffers.end(), buffers.begin(), buffers.end());
  slot->computed = std::move(computed);
  slot->tensor = {};
}

void Module::remove_reparametrization(const std::string& name, const std::string& kind) {
  State& own = state("Module::remove_reparametrization");
  const auto found = std::find_if(own.parameters.begin(), own.parameters.end(), [&](const auto& slot) {
    return slot->name == name && slot->computed != nullptr && slot->computed->how.kind == kind;
  });
  ADJOINT_CHECK(found != own.parameters.end(),
                "Module::remove_reparametrization: {} must make the parameter; got '{}' in {}", kind, name, own.type);
  const std::shared_ptr<TensorSlot> slot = *found;
  const std::shared_ptr<const detail::Computed> computed = slot->computed;
  std::vector<Tensor> values;
  bool trained = false;
  for (const auto& part : computed->parts) {
    values.push_back(part->tensor);
    trained |= part->tensor.requires_grad();
  }
  const PauseTape pause;
  slot->tensor = computed->how.make(values, false).detach();
  slot->tensor.requires_grad_(trained);
  adjoint::detail::mark_parameter(slot->tensor, slot);
  slot->computed = nullptr;
  for (TensorSlots* slots : {&own.parameters, &own.buffers}) {
    std::erase_if(*slots, [&](const auto& other) {
      return std::find(computed->parts.begin(), computed->parts.end(), other) != computed->parts.end();
    });
  }
}

}  // namespace adjoint::nn
