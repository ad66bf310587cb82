// You are at stop 2 of 7 of the README's reading path, the tape: this is the way back. ops/elementwise/functor.h comes
// next.
//
// The reverse sweep: one loop from the result's entry to the first, and the transfer of gradients into the leaves.
#include <adjoint/core/autograd/autocast.h>
#include <adjoint/core/autograd/gradient_places.h>
#include <adjoint/core/autograd/node.h>
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/autograd/untrained.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/base/context.h>
#include <adjoint/core/base/forked.h>
#include <adjoint/core/base/parallel.h>
#include <adjoint/core/tensor/copy.h>
#include <adjoint/core/tensor/strided.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <optional>

namespace adjoint::detail {
namespace {

std::mutex leaf_gradients;  // tapes of several threads add to the same leaves
const HeldAtFork gradients_at_fork(leaf_gradients);

bool exclusively_owned(const Tensor& tensor) {
  const TensorImpl& impl = *tensor.impl();
  return tensor.impl_ptr().use_count() == 1 && impl.storage.use_count() == 1 && is_packed(tensor) && !impl.recorded() &&
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

struct LeafGradient {
  Tensor leaf, grad;
  Tensor sum = {};        // the leaf's new gradient or, in place, the memory for the copied operand
  bool in_place = false;  // as in PyTorch, if possible, so that handles that a program holds stay current
};

// Computes the leaf's new gradient, if that needs memory.
void prepare(LeafGradient& added, bool record) {
  const auto& [leaf, grad, sum, in_place] = added;
  ADJOINT_ASSERT(leaf.shape() == grad.shape(), "a leaf of shape {} got a gradient of shape {}", leaf.shape(),
                 grad.shape());
  ADJOINT_CHECK(leaf.dtype() == grad.dtype() && leaf.device() == grad.device(),
                "backward: a leaf must keep its dtype and device from its use to the sweep; got a gradient of {} on {} "
                "for {} {} on {}; convert or move it before it is used",
                grad.dtype(), grad.device(), leaf.shape(), leaf.dtype(), leaf.device());
  const Tensor before = leaf.grad();
  if (!before.defined()) {
    // Leaves share a gradient only if nothing will be written to it in place. A leaf, which .grad_output may be, will
    // be written to, and would never be released.
    added.sum = grad.impl()->recorded() || exclusively_owned(grad) ? grad : grad.clone();
    // Optimisers read a parameter and its gradient in one order.
    if (!record) added.sum = contiguous_copy(added.sum, leaf.memory_format());
    return;
  }
  const TensorImpl& impl = *before.impl();
  added.in_place = !record && !before.requires_grad() && !impl.views_recorded && !overlaps_itself(before);
  if (added.in_place) {
    check_writable("backward", before);
    if (!is_packed(before)) added.sum = make_tensor({impl.shape, impl.dtype}, before.device());
    return;
  }
  const bool tape_is_gone = impl.recorded() && find_live_tape(impl.tape_serial) == nullptr;
  added.sum = (tape_is_gone || impl.views_recorded ? before.detach() : before) + grad;
}

// Adds to all leaves or to no leaf: everything that can fail comes first.
void add_to_leaves(std::vector<LeafGradient>& leaf_grads, bool record) {
  std::vector<Tensor> before;  // destroyed after the lock, with everything that it holds
  before.reserve(leaf_grads.size());
  const std::lock_guard lock(leaf_gradients);
  std::vector<const Storage*> written;
  std::int64_t longest = 0;
  for (LeafGradient& added : leaf_grads) {
    prepare(added, record);
    if (!added.in_place) continue;
    written.push_back(added.leaf.grad().impl()->storage.get());
    longest = std::max(longest, added.grad.numel());
  }
  if (longest > kStridedGrain) prepare_threads();
  std::sort(written.begin(), written.end());
  for (auto& [leaf, grad, sum, in_place] : leaf_grads) {  // no gradient may be one that is added to another
    const bool shared = std::binary_search(written.begin(), written.end(), grad.impl()->storage.get());
    if (in_place && shared) grad = grad.clone();
  }
  for (auto& [leaf, grad, sum, in_place] : leaf_grads) {
    Tensor own = leaf.grad();
    if (!in_place) {
      leaf.set_grad(sum);
      before.push_back(std::move(own));
    } else if (sum.defined()) {  // kernels write only results without gaps
      copy_into(own, sum);
      sum.add_(grad);
      copy_into(sum, own);
    } else {
      own.add_(grad);
    }
  }
}

bool has_nan(const Tensor& tensor) {
  const std::vector<double> values = tensor.to_vector<double>();
  return std::any_of(values.begin(), values.end(), [](double value) { return std::isnan(value); });
}

}  // namespace

// Gradients that a user's function sees, or may hold: others of the sweep may share their elements.
class TapeImpl::Frozen {
 public:
  Frozen() = default;
  ~Frozen() { thaw(); }
  Frozen(const Frozen&) = delete;
  Frozen& operator=(const Frozen&) = delete;

  void add(const Tensor& gradient) {
    storages_.push_back(gradient.impl()->storage);
    storages_.back()->freeze();
  }
  void thaw() {
    for (const auto& storage : storages_) storage->thaw();
    storages_.clear();
  }

 private:
  std::vector<std::shared_ptr<Storage>> storages_;
};

namespace {

// The sinks that own this sweep, in an order that is the same in every process; a sweep that throws abandons them.
class Sinks {
 public:
  Sinks() = default;
  ~Sinks() {
    for (const auto& sink : sinks_) sink->abandon();
  }
  Sinks(const Sinks&) = delete;
  Sinks& operator=(const Sinks&) = delete;

  void begin(std::uint64_t tape, const auto& leaves) {
    const std::vector<std::shared_ptr<PlacingSink>> watching = sinks_that_watch();
    if (watching.empty()) return;
    const std::vector<Tensor> reached = leaves();
    for (const auto& sink : watching) {
      if (sink->begin(tape, reached)) sinks_.push_back(sink);
    }
    for (const auto& sink : watching) {
      if (sinks_.size() > 1) sink->share();
    }
  }
  bool take(const Tensor& leaf, const Tensor& gradient, bool record) {
    const std::shared_ptr<GradientSink> sink = sink_of(leaf);
    if (sink == nullptr) return false;
    ADJOINT_CHECK(
        !record,
        "backward: gradients that DataParallel averages must not be recorded; got .record; use gradient() for "
        "the derivatives that are differentiated again");
    return sink->take(leaf, gradient);
  }
  // No place if a hook looks at the gradient, because it may keep it.
  Tensor place(const Tensor& leaf, const auto& has_hooks) {
    const std::shared_ptr<GradientSink> sink = sink_of(leaf);
    auto* const placing = dynamic_cast<PlacingSink*>(sink.get());
    if (placing == nullptr || has_hooks()) return {};
    return placing->place(leaf);
  }
  void finish() {
    for (const auto& sink : sinks_) sink->finish();
  }
  void commit() noexcept {
    for (const auto& sink : sinks_) sink->commit();
    sinks_.clear();
  }

 private:
  static std::shared_ptr<GradientSink> sink_of(const Tensor& leaf) {
    const LeafState* const state = leaf.impl()->leaf.get();
    return state == nullptr ? nullptr : state->sink.lock();
  }

  std::vector<std::shared_ptr<GradientSink>> sinks_;
};

}  // namespace

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

// The leaves that the result depends on, including those to which a rule gives no gradient.
std::vector<Tensor> TapeImpl::leaves_behind(std::int64_t last) const {
  std::vector<Tensor> leaves;
  std::vector<bool> behind(static_cast<std::size_t>(last) + 1, false);
  behind.back() = true;
  for (auto id = behind.size(); id-- > 0;) {
    const Entry& entry = entries_[id];
    if (behind[id] && entry.leaf.defined()) leaves.push_back(entry.leaf);
    const Node* const node = entry.node.get();
    if (node == nullptr) continue;
    const auto end = behind.begin() + static_cast<std::ptrdiff_t>(std::min(id + node->results, behind.size()));
    if (std::find(behind.begin() + static_cast<std::ptrdiff_t>(id), end, true) == end) continue;
    for (std::size_t i = 0; i < node->size; ++i) {
      if (node->ids[i] >= 0) behind[static_cast<std::size_t>(node->ids[i])] = true;
    }
  }
  return leaves;
}

std::vector<bool> TapeImpl::reachable(const std::vector<std::int64_t>& targets, std::int64_t last) const {
  std::vector<bool> reaches(static_cast<std::size_t>(last) + 1, false);
  for (const std::int64_t target : targets) {
    if (target <= last) reaches[static_cast<std::size_t>(target)] = true;
  }
  for (std::size_t id = 0; id < reaches.size(); ++id) {
    const Node* node = entries_[id].node.get();
    if (node == nullptr) continue;
    const bool through = std::any_of(node->ids, node->ids + node->size, [&](std::int64_t operand) {
      return operand >= 0 && reaches[static_cast<std::size_t>(operand)];
    });
    const std::size_t end = std::min(id + node->results, reaches.size());
    for (std::size_t result = id; through && result < end; ++result) reaches[result] = true;
  }
  return reaches;
}

// A program's function, a hook or the gradient of a call, that a sweep of this thread runs. It may sweep too, and be
// entered again; one that does so each time would recurse until the stack ends.
class SweptCall {
 public:
  SweptCall(const char* caller, const char* what, const Node* node, std::uint64_t hook)
      : node_(node), hook_(hook), outer_(context().swept_call) {
    int within = 0;
    for (const SweptCall* other = outer_; other != nullptr; other = other->outer_) {
      within += other->node_ == node && other->hook_ == hook ? 1 : 0;
    }
    ADJOINT_CHECK(within < kMost,
                  "{}: {} must not begin a sweep that comes to it again; got {} such sweeps within each other; sweep "
                  "when this sweep is done",
                  caller, what, within);
    context().swept_call = this;
  }
  ~SweptCall() { context().swept_call = outer_; }
  SweptCall(const SweptCall&) = delete;
  SweptCall& operator=(const SweptCall&) = delete;

 private:
  static constexpr int kMost = 8;  // a few levels that end are allowed

  const Node* node_;
  std::uint64_t hook_;
  const SweptCall* outer_;
};

Tensor TapeImpl::run_hooks(const char* caller, std::int64_t id, Tensor grad, Frozen& frozen) const {
  const Tape* const recording = Tape::current();
  for (const auto& [hook_id, hook] : hooks_of(id)) {
    const SweptCall running(caller, "a hook", nullptr, hook_id);
    frozen.add(grad);
    Tensor replacement = hook(grad);
    ADJOINT_CHECK(!ended_ && Tape::current() == recording,
                  "register_hook: a hook must leave the tape that sweeps alive, and end the tapes and pauses that it "
                  "makes; got {}; do it after the sweep",
                  ended_ ? "the tape's end" : "another tape, or none, recording");
    if (!replacement.defined()) continue;
    ADJOINT_CHECK(
        replacement.shape() == grad.shape() && replacement.dtype() == grad.dtype() &&
            replacement.device() == grad.device(),
        "register_hook: a hook must return nothing, or a gradient of the same shape, dtype and device; got {} {} on {} "
        "for {} {} on {}",
        replacement.shape(), replacement.dtype(), replacement.device(), grad.shape(), grad.dtype(), grad.device());
    grad = replacement;
    frozen.add(grad);
  }
  return grad;
}

std::string TapeImpl::describe(std::int64_t id) const {
  const auto trace = traces_.find(id);
  const Node& node = *entries_[static_cast<std::size_t>(id)].node;
  return fmt::format("{}, call #{} on its tape", trace == traces_.end() ? node.name() : trace->second, id);
}

// Null if the call, or its gradient, is not profiled.
const ProfilePlace* TapeImpl::place_of(std::int64_t id) const {
  if (!Profiling::on()) [[likely]]
    return nullptr;
  const auto place = places_.find(id);
  return place == places_.end() ? nullptr : &place->second;
}

void TapeImpl::check_saved(const char* caller, std::int64_t id) const {
  const Node& node = *entries_[static_cast<std::size_t>(id)].node;
  ADJOINT_CHECK(!node.released,
                "{}: an earlier sweep must not have freed the tensors of the gradient of {}; sweep with .retain before",
                caller, describe(id));
  for (std::size_t i = 0; i < node.size + node.outputs && node.saved != nullptr; ++i) {
    const Tensor& tensor = node.saved[i];
    ADJOINT_CHECK(
        !tensor.defined() || tensor.impl()->storage->version() == node.versions[i] || node.restores(tensor),
        "{}: {} of {} was changed in place after it was saved for the gradient; got shape {}; change a clone()", caller,
        i < node.size ? fmt::format("operand {}", i) : "the result", describe(id), tensor.shape());
  }
}

void TapeImpl::check_nan(std::int64_t id, std::span<const Tensor> in, const Tensor& out) const {
  const auto is_nan = [](const Tensor& tensor) { return tensor.defined() && has_nan(tensor); };
  if (!is_nan(out) || std::any_of(in.begin(), in.end(), is_nan)) return;
  fail("anomaly: a gradient became NaN in the gradient of {}; got gradient shape {}; look at that call's operands",
       describe(id), out.shape());
}

void TapeImpl::not_recorded(const char* caller, const Tensor& result) const {
  std::string why =
      "compute it while the tape is alive, from a tensor that requires a gradient; a gradient is recorded "
      "where it is made with .record = true";
  if (result.impl()->recorded()) {
    why = "it was recorded on another tape: sweep with that one";
  } else if (calls_.load() == 0) {
    why = "nothing ran while this tape recorded: make the tape before the result, and compute outside PauseTape";
  } else if (entries_.empty()) {
    why = fmt::format(
        "{} operations ran while it recorded, and none had an operand that requires a gradient: is the model frozen? "
        "See requires_grad_()",
        calls_.load());
  }
  fail("{}: the result must be recorded on this tape; got shape {}; {}", caller, result.shape(), why);
}

std::vector<Tensor> TapeImpl::sweep(const char* caller, const Tensor& result, const std::vector<std::int64_t>& targets,
                                    const GradientOptions& options, const SweepOptions& how) {
  check_task(caller);
  const std::int64_t last = find(result);
  if (last < 0) not_recorded(caller, result);
  ADJOINT_CHECK(!options.record || Tape::current() == &owner_,
                "{}: .record needs this tape to be the innermost one of its thread, not paused", caller);
  const ProfiledCall profiled(ProfiledKind::kScope, caller, result.device());
  const PauseAutocast in_recorded_dtypes;
  const MemoryScope scope(MemoryCategory::kGradients);
  std::optional<PauseTape> pause;
  if (!options.record) pause.emplace();

  const std::vector<bool> reaches = how.to_leaves ? std::vector<bool>{} : reachable(targets, last);
  const auto wanted = [&](std::int64_t id) {
    return id >= 0 && (how.to_leaves || reaches[static_cast<std::size_t>(id)]);
  };
  const std::int64_t first = how.to_leaves || targets.empty() ? 0 : *std::min_element(targets.begin(), targets.end());

  std::vector<Tensor> results(targets.size());
  // Gradients are added at the end, so a sweep that throws has not changed any.
  std::vector<LeafGradient> leaf_grads;
  std::vector<const TensorImpl*> reached;
  Frozen frozen;
  Sinks sinks;
  GradientPlaces places;  // of the call whose rules are running
  if (options.grad_output.defined()) frozen.add(options.grad_output);
  std::vector<Tensor> grads(static_cast<std::size_t>(last) + 1);
  grads.back() = seed(caller, result, options);
  if (how.to_leaves && !options.record) sinks.begin(serial_, [&] { return leaves_behind(last); });
  std::vector<Tensor> result_grads, operand_grads;
  std::vector<bool> needed;
  for (std::int64_t id = last; id >= first; --id) {
    // A copy, because hooks, and rules of a recorded sweep, append entries.
    Node* const node = entries_[static_cast<std::size_t>(id)].node.get();
    const Tensor leaf = entries_[static_cast<std::size_t>(id)].leaf;
    Tensor& grad = grads[static_cast<std::size_t>(id)];
    const bool is_target = std::find(targets.begin(), targets.end(), id) != targets.end();
    if (grad.defined() && wanted(id)) {
      // If the sweep only passes through a checkpoint, hooks wait for the whole gradient.
      if (!(is_target && how.stop_at_targets)) grad = run_hooks(caller, id, std::move(grad), frozen);
      for (std::size_t t = 0; is_target && t < targets.size(); ++t) {
        if (targets[t] == id) results[t] = grad;
      }
      if (leaf.defined() && how.to_leaves) {
        reached.push_back(leaf.impl());
        if (!sinks.take(leaf, grad, options.record)) leaf_grads.push_back({leaf, std::move(grad)});
      }
    }
    if (is_target && how.stop_at_targets) grad = {};
    if (node == nullptr) {
      if (leaf.defined()) grad = {};
      continue;  // one of an operation's later results, which waits for the first
    }
    result_grads.assign(node->results, {});
    for (std::size_t i = 0; i < node->results && id + static_cast<std::int64_t>(i) <= last; ++i) {
      result_grads[i] = std::move(grads[static_cast<std::size_t>(id) + i]);
    }
    needed.assign(node->size, false);
    for (std::size_t i = 0; i < node->size; ++i) needed[i] = wanted(node->ids[i]);
    const auto is_defined = [](const Tensor& tensor) { return tensor.defined(); };
    if (std::none_of(result_grads.begin(), result_grads.end(), is_defined) ||
        std::find(needed.begin(), needed.end(), true) == needed.end()) {
      continue;
    }
    check_saved(caller, id);
    operand_grads.assign(node->size, {});
    places.clear();
    for (std::size_t i = 0; how.to_leaves && !options.record && i < node->size; ++i) {
      const std::int64_t operand = node->ids[i];
      if (!needed[i] || grads[static_cast<std::size_t>(operand)].defined() || places.has(operand)) continue;
      const Tensor& wanting = entries_[static_cast<std::size_t>(operand)].leaf;
      if (!wanting.defined()) continue;
      Tensor place = sinks.place(wanting, [&] { return !hooks_of(operand).empty(); });
      if (place.defined()) places.add(i, operand, std::move(place));
    }
    {
      const SweptCall running(caller, node->name(), node, 0);
      const GradientPlaces::Use use(places);
      const AtPlace there(place_of(id));
      node->backward(result_grads, needed, operand_grads);
    }
    places.settle(operand_grads);
    ADJOINT_CHECK(!ended_, "{}: the gradient of {} must leave the tape that sweeps alive; got its end", caller,
                  node->name());
    for (std::size_t i = 0; i < node->size; ++i) {
      if (!needed[i] || !operand_grads[i].defined()) continue;
      if (anomaly_mode()) [[unlikely]]
        check_nan(id, result_grads, operand_grads[i]);
      accumulate(grads[static_cast<std::size_t>(node->ids[i])], std::move(operand_grads[i]), options.record);
    }
    // Released immediately, so that its memory serves earlier calls. A node that saved nothing serves other sweeps too:
    // a parameter's cast may precede several results.
    if (!options.retain && !options.record && node->saved != nullptr) node->release();
  }
  sinks.finish();
  frozen.thaw();
  add_to_leaves(leaf_grads, options.record);
  sinks.commit();
  if (!reached.empty()) check_trained(reached);
  return results;
}

}  // namespace adjoint::detail
