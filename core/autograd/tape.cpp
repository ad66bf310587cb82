// You are at stop 2 of 7 of the README's reading path, the tape: this is the recording. tape_sweep.cpp comes next.
#include <adjoint/core/autograd/tape.h>

#include <adjoint/core/autograd/module_calls.h>
#include <adjoint/core/autograd/node.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/base/forked.h>
#include <adjoint/core/base/parallel.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>

namespace adjoint {
namespace {

std::atomic<std::uint64_t> next_serial{1};
std::atomic<std::uint64_t> next_hook{1};
std::mutex leaf_hooks;  // tapes of several threads read a leaf's hooks while programs add and remove them
const HeldAtFork hooks_at_fork(leaf_hooks);

}  // namespace

namespace detail {

constinit std::atomic<std::uint8_t> ModuleCalls::watchers_{0};

namespace {

bool is_finite(const Tensor& tensor) {
  if (!tensor.defined() || !is_floating_point(tensor.dtype())) return true;
  const PauseTape pause;
  const std::vector<double> values = tensor.to_vector<double>();
  return std::all_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); });
}

// Anomaly mode: a call must not turn finite operands into NaN or infinity.
void check_finite(const char* op, std::span<const Tensor> in, std::span<const Tensor> results) {
  const auto odd = std::find_if_not(results.begin(), results.end(), is_finite);
  if (odd == results.end() || !std::all_of(in.begin(), in.end(), is_finite)) return;
  std::string operands;
  for (const Tensor& operand : in) {
    if (operand.defined()) operands += fmt::format("{}{}", operands.empty() ? "" : ", ", operand.shape());
  }
  fail(
      "{}: in anomaly mode finite operands must give finite results; got NaN or infinity in result {} of shape {}, for "
      "operands of shapes {}; look at their values",
      op, odd - results.begin(), odd->shape(), operands);
}

}  // namespace

Versions::Versions(std::span<const Tensor> tensors) {
  before_.reserve(tensors.size());
  for (const Tensor& tensor : tensors) {
    const auto storage = tensor.defined() ? tensor.impl()->storage : nullptr;
    before_.emplace_back(storage, storage == nullptr ? 0 : storage->version());
  }
}

std::size_t Versions::first_changed() const {
  const auto changed = [](const auto& entry) {
    return entry.first != nullptr && entry.first->version() != entry.second;
  };
  return static_cast<std::size_t>(std::find_if(before_.begin(), before_.end(), changed) - before_.begin());
}

TapeImpl::TapeImpl(const Tape& owner) : owner_(owner), serial_(next_serial.fetch_add(1)), task_(current_task()) {}

std::int64_t TapeImpl::find(const Tensor& tensor) const {
  const TensorImpl& impl = *tensor.impl();
  if (impl.recorded()) return impl.tape_serial == serial_ ? impl.node_id : -1;
  const auto leaf = leaf_ids_.find(&impl);
  return leaf == leaf_ids_.end() ? -1 : leaf->second;
}

std::int64_t TapeImpl::id_of(const char* op, const Tensor& operand) const {
  const TensorImpl& impl = *operand.impl();
  if (impl.recorded()) [[likely]] {
    if (impl.tape_serial == serial_) [[likely]]
      return impl.node_id;
    ADJOINT_CHECK(
        find_live_tape(impl.tape_serial) == nullptr,
        "{}: an operand must not be recorded on an outer live tape; got shape {}; detach() it, pass it to checkpoint "
        "as an input, or record everything on one tape",
        op, impl.shape);
    fail("{}: an operand was recorded on a tape that is gone, or on another thread's; got shape {}; detach() it", op,
         impl.shape);
  }
  if (!impl.requires_grad) {
    ADJOINT_CHECK(!impl.outside_view,
                  "{}: a view of a tensor that requires a gradient must be made while the tape records; got one of "
                  "shape {} that was made before; make it again, or detach() it to have a constant",
                  op, impl.shape);
    return -1;
  }
  const auto leaf = leaf_ids_.find(&impl);
  return leaf == leaf_ids_.end() ? kNewLeaf : leaf->second;
}

void TapeImpl::check_task(const char* op) const {
  const void* const task = current_task();
  ADJOINT_CHECK(task == nullptr || task == task_,
                "{}: a task of parallel_for must not use a tape that was made outside it; got one of {} entries; work "
                "under PauseTape, or make a tape in the task",
                op, entries_.size());
}

// Reserves room for this many more entries, so that appending them cannot fail.
void TapeImpl::reserve(std::size_t more) {
  const std::size_t needed = entries_.size() + more;
  if (needed > entries_.capacity()) entries_.reserve(std::max(needed, 2 * entries_.capacity()));
}

std::int64_t TapeImpl::register_leaf(const Tensor& leaf) {
  reserve(1);
  const auto [at, is_new] = leaf_ids_.try_emplace(leaf.impl(), static_cast<std::int64_t>(entries_.size()));
  if (is_new) entries_.push_back({nullptr, leaf});
  return at->second;
}

void TapeImpl::add_leaf(const Tensor& tensor) {
  if (tensor.impl()->requires_grad) register_leaf(tensor);
}

// Does everything that can fail first, and undoes it on failure.
void TapeImpl::append(NodePtr<Node> node, std::span<const Tensor> in, std::span<const std::int64_t> ids,
                      std::span<const Tensor> outs, std::size_t results, std::uint32_t save_mask) {
  const std::size_t before = entries_.size(), savable = in.size() + outs.size();
  auto* const own_ids =
      static_cast<std::int64_t*>(arena_.allocate(in.size() * sizeof(std::int64_t), alignof(std::int64_t)));
  Tensor* saved = nullptr;
  if (save_mask != 0 || outs.size() > results) {
    saved = static_cast<Tensor*>(arena_.allocate(savable * sizeof(Tensor), alignof(Tensor)));
    node->versions =
        static_cast<std::uint32_t*>(arena_.allocate(savable * sizeof(std::uint32_t), alignof(std::uint32_t)));
  }
  try {
    for (std::size_t i = 0; i < in.size(); ++i) own_ids[i] = ids[i] == kNewLeaf ? register_leaf(in[i]) : ids[i];
    reserve(results);
    if (anomaly_mode()) [[unlikely]] {
      check_finite(node->name(), in, outs.first(results));
      trace(*node, in);
    }
    if (Profiling::on()) [[unlikely]]
      places_.insert_or_assign(static_cast<std::int64_t>(entries_.size()), gradient_place(node->name()));
  } catch (...) {
    for (; entries_.size() > before; entries_.pop_back()) leaf_ids_.erase(entries_.back().leaf.impl());
    throw;
  }

  node->size = in.size();
  node->results = results;
  node->outputs = outs.size();
  node->ids = own_ids;
  const auto save = [&](std::size_t at, const Tensor& tensor, bool needed) {
    needed = needed && tensor.defined();
    new (&saved[at]) Tensor(needed ? tensor : Tensor{});
    node->versions[at] = needed ? tensor.impl()->storage->version() : 0;
    if (needed) tensor.impl()->storage->save();
  };
  for (std::size_t i = 0; saved != nullptr && i < in.size(); ++i) {
    save(i, in[i], (save_mask >> std::min<std::size_t>(i, kSavedOperandBits - 1) & 1U) != 0);
  }
  for (std::size_t i = 0; saved != nullptr && i < outs.size(); ++i) {
    save(in.size() + i, outs[i],
         i >= results || (save_mask >> std::min<std::size_t>(kSavedOperandBits + i, 31) & 1U) != 0);
  }
  node->saved = saved;
  for (std::size_t i = 0; i < results; ++i) {
    if (is_floating_point(outs[i].dtype())) {
      outs[i].impl()->tape_serial = serial_;
      outs[i].impl()->node_id = static_cast<std::int64_t>(entries_.size());
    }
    entries_.push_back({i == 0 ? std::move(node) : nullptr, {}});
  }
}

void TapeImpl::trace(const Node& node, std::span<const Tensor> in) {
  std::string operands;
  for (const Tensor& operand : in) {
    if (!operand.defined()) continue;
    operands += fmt::format("{}{} {}", operands.empty() ? "" : ", ", operand.shape(), operand.dtype());
  }
  const std::string* const module = ModuleCalls::innermost();
  traces_[static_cast<std::int64_t>(entries_.size())] =
      fmt::format("{}({}){}", node.name(), operands, module == nullptr ? "" : " in " + *module);
}

std::vector<Tensor> TapeImpl::leaves() const {
  std::vector<Tensor> leaves;
  for (const Entry& entry : entries_) {
    if (entry.leaf.defined()) leaves.push_back(entry.leaf);
  }
  return leaves;
}

std::uint64_t TapeImpl::add_hook(std::int64_t id, GradientHook hook) {
  const std::uint64_t hook_id = next_hook.fetch_add(1);
  hooks_[id].emplace(hook_id, std::move(hook));
  return hook_id;
}

void TapeImpl::remove_hook(std::uint64_t hook_id) {
  for (auto& [id, hooks] : hooks_) hooks.erase(hook_id);
}

// Returns a copy, because a hook may remove itself, or add others.
std::map<std::uint64_t, GradientHook> TapeImpl::hooks_of(std::int64_t id) const {
  const Entry& entry = entries_[static_cast<std::size_t>(id)];
  if (entry.leaf.defined()) {
    const std::lock_guard lock(leaf_hooks);
    return entry.leaf.impl()->leaf->hooks;
  }
  const auto found = hooks_.find(id);
  return found == hooks_.end() ? std::map<std::uint64_t, GradientHook>{} : found->second;
}

Recording::Recording(Tape& tape, const char* op, std::size_t size) : tape_(tape.impl()), op_(op), size_(size) {
  if (size > kInline) many_.assign(size, -1);
  tape_.count_call();
}

Recording::~Recording() = default;

void Recording::use(std::size_t i, const Tensor& operand) {
  ids()[i] = tape_.id_of(op_, operand);
  if (ids()[i] == -1 || needed_) return;
  tape_.check_task(op_);
  needed_ = true;
}

void Recording::commit(NodePtr<Node> node, std::span<const Tensor> in, std::span<const Tensor> outs,
                       std::size_t results, std::uint32_t save_mask) {
  tape_.append(std::move(node), in, {ids(), size_}, outs, results, save_mask);
}

}  // namespace detail

Tape::Tape() : impl_(std::make_shared<detail::TapeImpl>(*this)), scope_(this) {}

Tape::~Tape() { impl_->end(); }

std::size_t Tape::size() const { return impl_->size(); }

void Tape::backward(const Tensor& result, const BackwardOptions& options) {
  check_defined("backward", "result", result);
  const std::shared_ptr<detail::TapeImpl> tape = impl_;
  tape->add_leaf(result);
  tape->sweep("backward", result, {},
              {.retain = options.retain, .record = options.record, .grad_output = options.grad_output},
              {.to_leaves = true});
}

std::vector<Tensor> Tape::gradient(const Tensor& result, const std::vector<Tensor>& inputs,
                                   const GradientOptions& options) {
  check_defined("gradient", "result", result);
  const std::shared_ptr<detail::TapeImpl> tape = impl_;
  tape->add_leaf(result);
  std::vector<std::int64_t> targets;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_defined("gradient", "input", inputs[i]);
    targets.push_back(tape->find(inputs[i]));
    ADJOINT_CHECK(targets.back() >= 0 || options.allow_unused,
                  "gradient: each input must be on this tape; got input {} of shape {}; mark it with requires_grad_() "
                  "before it is used, or pass .allow_unused",
                  i, inputs[i].shape());
  }
  std::vector<std::int64_t> on_tape;
  std::copy_if(targets.begin(), targets.end(), std::back_inserter(on_tape), [](std::int64_t id) { return id >= 0; });
  const std::vector<Tensor> found = tape->sweep("gradient", result, on_tape, options, {});
  std::vector<Tensor> gradients(inputs.size());
  for (std::size_t i = 0, next = 0; i < inputs.size(); ++i) {
    if (targets[i] >= 0) gradients[i] = found[next++];
    ADJOINT_CHECK(
        gradients[i].defined() || options.allow_unused,
        "gradient: the result must depend on each input; got no dependence on input {} of shape {}; pass .allow_unused",
        i, inputs[i].shape());
  }
  return gradients;
}

namespace {

Tape& current_or_throw(const char* caller) {
  Tape* const tape = Tape::current();
  ADJOINT_CHECK(tape != nullptr,
                "{}: a tape must record on this thread; got none; make a Tape before the result is computed, and call "
                "this outside PauseTape",
                caller);
  return *tape;
}

}  // namespace

void backward(const Tensor& result, const BackwardOptions& options) {
  current_or_throw("backward").backward(result, options);
}

std::vector<Tensor> gradient(const Tensor& result, const std::vector<Tensor>& inputs, const GradientOptions& options) {
  return current_or_throw("gradient").gradient(result, inputs, options);
}

void Tensor::backward() const { adjoint::backward(*this); }
void Tensor::backward(const BackwardOptions& options) const { adjoint::backward(*this, options); }
void Tensor::backward(const Tensor& gradient) const { adjoint::backward(*this, {.grad_output = gradient}); }

void set_anomaly_mode(bool on) { detail::ModuleCalls::watch(detail::ModuleWatcher::kAnomaly, on); }
bool anomaly_mode() { return detail::ModuleCalls::watched_by(detail::ModuleWatcher::kAnomaly); }

std::uint64_t Tensor::register_hook(GradientHook hook) const {
  check_defined("register_hook", "tensor", *this);
  ADJOINT_CHECK(requires_grad(),
                "register_hook: the tensor must require a gradient; got shape {}; call requires_grad_()", shape());
  ADJOINT_CHECK(hook != nullptr, "register_hook: the hook must be a function; got an empty one");
  if (!impl_->recorded()) {
    const std::uint64_t id = next_hook.fetch_add(1);
    const std::lock_guard lock(leaf_hooks);
    impl_->leaf->hooks.emplace(id, std::move(hook));
    return id;
  }
  detail::TapeImpl* tape = detail::find_live_tape(impl_->tape_serial);
  ADJOINT_CHECK(tape != nullptr, "register_hook: the tensor's tape must be alive on this thread; got shape {}",
                shape());
  return tape->add_hook(impl_->node_id, std::move(hook));
}

void Tensor::remove_hook(std::uint64_t id) const {
  check_defined("remove_hook", "tensor", *this);
  if (impl_->leaf) {
    std::map<std::uint64_t, GradientHook>::node_type
        removed;  // destroyed after the lock, with everything that the hook holds
    const std::lock_guard lock(leaf_hooks);
    removed = impl_->leaf->hooks.extract(id);
  }
  if (detail::TapeImpl* tape = detail::find_live_tape(impl_->tape_serial)) tape->remove_hook(id);
}

}  // namespace adjoint
