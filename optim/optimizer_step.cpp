// You are at stop 6 of 7 of the README's reading path, an optimiser: this is the step that all optimisers share.
// adam.cpp comes next.
//
// Optimizer::step(): turns parameters with gradients into batches for the optimiser's rule and, in a captured step
// (core/graph/graphed_step.h), into the actions of a replay.
#include <adjoint/optim/optimizer.h>

#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/autograd/untrained.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/base/parallel.h>
#include <adjoint/core/graph/step_capture.h>
#include <adjoint/core/memory/memory.h>
#include <adjoint/core/profile/profiler.h>
#include <adjoint/core/tensor/copy.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/optim/batch.h>
#include <adjoint/optim/clip.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace adjoint::optim {
namespace {

using adjoint::detail::StepCapture;

// The master's elements, replaced by the parameter's if the program has written to them.
Tensor heeding(const Tensor& master, const Tensor& parameter) {
  return where(master.to(parameter.dtype()) == parameter, master, parameter.to(master.dtype()));
}

}  // namespace

// The data that a parameter's update needs and changes.
struct Optimizer::Change {
  Tensor& parameter;
  Slot& slot;
  Tensor gradient;  // contiguous; kept alive while the kernels need it
  std::vector<Tensor> state;
  Tensor master, gated;

  // Call it before take_effect(), which does not change the addresses.
  Item item() {
    Item item{.tensor = &parameter,
              .gradient_tensor = &gradient,
              .master_tensor = master.defined() ? &slot.master : nullptr,
              .state_tensors = &slot.state,
              .parameter = writable_address(parameter),
              .gradient = gradient.raw_data(),
              .master = master.defined() ? writable_address(master) : nullptr,
              .state = {},
              .numel = parameter.numel(),
              .gated = gated.defined() ? static_cast<Gated*>(writable_address(gated)) : nullptr};
    for (std::size_t s = 0; s < state.size(); ++s) item.state[s] = writable_address(state[s]);
    return item;
  }

  // Counts the update and its writes. Allocates nothing.
  void take_effect() {
    ++slot.step;
    slot.state = std::move(state);
    slot.master = std::move(master);
    slot.gated = std::move(gated);
    parameter.raw_mutable_data();
    if (slot.master.defined()) slot.master.raw_mutable_data();
    if (slot.gated.defined()) slot.gated.raw_mutable_data();
    for (Tensor& tensor : slot.state) tensor.raw_mutable_data();
  }
};

// A batch of a captured step, without its items, and the indices of their parameters.
struct Optimizer::Captured {
  Batch batch;
  std::vector<std::size_t> slots;
};

std::vector<Tensor> Optimizer::fitting_state(std::size_t i) const {
  const MemoryScope scope(MemoryCategory::kOptimizer);
  const Tensor& parameter = parameters_[i];
  const DType dtype = state_dtype(parameter.dtype());
  std::vector<Tensor> state = slots_[i].state;
  state.resize(groups_[slots_[i].group].state_names.size());
  for (Tensor& tensor : state) {
    tensor = tensor.defined() ? tensor.to(dtype).to(parameter.device()).contiguous(parameter.memory_format())
                              : zeros_like(parameter, {.dtype = dtype});
  }
  return state;
}

Tensor Optimizer::fitting_master(std::size_t i) const {
  if (!keeps_master(i)) return {};
  const MemoryScope scope(MemoryCategory::kOptimizer);
  const Tensor& parameter = parameters_[i];
  const Tensor& master = slots_[i].master;
  return master.defined() ? master.to(parameter.device()).contiguous(parameter.memory_format())
                          : parameter.to(state_dtype(parameter.dtype()));
}

// A parameter that once had a gate keeps one, because only the device knows its number of updates.
Tensor Optimizer::fitting_gated(std::size_t i, bool has_gate) const {
  const MemoryScope scope(MemoryCategory::kOptimizer);
  const Tensor& gated = slots_[i].gated;
  const Device device = parameters_[i].device();
  if (gated.defined()) return gated.to(device);
  return has_gate ? Tensor::zeros({kGatedWords}, {.dtype = kInt64, .device = device}) : Tensor{};
}

std::vector<Optimizer::Change> Optimizer::prepare(bool has_gate) {
  std::vector<Change> changes;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    Tensor& parameter = parameters_[i];
    if (groups_[slots_[i].group].frozen || !parameter.grad().defined() || parameter.numel() == 0) continue;
    check_writable(name_.c_str(), parameter);
    ADJOINT_CHECK(
        StepCapture::current() == nullptr || (slots_[i].step > 0 && (!has_gate || slots_[i].gated.defined())),
        "{}: a captured step (GraphedStep) must update parameters that were updated before, for their state "
        "is made then, with a GradScaler or clipping too; got parameter {} (shape {}) for the first time; let more "
        "calls run uncaptured (warmup)",
        name_, i, parameter.shape());
    changes.push_back({parameter, slots_[i], contiguous_copy(parameter.grad(), parameter.memory_format()),
                       fitting_state(i), fitting_master(i), fitting_gated(i, has_gate)});
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
  adjoint::detail::count_optimizer_step();
  // Everything that can fail comes before any change; after it there is no allocation.
  std::vector<Change> changes = prepare(!gates.empty());
  std::map<std::tuple<std::size_t, DType, DeviceType, int, std::int64_t, bool>, Batch> batches;
  for (Change& change : changes) {
    const Device device = change.parameter.device();
    const DType dtype = change.parameter.dtype();
    const std::size_t group = change.slot.group;
    const std::int64_t step = change.slot.step + 1;
    const bool gated = change.gated.defined();
    Batch& batch =
        batches
            .try_emplace({group, dtype, device.type, device.index, step, gated}, Batch{device, dtype, group, step, {}})
            .first->second;
    batch.items.push_back(change.item());
    if (!gated) continue;
    const auto own = std::find_if(gates.begin(), gates.end(), [&](const auto& gate) { return gate.device == device; });
    batch.gate = own == gates.end() ? Gate{} : own->gate();
  }
  StepCapture* const capture = StepCapture::current();
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
  if (capture != nullptr)
    this->capture(*capture, std::move(captured));  // before the action that it undoes if a rule throws
  for (Change& change : changes) change.take_effect();
  for (const auto& [key, batch] : batches) update_batch(batch);
}

// The action of a replay: it counts the updates, and computes the rules' numbers from the current options.
void Optimizer::capture(StepCapture& capture, std::vector<Captured> batches) {
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
  const auto undo = [this, batches] {
    for (const Captured& captured : batches) {
      for (const std::size_t i : captured.slots) --slots_[i].step;
    }
  };
  const auto replay = [this, replayed = std::move(batches)]() mutable {
    for (Captured& captured : replayed) {
      for (const std::size_t i : captured.slots) captured.batch.step = ++slots_[i].step;
      update_batch(captured.batch);
    }
  };
  capture.on_replay(replay, undo);
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

}  // namespace adjoint::optim
