#include <adjoint/optim/optimizer.h>

#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/autograd/untrained.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/memory/memory.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/optim/batch.h>
#include <adjoint/optim/saved_state.h>

#include <fmt/ranges.h>

#include <cmath>
#include <unordered_set>

namespace adjoint::optim {
namespace {

void check_lr(const std::string& name, double lr) {
  ADJOINT_CHECK(std::isfinite(lr) && lr >= 0.0, "{}: lr must be finite and not negative; got {}", name, lr);
}

}  // namespace

void detail::check_not_negative(const char* optimizer, std::initializer_list<std::pair<const char*, double>> options) {
  for (const auto& [name, value] : options) {
    ADJOINT_CHECK(value >= 0.0, "{}: {} must not be negative; got {}", optimizer, name, value);
  }
}

void detail::check_betas(const char* optimizer, const std::array<double, 2>& betas) {
  for (const double beta : betas) {
    ADJOINT_CHECK(beta >= 0.0 && beta < 1.0, "{}: betas must be in [0, 1); got {}, {}", optimizer, betas[0], betas[1]);
  }
}

Optimizer::Optimizer(std::string name, std::vector<Tensor> parameters, double lr, std::vector<std::string> state_names)
    : Optimizer(std::move(name), {detail::Group{std::move(parameters), lr, std::move(state_names)}}) {}

Optimizer::Optimizer(std::string name, std::vector<detail::Group> groups)
    : name_(std::move(name)), self_(std::make_shared<char>()) {
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
  for (const Tensor& parameter : group.params) adjoint::detail::mark_trained(parameter, self_);
  group.params.clear();
  groups_.push_back(std::move(group));
  parameters_ = std::move(all);
  slots_ = std::move(slots);
}

// An optimiser that was moved from has no group and no name.
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

std::vector<GroupHandle> Optimizer::param_groups() {
  check_not_moved_from("param_groups");
  std::vector<GroupHandle> all;
  for (std::size_t group = 0; group < num_groups(); ++group) all.push_back(GroupHandle(*this, group));
  return all;
}

std::vector<Tensor> GroupHandle::params() const {
  std::vector<Tensor> own;
  for (std::size_t i = 0; i < optimizer_->parameters_.size(); ++i) {
    if (optimizer_->slots_[i].group == group_) own.push_back(optimizer_->parameters_[i]);
  }
  return own;
}
double GroupHandle::lr() const { return optimizer_->lr(group_); }
void GroupHandle::set_lr(double lr) { optimizer_->set_lr(lr, group_); }
bool GroupHandle::frozen() const { return optimizer_->frozen(group_); }
void GroupHandle::set_frozen(bool frozen) { optimizer_->set_frozen(frozen, group_); }

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

// Returns true if the parameter's gradient may be in its group's buffer.
bool Optimizer::has_flat_gradient(std::size_t i) const {
  if (i >= flat_views_.size() || !flat_views_[i].defined()) return false;
  const Tensor& view = flat_views_[i];
  // A module that is moved or converted takes its gradients along, which moves the view out of the buffer.
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
                  "flat_gradients ({}): a parameter must not be moved or converted after flatten_gradients(); got "
                  "parameter {} (shape {}) in {} on {}; call flatten_gradients() again",
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

bool Optimizer::keeps_master(std::size_t i) const {
  const DType dtype = parameters_[i].dtype();
  return groups_[slots_[i].group].master_weights && state_dtype(dtype) != dtype;
}

std::int64_t Optimizer::Slot::updates() const {
  static_assert(offsetof(Gated, skipped) == 0);
  return gated.defined() ? step - gated.narrow(0, 0, 1).item<std::int64_t>() : step;
}

std::string Optimizer::lr_name(std::size_t group) const {
  return groups_.size() == 1 ? "lr" : fmt::format("group.{}.lr", group);
}

std::vector<std::int64_t> Optimizer::group_sizes() const {
  std::vector<std::int64_t> sizes(groups_.size());
  for (const Slot& slot : slots_) ++sizes[slot.group];
  return sizes;
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
  state.emplace_back("params", Tensor::from_vector(group_sizes(), {static_cast<std::int64_t>(groups_.size())},
                                                   {.dtype = kInt64}));
  return state;
}

// Loads slot i, whose step the state has.
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

void Optimizer::load_state_dict(const NamedTensors& state, const LoadStateOptions& options) {
  check_not_moved_from("load_state_dict");
  const PauseTape pause;
  SavedState saved(name_, state);
  std::vector<double> lrs;
  if (saved.contains("params")) {
    const Tensor params = saved.take("params");
    ADJOINT_CHECK(params.dtype() == kInt64, "load_state_dict ({}): 'params' must be int64; got {}", name_,
                  params.dtype());
    const std::vector<std::int64_t> sizes = params.to_vector<std::int64_t>(), own = group_sizes();
    ADJOINT_CHECK(sizes == own || !options.strict,
                  "load_state_dict ({}): the state must be of as many parameters; got [{}] where the groups have [{}]; "
                  "set .strict = false to begin anew with those that it lacks",
                  name_, fmt::join(sizes, ", "), fmt::join(own, ", "));
  }
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (!options.strict && !saved.contains(lr_name(g))) {
      lrs.push_back(groups_[g].lr);
      continue;
    }
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
  if (options.strict) saved.check_taken(fmt::format("{} parameters", parameters_.size()));
  set_lrs(lrs);
  slots_ = std::move(slots);
  ++loads_;
}

}  // namespace adjoint::optim
