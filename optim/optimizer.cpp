#include <adjoint/optim/optimizer.h>

#include <adjoint/core/check.h>
#include <adjoint/core/copy.h>
#include <adjoint/core/parallel.h>
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

Optimizer::Optimizer(std::string name, std::vector<Tensor> parameters, double lr, std::vector<std::string> state_names)
    : name_(std::move(name)),
      parameters_(std::move(parameters)),
      state_names_(std::move(state_names)),
      slots_(parameters_.size()) {
  ADJOINT_CHECK(state_names_.size() <= kMaxState,
                "{}: an optimiser can keep {} tensors for each parameter at most; got {} names", name_, kMaxState,
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

std::vector<Tensor> Optimizer::fitting_state(std::size_t i) const {
  const Tensor& parameter = parameters_[i];
  const DType dtype = state_dtype(parameter.dtype());
  std::vector<Tensor> state = slots_[i].state;
  state.resize(state_names_.size());
  for (Tensor& tensor : state) {
    tensor = tensor.defined() ? tensor.to(dtype).to(parameter.device())
                              : Tensor::zeros(parameter.shape(), {.dtype = dtype, .device = parameter.device()});
  }
  return state;
}

void Optimizer::step() {
  const PauseTape pause;
  // Whatever can fail is done before anything changes; from there on nothing is allocated.
  struct Change {
    Tensor& parameter;
    Slot& slot;
    Tensor gradient;  // contiguous, for as long as the kernels need it
    std::vector<Tensor> state;
  };
  std::vector<Change> changes;
  std::map<std::tuple<DType, DeviceType, int, std::int64_t>, Batch> batches;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    Tensor& parameter = parameters_[i];
    if (!parameter.grad().defined() || parameter.numel() == 0) continue;
    check_writable(name_.c_str(), parameter);
    changes.push_back({parameter, slots_[i], contiguous_copy(parameter.grad()), fitting_state(i)});
  }
  for (Change& change : changes) {
    Tensor& parameter = change.parameter;
    const Device device = parameter.device();
    const std::int64_t step = change.slot.step + 1;
    Item item{.tensor = &parameter,
              .gradient_tensor = &change.gradient,
              .state_tensors = &change.slot.state,
              .parameter = const_cast<void*>(parameter.raw_data()),
              .gradient = change.gradient.raw_data(),
              .state = {},
              .numel = parameter.numel()};
    for (std::size_t s = 0; s < change.state.size(); ++s) item.state[s] = const_cast<void*>(change.state[s].raw_data());
    Batch& batch = batches
                       .try_emplace({parameter.dtype(), device.type, device.index, step},
                                    Batch{device, parameter.dtype(), step, {}})
                       .first->second;
    batch.items.push_back(item);
  }
  const auto on_cpu = [](const auto& entry) { return entry.second.device.is_cpu(); };
  if (std::any_of(batches.begin(), batches.end(), on_cpu)) detail::prepare_threads();
  for (Change& change : changes) {
    ++change.slot.step;
    change.slot.state = std::move(change.state);
    change.parameter.raw_mutable_data();  // counts the write
    for (Tensor& tensor : change.slot.state) tensor.raw_mutable_data();
  }
  for (const auto& [key, batch] : batches) update_batch(batch);
}

void Optimizer::update(const ParameterUpdate&) {
  throw Error(fmt::format("{}: the optimiser must override update(); got a class that does not", name_));
}

void Optimizer::update_batch(const Batch& batch) {
  for (const Item& item : batch.items) {
    update({*item.tensor, *item.gradient_tensor, *item.state_tensors, batch.step});
  }
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
  const DType dtype = state_dtype(parameter.dtype());
  Slot slot;
  slot.step = given[0].item<std::int64_t>();
  ADJOINT_CHECK(slot.step >= 1, "load_state_dict ({}): '{}.step' must be at least 1; got {}", name_, i, slot.step);
  for (std::size_t s = 0; s < state_names_.size(); ++s) {
    const Tensor& tensor = given[s + 1];
    ADJOINT_CHECK(tensor.shape() == parameter.shape() &&
                      (tensor.dtype() == dtype || state_dtype(tensor.dtype()) == kFloat32),
                  "load_state_dict ({}): '{}.{}' must be {} {} (a narrower float is converted); got {} {}", name_, i,
                  state_names_[s], dtype, parameter.shape(), tensor.dtype(), tensor.shape());
    slot.state.push_back(Tensor::empty(parameter.shape(), {.dtype = dtype, .device = parameter.device()}));
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
  const Tensor lr_given = take("lr");
  ADJOINT_CHECK(lr_given.numel() == 1, "load_state_dict ({}): 'lr' must be one number; got {} {}", name_,
                lr_given.dtype(), lr_given.shape());
  const auto lr = lr_given.item<double>();
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
