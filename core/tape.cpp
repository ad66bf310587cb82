#include <adjoint/core/tape.h>

#include <adjoint/core/check.h>
#include <adjoint/core/node.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <optional>

namespace adjoint {
namespace {

thread_local Tape* recording_tape = nullptr;             // the innermost one, unless paused
thread_local std::vector<detail::TapeImpl*> live_tapes;  // all of this thread, paused ones too

std::atomic<std::uint64_t> next_serial{1};
std::atomic<std::uint64_t> next_hook{1};
std::atomic<bool> anomaly{false};
std::mutex leaf_gradients;  // tapes of several threads add to the same leaves
std::mutex leaf_hooks;      // and read their hooks while programs add and remove them

bool exclusively_owned(const Tensor& tensor) {
  const TensorImpl& impl = *tensor.impl();
  return tensor.impl_ptr().use_count() == 1 && impl.storage.use_count() == 1 && impl.contiguous && !impl.recorded() &&
         !impl.views_recorded;
}

void accumulate(Tensor& sum, Tensor&& term, bool record) {
  if (!sum.defined()) {
    sum = std::move(term);
    return;
  }
  ADJOINT_ASSERT(sum.shape() == term.shape(), "gradients of one tensor have shapes {} and {}", sum.shape(),
                 term.shape());
  if (!record && exclusively_owned(sum)) {
    sum.add_(term);
  } else {
    sum = sum + term;
  }
}

void add_to_leaf(Tensor& leaf, const Tensor& grad, bool record) {
  ADJOINT_ASSERT(leaf.shape() == grad.shape(), "a leaf of shape {} got a gradient of shape {}", leaf.shape(),
                 grad.shape());
  const std::lock_guard lock(leaf_gradients);
  Tensor before = leaf.grad();
  if (!before.defined()) {
    // Leaves share a gradient only where nothing will be added to it in place.
    leaf.set_grad(grad.requires_grad() || exclusively_owned(grad) ? grad : grad.clone());
  } else if (record || before.requires_grad() || overlaps_itself(before)) {
    const TensorImpl& impl = *before.impl();
    const bool tape_is_gone = impl.recorded() && detail::find_live_tape(impl.tape_serial) == nullptr;
    leaf.set_grad((tape_is_gone ? before.detach() : before) + grad);
  } else {
    before.add_(grad);  // in place, as PyTorch does: handles that a program holds stay current
  }
}

bool has_nan(const Tensor& tensor) {
  const std::vector<double> values = tensor.to_vector<double>();
  return std::any_of(values.begin(), values.end(), [](double value) { return std::isnan(value); });
}

}  // namespace

namespace detail {

TapeImpl::TapeImpl(Tape& owner, Tape* outer) : owner_(owner), outer_(outer), serial_(next_serial.fetch_add(1)) {
  live_tapes.push_back(this);
}

TapeImpl::~TapeImpl() {
  for (Entry& entry : entries_) {
    if (entry.node != nullptr) {
      release(*entry.node);
      entry.node->~Node();
    }
  }
  live_tapes.erase(std::find(live_tapes.begin(), live_tapes.end(), this));
}

TapeImpl* find_live_tape(std::uint64_t serial) {
  for (TapeImpl* tape : live_tapes) {
    if (tape->serial() == serial) return tape;
  }
  return nullptr;
}

std::int64_t TapeImpl::find(const Tensor& tensor) const {
  const TensorImpl& impl = *tensor.impl();
  if (impl.recorded()) return impl.tape_serial == serial_ ? impl.node_id : -1;
  const auto leaf = leaf_ids_.find(&impl);
  return leaf == leaf_ids_.end() ? -1 : leaf->second;
}

std::int64_t TapeImpl::id_of(const char* op, const Tensor& operand) {
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
  if (!impl.requires_grad) return -1;
  const auto [leaf, is_new] = leaf_ids_.try_emplace(&impl, static_cast<std::int64_t>(entries_.size()));
  if (is_new) entries_.push_back({nullptr, operand});
  return leaf->second;
}

void TapeImpl::append(Node* node, std::span<const Tensor> in, std::span<const std::int64_t> ids, const Tensor& out,
                      std::uint32_t save_mask, bool save_out) {
  node->size = in.size();
  node->ids = static_cast<std::int64_t*>(arena_.allocate(in.size() * sizeof(std::int64_t), alignof(std::int64_t)));
  std::copy(ids.begin(), ids.end(), node->ids);
  if (save_mask != 0) {
    node->saved = static_cast<Tensor*>(arena_.allocate(in.size() * sizeof(Tensor), alignof(Tensor)));
    node->versions =
        static_cast<std::uint32_t*>(arena_.allocate(in.size() * sizeof(std::uint32_t), alignof(std::uint32_t)));
    for (std::size_t i = 0; i < in.size(); ++i) {
      const bool save = (save_mask >> std::min<std::size_t>(i, 30) & 1U) != 0;
      new (&node->saved[i]) Tensor(save ? in[i] : Tensor{});
      node->versions[i] = save ? in[i].impl()->storage->version() : 0;
    }
  }
  const auto id = static_cast<std::int64_t>(entries_.size());
  out.impl()->tape_serial = serial_;
  out.impl()->node_id = id;
  if (save_out) {
    node->saved_out = out;
    node->out_version = out.impl()->storage->version();
  }
  entries_.push_back({node, {}});
  if (anomaly_mode()) [[unlikely]] {
    std::string operands;
    for (const Tensor& operand : in) {
      operands += fmt::format("{}{} {}", operands.empty() ? "" : ", ", operand.shape(), operand.dtype());
    }
    traces_[id] = fmt::format("{}({})", node->name(), operands);
  }
}

void TapeImpl::release(Node& node) {
  if (node.saved != nullptr) std::destroy_n(node.saved, node.size);
  node.saved = nullptr;
  node.saved_out = {};
  node.released = true;
}

std::vector<Tensor> TapeImpl::leaves() const {
  std::vector<Tensor> leaves;
  for (const Entry& entry : entries_) {
    if (entry.node == nullptr) leaves.push_back(entry.leaf);
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

Tensor TapeImpl::seed(const char* caller, const Tensor& result, const GradientOptions& options) const {
  const Tensor& given = options.grad_output;
  if (!given.defined()) {
    ADJOINT_CHECK(result.numel() == 1,
                  "{}: a result of several elements needs a gradient to start from; got shape {}; pass "
                  ".grad_output, or reduce the result with sum()",
                  caller, result.shape());
    return Tensor::ones(result.shape(), result.options());
  }
  ADJOINT_CHECK(
      given.shape() == result.shape() && given.dtype() == result.dtype() && given.device() == result.device(),
      "{}: grad_output must have the result's shape, dtype and device; got {} {} on {} for a result of {} {} on {}",
      caller, given.shape(), given.dtype(), given.device(), result.shape(), result.dtype(), result.device());
  return given;
}

std::vector<bool> TapeImpl::reachable(const std::vector<std::int64_t>& targets, std::int64_t last) const {
  std::vector<bool> reaches(static_cast<std::size_t>(last) + 1, false);
  for (const std::int64_t target : targets) {
    if (target <= last) reaches[static_cast<std::size_t>(target)] = true;
  }
  for (std::size_t id = 0; id < reaches.size(); ++id) {
    const Node* node = entries_[id].node;
    for (std::size_t i = 0; node != nullptr && !reaches[id] && i < node->size; ++i) {
      reaches[id] = node->ids[i] >= 0 && reaches[static_cast<std::size_t>(node->ids[i])];
    }
  }
  return reaches;
}

// A copy: a hook may remove itself, or add others.
std::map<std::uint64_t, GradientHook> TapeImpl::hooks_of(std::int64_t id) const {
  const Entry& entry = entries_[static_cast<std::size_t>(id)];
  if (entry.node == nullptr) {
    const std::lock_guard lock(leaf_hooks);
    return entry.leaf.impl()->leaf->hooks;
  }
  const auto found = hooks_.find(id);
  return found == hooks_.end() ? std::map<std::uint64_t, GradientHook>{} : found->second;
}

Tensor TapeImpl::run_hooks(std::int64_t id, Tensor grad) const {
  for (const auto& [hook_id, hook] : hooks_of(id)) {
    Tensor replacement = hook(grad);
    if (!replacement.defined()) continue;
    ADJOINT_CHECK(
        replacement.shape() == grad.shape() && replacement.dtype() == grad.dtype() &&
            replacement.device() == grad.device(),
        "register_hook: a hook must return a gradient of the same shape, dtype and device, or none; got {} {} on {} "
        "for {} {} on {}",
        replacement.shape(), replacement.dtype(), replacement.device(), grad.shape(), grad.dtype(), grad.device());
    grad = replacement;
  }
  return grad;
}

std::string TapeImpl::describe(std::int64_t id) const {
  const auto trace = traces_.find(id);
  const Node& node = *entries_[static_cast<std::size_t>(id)].node;
  return fmt::format("{}, call #{} on its tape", trace == traces_.end() ? node.name() : trace->second, id);
}

void TapeImpl::check_saved(const char* caller, std::int64_t id) const {
  const Node& node = *entries_[static_cast<std::size_t>(id)].node;
  ADJOINT_CHECK(!node.released,
                "{}: a sweep already passed here and freed what the gradient of {} needs; sweep with .retain", caller,
                describe(id));
  for (std::size_t i = 0; i < node.size && node.saved != nullptr; ++i) {
    const Tensor& operand = node.saved[i];
    ADJOINT_CHECK(
        !operand.defined() || operand.impl()->storage->version() == node.versions[i],
        "{}: operand {} of {} was changed in place after it was saved for the gradient; got shape {}; change a clone()",
        caller, i, describe(id), operand.shape());
  }
  const Tensor& out = node.saved_out;
  ADJOINT_CHECK(
      !out.defined() || out.impl()->storage->version() == node.out_version,
      "{}: the result of {} was changed in place after it was saved for the gradient; got shape {}; change a clone()",
      caller, describe(id), out.shape());
}

void TapeImpl::check_nan(std::int64_t id, const Tensor& in, const Tensor& out) const {
  if (!out.defined() || !has_nan(out) || has_nan(in)) return;
  fail("anomaly: a gradient became NaN in the gradient of {}; got gradient shape {}; look at that call's operands",
       describe(id), out.shape());
}

std::vector<Tensor> TapeImpl::sweep(const char* caller, const Tensor& result, const std::vector<std::int64_t>& targets,
                                    const GradientOptions& options, const SweepOptions& how) {
  const std::int64_t last = find(result);
  ADJOINT_CHECK(last >= 0,
                "{}: the result must be recorded on this tape; got shape {}; compute it while the tape is alive, from "
                "a tensor that requires a gradient",
                caller, result.shape());
  ADJOINT_CHECK(!options.record || Tape::current() == &owner_,
                "{}: .record needs this tape to be the innermost one of its thread, not paused", caller);
  std::optional<PauseTape> pause;
  if (!options.record) pause.emplace();

  const std::vector<bool> reaches = how.to_leaves ? std::vector<bool>{} : reachable(targets, last);
  const auto wanted = [&](std::int64_t id) {
    return id >= 0 && (how.to_leaves || reaches[static_cast<std::size_t>(id)]);
  };
  const std::int64_t first = how.to_leaves || targets.empty() ? 0 : *std::min_element(targets.begin(), targets.end());

  std::vector<Tensor> results(targets.size());
  std::vector<std::pair<Tensor, Tensor>> leaf_grads;  // added at the end: a sweep that throws changes nothing
  std::vector<Tensor> grads(static_cast<std::size_t>(last) + 1);
  grads.back() = seed(caller, result, options);
  std::vector<Tensor> operand_grads;
  std::vector<bool> needed;
  for (std::int64_t id = last; id >= first; --id) {
    Tensor grad = std::move(grads[static_cast<std::size_t>(id)]);
    if (!grad.defined() || !wanted(id)) continue;
    const bool is_target = std::find(targets.begin(), targets.end(), id) != targets.end();
    // Where the sweep only passes through a checkpoint, hooks wait for the whole gradient.
    if (!(is_target && how.stop_at_targets)) grad = run_hooks(id, std::move(grad));
    for (std::size_t t = 0; is_target && t < targets.size(); ++t) {
      if (targets[t] == id) results[t] = grad;
    }
    Node* node = entries_[static_cast<std::size_t>(id)].node;
    if (node == nullptr) {
      if (how.to_leaves) leaf_grads.emplace_back(entries_[static_cast<std::size_t>(id)].leaf, std::move(grad));
      continue;
    }
    if (is_target && how.stop_at_targets) continue;
    needed.assign(node->size, false);
    for (std::size_t i = 0; i < node->size; ++i) needed[i] = wanted(node->ids[i]);
    if (std::find(needed.begin(), needed.end(), true) == needed.end()) continue;
    check_saved(caller, id);
    operand_grads.assign(node->size, {});
    node->backward(grad, needed, operand_grads, options.record);
    for (std::size_t i = 0; i < node->size; ++i) {
      if (anomaly_mode()) [[unlikely]]
        check_nan(id, grad, operand_grads[i]);
      if (!operand_grads[i].defined()) continue;
      accumulate(grads[static_cast<std::size_t>(node->ids[i])], std::move(operand_grads[i]), options.record);
    }
    if (!options.retain && !options.record) release(*node);
  }
  for (auto& [leaf, grad] : leaf_grads) add_to_leaf(leaf, grad, options.record);
  return results;
}

Recording::Recording(Tape& tape, const char* op, std::size_t size) : tape_(tape.impl()), op_(op), size_(size) {
  if (size > kInline) many_.assign(size, -1);
}

Recording::~Recording() = default;

void Recording::use(std::size_t i, const Tensor& operand) {
  ids()[i] = tape_.id_of(op_, operand);
  needed_ |= ids()[i] >= 0;
}

void Recording::commit(Node* node, std::span<const Tensor> in, const Tensor& out, std::uint32_t save_mask,
                       bool save_out) {
  tape_.append(node, in, {ids(), size_}, out, save_mask, save_out);
}

void mark_view(const Tensor& base, const Tensor& view) {
  if (base.impl()->recorded() || base.impl()->views_recorded) view.impl()->views_recorded = true;
}

}  // namespace detail

Tape::Tape() : impl_(std::make_unique<detail::TapeImpl>(*this, recording_tape)) { recording_tape = this; }

Tape::~Tape() {
  ADJOINT_ASSERT(recording_tape == this, "tapes of one thread must end in the reverse order of their making");
  recording_tape = impl_->outer();
}

Tape* Tape::current() { return recording_tape; }

std::size_t Tape::size() const { return impl_->size(); }

void Tape::backward(const Tensor& result, const BackwardOptions& options) {
  check_defined("backward", "result", result);
  impl_->sweep("backward", result, {},
               {.retain = options.retain, .record = options.record, .grad_output = options.grad_output},
               {.to_leaves = true});
}

std::vector<Tensor> Tape::gradient(const Tensor& result, const std::vector<Tensor>& inputs,
                                   const GradientOptions& options) {
  check_defined("gradient", "result", result);
  std::vector<std::int64_t> targets;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_defined("gradient", "input", inputs[i]);
    targets.push_back(impl_->find(inputs[i]));
    ADJOINT_CHECK(targets.back() >= 0 || options.allow_unused,
                  "gradient: each input must be on this tape; got input {} of shape {}; mark it with requires_grad_() "
                  "before it is used, or pass .allow_unused",
                  i, inputs[i].shape());
  }
  std::vector<std::int64_t> on_tape;
  std::copy_if(targets.begin(), targets.end(), std::back_inserter(on_tape), [](std::int64_t id) { return id >= 0; });
  const std::vector<Tensor> found = impl_->sweep("gradient", result, on_tape, options, {});
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

PauseTape::PauseTape() : hidden_(recording_tape) { recording_tape = nullptr; }
PauseTape::~PauseTape() { recording_tape = hidden_; }

void set_anomaly_mode(bool on) { anomaly = on; }
bool anomaly_mode() { return anomaly.load(std::memory_order_relaxed); }

std::uint64_t Tensor::register_hook(GradientHook hook) const {
  check_defined("register_hook", "tensor", *this);
  ADJOINT_CHECK(requires_grad(),
                "register_hook: the tensor must require a gradient; got shape {}; call requires_grad_()", shape());
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
    std::map<std::uint64_t, GradientHook>::node_type removed;  // goes after the lock, with all that the hook holds
    const std::lock_guard lock(leaf_hooks);
    removed = impl_->leaf->hooks.extract(id);
  }
  if (detail::TapeImpl* tape = detail::find_live_tape(impl_->tape_serial)) tape->remove_hook(id);
}

}  // namespace adjoint
