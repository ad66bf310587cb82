#include <adjoint/optim/optimizer.h>

#include <adjoint/core/check.h>
#include <adjoint/core/copy.h>
#include <adjoint/core/tape.h>
#include <adjoint/core/tensor_impl.h>
#include <adjoint/optim/batch.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

namespace adjoint::optim {

Optimizer::Optimizer(const char* name, std::vector<Tensor> parameters, double lr, std::vector<std::string> state_names)
    : name_(name),
      parameters_(std::move(parameters)),
      state_names_(std::move(state_names)),
      slots_(parameters_.size()) {
  ADJOINT_ASSERT(state_names_.size() <= kMaxState, "{} keeps {} tensors for each parameter", name_,
                 state_names_.size());
  ADJOINT_CHECK(!parameters_.empty(), "{}: there must be a parameter; got an empty list", name_);
  std::unordered_set<const TensorImpl*> seen;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& parameter = parameters_[i];
    ADJOINT_CHECK(parameter.defined(), "{}: parameters must be defined; got Tensor{{}} as parameter {}", name_, i);
    ADJOINT_CHECK(is_floating_point(parameter.dtype()) && !parameter.impl()->recorded() && parameter.is_contiguous(),
                  "{}: parameters must be contiguous floating-point leaves; got {} {}{} as parameter {}", name_,
                  parameter.dtype(), parameter.shape(),
                  parameter.impl()->recorded() ? ", the result of an operation" : "", i);
    ADJOINT_CHECK(seen.insert(parameter.impl()).second,
                  "{}: parameters must be distinct; got parameter {} (shape {}) twice", name_, i, parameter.shape());
  }
  set_lr(lr);
}

Optimizer::~Optimizer() = default;

void Optimizer::set_lr(double lr) {
  ADJOINT_CHECK(std::isfinite(lr) && lr >= 0.0, "{}: lr must be finite and not negative; got {}", name_, lr);
  lr_ = lr;
}

void Optimizer::zero_grad() {
  for (Tensor& parameter : parameters_) parameter.set_grad({});
}

void Optimizer::prepare_state(std::size_t i) {
  const Tensor& parameter = parameters_[i];
  Slot& slot = slots_[i];
  if (slot.state.empty()) {
    std::vector<Tensor> made;
    for (std::size_t s = 0; s < state_names_.size(); ++s)
      made.push_back(Tensor::zeros(parameter.shape(), parameter.options()));
    slot.state = std::move(made);
  }
  for (Tensor& tensor : slot.state) tensor = tensor.to(parameter.dtype()).to(parameter.device());
}

void Optimizer::step() {
  const PauseTape pause;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].grad().defined()) prepare_state(i);
  }
  std::vector<Tensor> gradients;  // copies of those that are not contiguous live as long as the kernels need them
  std::map<std::tuple<DType, DeviceType, int, std::int64_t>, Batch> batches;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    Tensor& parameter = parameters_[i];
    if (!parameter.grad().defined() || parameter.numel() == 0) continue;
    Slot& slot = slots_[i];
    const Device device = parameter.device();
    const std::int64_t step = ++slot.step;
    gradients.push_back(contiguous_copy(parameter.grad()));
    Item item{parameter.raw_mutable_data(), gradients.back().raw_data(), {}, parameter.numel()};
    for (std::size_t s = 0; s < slot.state.size(); ++s) item.state[s] = slot.state[s].raw_mutable_data();
    Batch& batch = batches
                       .try_emplace({parameter.dtype(), device.type, device.index, step},
                                    Batch{device, parameter.dtype(), step, {}})
                       .first->second;
    batch.items.push_back(item);
  }
  for (const auto& [key, batch] : batches) update(batch);
}

NamedTensors Optimizer::state_dict() const {
  NamedTensors state{{"lr", Tensor::scalar(lr_, {.dtype = kFloat64})}};
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    if (slot.step == 0) continue;
    const std::string prefix = std::to_string(i) + ".";
    state.emplace_back(prefix + "step", Tensor::from_vector<std::int64_t>({slot.step}, {}, {.dtype = kInt64}));
    for (std::size_t s = 0; s < slot.state.size(); ++s) state.emplace_back(prefix + state_names_[s], slot.state[s]);
  }
  return state;
}

Optimizer::Slot Optimizer::load_slot(std::size_t i, std::vector<Tensor> given) const {
  const Tensor& parameter = parameters_[i];
  ADJOINT_CHECK(given[0].numel() == 1 && given[0].dtype() == kInt64,
                "load_state_dict ({}): '{}.step' must be one int64; got {} {}", name_, i, given[0].dtype(),
                given[0].shape());
  Slot slot;
  slot.step = given[0].item<std::int64_t>();
  ADJOINT_CHECK(slot.step >= 1, "load_state_dict ({}): '{}.step' must be at least 1; got {}", name_, i, slot.step);
  for (std::size_t s = 0; s < state_names_.size(); ++s) {
    const Tensor& tensor = given[s + 1];
    ADJOINT_CHECK(tensor.shape() == parameter.shape() && tensor.dtype() == parameter.dtype(),
                  "load_state_dict ({}): '{}.{}' must have its parameter's shape and dtype, {} {}; got {} {}", name_, i,
                  state_names_[s], parameter.dtype(), parameter.shape(), tensor.dtype(), tensor.shape());
    slot.state.push_back(Tensor::empty(parameter.shape(), parameter.options()));
    slot.state.back().copy_(tensor);
  }
  return slot;
}

void Optimizer::load_state_dict(const NamedTensors& state) {
  const PauseTape pause;
  std::unordered_map<std::string, Tensor> given;
  for (const auto& [name, tensor] : state) {
    ADJOINT_CHECK(tensor.defined(), "load_state_dict ({}): every tensor must be defined; got Tensor{{}} as '{}'", name_,
                  name);
    ADJOINT_CHECK(given.emplace(name, tensor).second, "load_state_dict ({}): names must be unique; got '{}' twice",
                  name_, name);
  }
  const auto take = [&](const std::string& name) {
    const auto found = given.find(name);
    ADJOINT_CHECK(found != given.end(), "load_state_dict ({}): the state must hold '{}'; got {} other names", name_,
                  name, state.size());
    const Tensor tensor = found->second;
    given.erase(found);
    return tensor;
  };
  const double lr = take("lr").item<double>();
  std::vector<Slot> slots(parameters_.size());
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const std::string prefix = std::to_string(i) + ".";
    if (!given.contains(prefix + "step")) continue;
    std::vector<Tensor> taken{take(prefix + "step")};
    for (const std::string& name : state_names_) taken.push_back(take(prefix + name));
    slots[i] = load_slot(i, std::move(taken));
  }
  ADJOINT_CHECK(given.empty(), "load_state_dict ({}): every name must belong to one of the {} parameters; got '{}'",
                name_, parameters_.size(), given.begin()->first);
  set_lr(lr);
  slots_ = std::move(slots);
}

}  // namespace adjoint::optim
