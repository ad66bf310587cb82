#include <adjoint/optim/optimizer.h>

#include <adjoint/core/check.h>
#include <adjoint/core/copy.h>
#include <adjoint/core/memory.h>
#include <adjoint/core/parallel.h>
#include <adjoint/core/profiler.h>
#include <adjoint/core/step_capture.h>
#include <adjoint/core/tape.h>
#include <adjoint/core/tensor_impl.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/optim/batch.h>
#include <adjoint/optim/clip.h>
#include <adjoint/optim/saved_state.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <unordered_set>

namespace adjoint::optim {
namespace {

void check_lr(const std::string& name, double lr) {
  ADJOINT_CHECK(std::isfinite(lr) && lr >= 0.0, "{}: lr must be finite and not negative; got {}", name, lr);
}

/// Where the program wrote to the parameter, its elements; else the master's.
Tensor heeding(const Tensor& master, const Tensor& parameter) {
  return where(master.to(parameter.dtype()) == parameter, master, parameter.to(master.dtype()));
}

}  // namespace

Optimizer::Optimizer(std::string name, std::vector<Tensor> parameters, double lr, std::vector<std::string> state_names)
    : Optimizer(std::move(name), {detail::Group{std::move(parameters), lr, std::move(state_names)}}) {}

Optimizer::Optimizer(std::string name, std::vector<detail::Group> groups) : name_(std::move(name)) {
  for (detail::Group& group : groups) add_group(std::move(group));
  ADJOINT_CHECK(!parameters_.empty(), "{}: there must be a parameter; got an empty list", name_);
}

Optimizer::~Optimizer() = default;

void Optimizer::add_group(detail::Group group) {
  check_lr(name_, group.lr);
  ADJOINT_CHECK(group.state_names.size() <= kMaxState,
                "{}: an optimiser can keep {} tensors for each parameter at most; got {} names", name_, kMaxState,
                group.state_names.size());
  std::vector<Tensor> all = parameters_;
  all.insert(all.end(), group.params.begin(), group.params.end());
  std::unordered_set<const TensorImpl*> seen;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Tensor& parameter = all[i];
    check_weight(name_, parameter, fmt::format("parameter {}", i));
    ADJOINT_CHECK(seen.insert(parameter.impl()).second,
                  "{}: parameters must be distinct; got parameter {} (shape {}) twice", name_, i, parameter.shape());
  }
  std::vector<Slot> slots = slots_;
  slots.resize(all.size(), Slot{.group = groups_.size()});
  group.params.clear();
  groups_.push_back(std::move(group));
  parameters_ = std::move(all);
  slots_ = std::move(slots);
}

// An optimiser has a group, and leaves none where it was moved from; nor its name.
void Optimizer::check_not_moved_from(const char* op) const {
  ADJOINT_CHECK(!groups_.empty(),
                "{}: the optimiser must not have been moved from; got an empty one; assign an optimiser to it first",
                op);
}

const std::vector<Tensor>& Optimizer::parameters() const {
  check_not_moved_from("Optimizer::parameters");
  return parameters_;
}

void Optimizer::check_group(std::size_t group) const {
  check_not_moved_from("Optimizer");
  ADJOINT_CHECK(group < groups_.size(), "{}: the group must be one of {}, counted from 0; got {}", name_,
                groups_.size(), group);
}

double Optimizer::lr(std::size_t group) const {
  check_group(group);
  return groups_[group].lr;
}

void Optimizer::set_lr(double lr, std::size_t group) {
  check_group(group);
  check_lr(name_, lr);
  groups_[group].lr = lr;
}

void Optimizer::set_lr(double lr) { set_lrs(std::vector<double>(groups_.size(), lr)); }

void Optimizer::set_lrs(const std::vector<double>& lrs) {
  check_not_moved_from("set_lr");
  ADJOINT_CHECK(lrs.size() == groups_.size(), "{}: there must be an lr for each of the {} groups; got {}", name_,
                groups_.size(), lrs.size());
  for (const double lr : lrs) check_lr(name_, lr);
  for (std::size_t g = 0; g < lrs.size(); ++g) groups_[g].lr = lrs[g];
}

bool Optimizer::frozen(std::size_t group) const {
  check_group(group);
  return groups_[group].frozen;
}

void Optimizer::set_frozen(bool frozen, std::size_t group) {
  check_group(group);
  groups_[group].frozen = frozen;
}

std::optional<double> Optimizer::momentum(std::size_t group) const {
  check_group(group);
  return {};
}

void Optimizer::set_momentum(double momentum, std::size_t group) {
  ADJOINT_CHECK(this->momentum(group).has_value(), "{}: there must be a momentum to set; got none in group {}", name_,
                group);
  ADJOINT_CHECK(momentum > 0.0 && momentum < 1.0, "{}: momentum must be above 0 and below 1; got {}", name_, momentum);
}

// Whether the parameter's gradient may stand in its group's buffer.
bool Optimizer::has_flat_gradient(std::size_t i) const {
  if (i >= flat_views_.size() || !flat_views_[i].defined()) return false;
  const Tensor& view = flat_views_[i];
  // A module that is moved or converted takes its gradients along, and with them the view out of the buffer.
  return view.impl()->storage == flat_[slots_[i].group].impl()->storage && view.dtype() == parameters_[i].dtype() &&
         view.device() == parameters_[i].device();
}

void Optimizer::zero_grad() {
  check_not_moved_from("zero_grad");
  const PauseTape pause;
  for (Tensor& flat : flat_) flat.zero_();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    parameters_[i].set_grad(has_flat_gradient(i) ? flat_views_[i] : Tensor{});
  }
}

void Optimizer::flatten_gradients() {
  check_not_moved_from("flatten_gradients");
  const PauseTape pause;
  constexpr std::int64_t kAlignment = 256;  // bytes
  std::vector<const Tensor*> first(groups_.size());
  std::vector<std::int64_t> sizes(groups_.size()), offsets(parameters_.size());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& parameter = parameters_[i];
    const std::size_t group = slots_[i].group;
    if (first[group] == nullptr) first[group] = &parameter;
    const Tensor& other = *first[group];
    ADJOINT_CHECK(parameter.dtype() == other.dtype() && parameter.device() == other.device(),
                  "flatten_gradients ({}): a group's parameters must share a dtype and a device; got {} on {} and {} "
                  "on {} in group {}",
                  name_, other.dtype(), other.device(), parameter.dtype(), parameter.device(), group);
    const std::int64_t unit = kAlignment / element_size(parameter.dtype());
    offsets[i] = sizes[group];
    sizes[group] += (parameter.numel() + unit - 1) / unit * unit;
  }
  std::vector<Tensor> flat, views(parameters_.size());
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    TensorOptions options;
    if (first[g] != nullptr) options = {.dtype = first[g]->dtype(), .device = first[g]->device()};
    flat.push_back(Tensor::zeros({sizes[g]}, options));
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& parameter = parameters_[i];
    if (parameter.numel() == 0) continue;
    views[i] = flat[slots_[i].group].narrow(0, offsets[i], parameter.numel()).reshape(parameter.shape());
    if (parameter.grad().defined()) views[i].copy_(parameter.grad());
  }
  flat_ = std::move(flat);
  flat_views_ = std::move(views);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (flat_views_[i].defined()) parameters_[i].set_grad(flat_views_[i]);
  }
}

Tensor Optimizer::flat_gradients(std::size_t group) {
  check_group(group);
  ADJOINT_CHECK(group < flat_.size(),
                "flat_gradients ({}): gradients must be flat; got group {}, which is not; call flatten_gradients()",
                name_, group);
  const PauseTape pause;
  const auto in_group = [&](std::size_t i) { return slots_[i].group == group && parameters_[i].numel() > 0; };
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    ADJOINT_CHECK(!in_group(i) || has_flat_gradient(i),
                  "flat_gradients ({}): a parameter must stay where it was made flat; got parameter {} (shape {}) in "
                  "{} on {}; call flatten_gradients() again",
                  name_, i, parameters_[i].shape(), parameters_[i].dtype(), parameters_[i].device());
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!in_group(i)) continue;
    Tensor& view = flat_views_[i];
    const Tensor gradient = parameters_[i].grad();
    if (gradient.defined() && gradient.impl() == view.impl()) continue;
    gradient.defined() ? view.copy_(gradient.detach()) : view.zero_();
    parameters_[i].set_grad(view);
  }
  return flat_[group];
}

std::vector<Tensor> Optimizer::fitting_state(std::size_t i) const {
  const MemoryScope scope(MemoryCategory::kOptimizer);
  const Tensor& parameter = parameters_[i];
  const DType dtype = state_dtype(parameter.dtype());
  std::vector<Tensor> state = slots_[i].state;
  state.resize(groups_[slots_[i].group].state_names.size());
  for (Tensor& tensor : state) {
    tensor = tensor.defined() ? tensor.to(dtype).to(parameter.device())
                              : Tensor::zeros(parameter.shape(), {.dtype = dtype, .device = parameter.device()});
  }
  return state;
}

bool Optimizer::keeps_master(std::size_t i) const {
  const DType dtype = parameters_[i].dtype();
  return groups_[slots_[i].group].master_weights && state_dtype(dtype) != dtype;
}

Tensor Optimizer::fitting_master(std::size_t i) const {
  if (!keeps_master(i)) return {};
  const MemoryScope scope(MemoryCategory::kOptimizer);
  const Tensor& parameter = parameters_[i];
  const Tensor& master = slots_[i].master;
  return master.defined() ? master.to(parameter.device()) : parameter.to(state_dtype(parameter.dtype()));
}

// Whoever had a gate once goes on with one, for only the device knows how many updates there were.
Tensor Optimizer::fitting_gated(std::size_t i, bool has_gate) const {
  const MemoryScope scope(MemoryCategory::kOptimizer);
  const Tensor& gated = slots_[i].gated;
  const Device device = parameters_[i].device();
  if (gated.defined()) return gated.to(device);
  return has_gate ? Tensor::zeros({kGatedWords}, {.dtype = kInt64, .device = device}) : Tensor{};
}

std::int64_t Optimizer::Slot::updates() const {
  static_assert(offsetof(Gated, skipped) == 0);
  return gated.defined() ? step - gated.narrow(0, 0, 1).item<std::int64_t>() : step;
}

// A batch of a captured step, without its items, and the places of their parameters.
struct Optimizer::Captured {
  Batch batch;
  std::vector<std::size_t> slots;
};

struct Optimizer::Change {
  Tensor& parameter;
  Slot& slot;
  Tensor gradient;  // contiguous, for as long as the kernels need it
  std::vector<Tensor> state;
  Tensor master, gated;
};

std::vector<Optimizer::Change> Optimizer::prepare(bool has_gate) {
  std::vector<Change> changes;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    Tensor& parameter = parameters_[i];
    if (groups_[slots_[i].group].frozen || !parameter.grad().defined() || parameter.numel() == 0) continue;
    check_writable(name_.c_str(), parameter);
    ADJOINT_CHECK(
        adjoint::detail::StepCapture::current() == nullptr ||
            (slots_[i].step > 0 && (!has_gate || slots_[i].gated.defined())),
        "{}: a captured step (GraphedStep) must update parameters that were updated before, for their state "
        "is made then, with a GradScaler or clipping too; got parameter {} (shape {}) for the first time; let more "
        "calls run uncaptured (warmup)",
        name_, i, parameter.shape());
    changes.push_back({parameter, slots_[i], contiguous_copy(parameter.grad()), fitting_state(i), fitting_master(i),
                       fitting_gated(i, has_gate)});
  }
  return changes;
}

Tensor Optimizer::step(const StepOptions& options) {
  check_not_moved_from("step");
  const PauseTape pause;
  Tensor norm;
  std::vector<GateTensors> gates;
  if (options.max_norm && is_fused()) {
    gates = measure(name_, parameters_, {}, options.max_norm);
    if (!gates.empty()) norm = gates.front().norm;
  } else if (options.max_norm) {
    norm = clip_grad_norm_(parameters_, *options.max_norm);
  }
  apply(gates);
  return norm;
}

void Optimizer::apply(const std::vector<GateTensors>& gates) {
  const ProfileScope scope(name_, parameters_.empty() ? kCPU : parameters_.front().device());
  const PauseTape pause;
  // Whatever can fail is done before anything changes; from there on nothing is allocated.
  std::vector<Change> changes = prepare(!gates.empty());
  std::map<std::tuple<std::size_t, DType, DeviceType, int, std::int64_t, bool>, Batch> batches;
  for (Change& change : changes) {
    Tensor& parameter = change.parameter;
    const Device device = parameter.device();
    const std::size_t group = change.slot.group;
    const std::int64_t step = change.slot.step + 1;
    const bool masters = change.master.defined(), gated = change.gated.defined();
    Item item{.tensor = &parameter,
              .gradient_tensor = &change.gradient,
              .master_tensor = masters ? &change.slot.master : nullptr,
              .state_tensors = &change.slot.state,
              .parameter = const_cast<void*>(parameter.raw_data()),
              .gradient = change.gradient.raw_data(),
              .master = masters ? const_cast<void*>(change.master.raw_data()) : nullptr,
              .state = {},
              .numel = parameter.numel(),
              .gated = gated ? static_cast<Gated*>(const_cast<void*>(change.gated.raw_data())) : nullptr};
    for (std::size_t s = 0; s < change.state.size(); ++s) item.state[s] = const_cast<void*>(change.state[s].raw_data());
    Batch& batch = batches
                       .try_emplace({group, parameter.dtype(), device.type, device.index, step, gated},
                                    Batch{device, parameter.dtype(), group, step, {}})
                       .first->second;
    batch.items.push_back(item);
    if (!gated) continue;
    const auto own = std::find_if(gates.begin(), gates.end(), [&](const auto& gate) { return gate.device == device; });
    batch.gate = own == gates.end() ? Gate{} : own->gate();
  }
  adjoint::detail::StepCapture* const capture = adjoint::detail::StepCapture::current();
  std::vector<Captured> captured;
  for (auto& [key, batch] : batches) {
    if (capture == nullptr) break;
    batch.rule = capture->place(kRuleBytes);
    captured.push_back({Batch{batch.device, batch.dtype, batch.group, batch.step, {}, batch.rule, batch.gate}, {}});
    for (const Item& item : batch.items) {
      captured.back().slots.push_back(static_cast<std::size_t>(item.tensor - parameters_.data()));
    }
  }
  const auto on_cpu = [](const auto& entry) { return entry.second.device.is_cpu(); };
  if (std::any_of(batches.begin(), batches.end(), on_cpu)) adjoint::detail::prepare_threads();
  for (Change& change : changes) {
    ++change.slot.step;
    change.slot.state = std::move(change.state);
    change.slot.master = std::move(change.master);
    change.slot.gated = std::move(change.gated);
    change.parameter.raw_mutable_data();  // counts the write
    if (change.slot.master.defined()) change.slot.master.raw_mutable_data();
    if (change.slot.gated.defined()) change.slot.gated.raw_mutable_data();
    for (Tensor& tensor : change.slot.state) tensor.raw_mutable_data();
  }
  for (const auto& [key, batch] : batches) update_batch(batch);
  if (capture != nullptr) this->capture(*capture, std::move(captured));
}

// What a replay does: it counts the updates, and makes the rules' numbers of today's options.
void Optimizer::capture(adjoint::detail::StepCapture& capture, std::vector<Captured> batches) {
  std::vector<bool> frozen;
  for (const detail::Group& group : groups_) frozen.push_back(group.frozen);
  capture.valid_while([this, batches, frozen, loads = loads_] {
    if (loads != loads_ || frozen.size() != groups_.size()) return false;
    for (std::size_t g = 0; g < frozen.size(); ++g) {
      if (frozen[g] != groups_[g].frozen) return false;
    }
    return std::all_of(batches.begin(), batches.end(), [this](const Captured& captured) {
      return std::all_of(captured.slots.begin(), captured.slots.end(), [&](std::size_t i) {
        return slots_[i].step == slots_[captured.slots.front()].step &&
               slots_[i].gated.defined() == captured.batch.gate.has_value();
      });
    });
  });
  capture.on_replay([this, replayed = std::move(batches)]() mutable {
    for (Captured& captured : replayed) {
      for (const std::size_t i : captured.slots) captured.batch.step = ++slots_[i].step;
      update_batch(captured.batch);
    }
  });
}

void Optimizer::update(const ParameterUpdate&) {
  throw Error(fmt::format("{}: the optimiser must override update(); got a class that does not", name_));
}

void Optimizer::update_batch(const Batch& batch) {
  ADJOINT_CHECK(
      batch.rule.host == nullptr,
      "{}: a captured step (GraphedStep) must not call an optimiser that overrides update(), whose numbers are "
      "the host's; got {} parameters; step it behind the captured step",
      name_, batch.items.size());
  const double lr = groups_[batch.group].lr;
  for (const Item& item : batch.items) {
    if (item.master_tensor == nullptr) {
      update({*item.tensor, *item.gradient_tensor, *item.state_tensors, batch.step, lr, batch.group});
      continue;
    }
    Tensor& master = *item.master_tensor;
    master.copy_(heeding(master, *item.tensor));
    update({master, item.gradient_tensor->to(master.dtype()), *item.state_tensors, batch.step, lr, batch.group});
    item.tensor->copy_(master);
  }
}

std::string Optimizer::lr_name(std::size_t group) const {
  return groups_.size() == 1 ? "lr" : fmt::format("group.{}.lr", group);
}

NamedTensors Optimizer::state_dict() const {
  check_not_moved_from("state_dict");
  NamedTensors state;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    state.emplace_back(lr_name(g), Tensor::scalar(groups_[g].lr, {.dtype = kFloat64}));
  }
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    const std::int64_t updates = slot.updates();
    if (updates == 0) continue;
    const std::string prefix = std::to_string(i) + ".";
    const std::vector<std::string>& names = groups_[slot.group].state_names;
    state.emplace_back(prefix + "step", Tensor::from_vector<std::int64_t>({updates}, {}, {.dtype = kInt64}));
    for (std::size_t s = 0; s < slot.state.size(); ++s) state.emplace_back(prefix + names[s], slot.state[s]);
    if (slot.master.defined()) state.emplace_back(prefix + "master", slot.master);
  }
  return state;
}

// Slot i, whose step the state has.
Optimizer::Slot Optimizer::load_slot(std::size_t i, SavedState& saved) const {
  const MemoryScope scope(MemoryCategory::kOptimizer);
  const Tensor& parameter = parameters_[i];
  const std::string prefix = std::to_string(i) + ".";
  Slot slot{.group = slots_[i].group, .step = saved.take_count(prefix + "step", 1)};
  for (const std::string& name : groups_[slot.group].state_names) {
    slot.state.push_back(saved.take_like(prefix + name, parameter));
  }
  if (saved.contains(prefix + "master")) {
    Tensor master = saved.take_like(prefix + "master", parameter);
    if (keeps_master(i)) slot.master = std::move(master);
  }
  return slot;
}

void Optimizer::load_state_dict(const NamedTensors& state) {
  check_not_moved_from("load_state_dict");
  const PauseTape pause;
  SavedState saved(name_, state);
  std::vector<double> lrs;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const Tensor lr = saved.take(lr_name(g));
    ADJOINT_CHECK(lr.numel() == 1, "load_state_dict ({}): '{}' must be one number; got {} {}", name_, lr_name(g),
                  lr.dtype(), lr.shape());
    lrs.push_back(lr.item<double>());
  }
  std::vector<Slot> slots;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const bool updated = saved.contains(std::to_string(i) + ".step");
    slots.push_back(updated ? load_slot(i, saved) : Slot{.group = slots_[i].group});
  }
  saved.check_taken(fmt::format("{} parameters", parameters_.size()));
  set_lrs(lrs);
  slots_ = std::move(slots);
  ++loads_;
}

}  // namespace adjoint::optim
