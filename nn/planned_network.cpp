#include <adjoint/nn/planned_network.h>

#include <adjoint/core/autograd/state_log.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/graph/call_trace.h>
#include <adjoint/core/tensor/copy.h>
#include <adjoint/core/tensor/tensor_impl.h>

#include <algorithm>
#include <limits>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace adjoint::nn::detail {
namespace {

using adjoint::detail::bytes_of;
using adjoint::detail::CallTrace;
using adjoint::detail::OperatorCall;
using adjoint::detail::PlannedCall;
using adjoint::detail::PlannedCheck;
using adjoint::detail::PlannedCopy;
using adjoint::detail::TraceScope;

const Storage* storage_of(const Tensor& tensor) { return tensor.impl()->storage.get(); }

// The tensor in another storage of as many bytes.
Tensor moved(const Tensor& tensor, const std::shared_ptr<Storage>& storage) {
  const TensorImpl& from = *tensor.impl();
  auto impl = std::make_shared<TensorImpl>();
  impl->storage = storage;
  impl->shape = from.shape;
  impl->strides = from.strides;
  impl->offset = from.offset;
  impl->numel = from.numel;
  impl->dtype = from.dtype;
  impl->contiguous = from.contiguous;
  impl->channels_last = from.channels_last;
  return Tensor(std::move(impl));
}

// A storage is the network's if its elements depend on inputs, and then stays so: each run repeats later writes to it.
// All other storages hold constants.
class Recorder final : public CallTrace {
 public:
  explicit Recorder(const std::vector<Tensor>& inputs) : CallTrace(Calls::kOperators) {
    for (const Tensor& input : inputs) own(input);
  }

  void called(const OperatorCall& call) override {
    const auto is_own = [&](const Tensor& t) { return t.defined() && owned_.count(storage_of(t)) != 0; };
    const bool depends = std::any_of(call.in.begin(), call.in.end(), is_own) ||
                         (call.in_place && std::any_of(call.out.begin(), call.out.end(), is_own));
    if (!depends) return;
    const TraceScope paused(nullptr);
    std::unique_ptr<PlannedCall> planned = call.planned();
    if (call.in_place && !is_own(call.out[0]) && needs_elements_before(call)) {
      calls.push_back(std::make_unique<PlannedCopy>(before_write_, bytes_of(call.out[0].impl()->storage)));
    }
    for (const Tensor& result : call.out) {
      if (result.defined()) own(result);
    }
    if (planned == nullptr) return;
    if (!call.in_place || call.out[0].is_contiguous()) {
      calls.push_back(std::move(planned));
      return;
    }
    const Tensor target = call.out[0];  // kernels write contiguous results
    planned->out[0] = make_tensor({target.shape(), target.dtype()}, target.device());
    own(planned->out[0]);
    auto copy = std::make_unique<PlannedCopy>(planned->out[0], target);
    calls.push_back(std::move(planned));
    calls.push_back(std::move(copy));
  }

  void overwrites(const Tensor& target) override {
    if (owned_.count(storage_of(target)) != 0) return;
    const TraceScope paused(nullptr);
    before_write_ = bytes_of(target.impl()->storage).clone();
    keep_for_earlier_calls(target);
  }

  void accesses(const Tensor& tensor, bool writes) override {
    if (owned_.count(storage_of(tensor)) != 0) {
      refuse("Plan: a network must compute with operators alone; got {}, which {} elements", called_function(),
             writes ? "writes" : "reads");
    }
    if (writes) keep_for_earlier_calls(tensor);
  }

  void checked(const char* op, const Tensor& values, std::function<void(const Tensor&)> check) override {
    if (owned_.count(storage_of(values)) != 0)
      calls.push_back(std::make_unique<PlannedCheck>(op, values, std::move(check)));
  }

  void draws() override {
    refuse("Plan: a network must not use random numbers; got {}; call eval() before", called_function());
  }

  std::vector<std::unique_ptr<PlannedCall>> calls;

 private:
  void own(const Tensor& tensor) {
    if (owned_.insert(storage_of(tensor)).second) own_memory_.push_back(tensor);
  }

  // Calls so far read a copy of a constant that is written to from now on.
  void keep_for_earlier_calls(const Tensor& constant) {
    const TraceScope paused(nullptr);
    Tensor copy;
    for (const auto& call : calls) {
      for (Tensor& operand : call->in) {
        if (!operand.defined() || storage_of(operand) != storage_of(constant)) continue;
        if (!copy.defined()) copy = bytes_of(constant.impl()->storage).clone();
        operand = moved(operand, copy.impl()->storage);
      }
    }
  }

  // False if the call writes every element of its target's memory without reading any.
  static bool needs_elements_before(const OperatorCall& call) {
    const Tensor& target = call.out[0];
    const auto reads = [&](const Tensor& t) { return t.defined() && storage_of(t) == storage_of(target); };
    return target.nbytes() != target.impl()->storage->nbytes() || std::any_of(call.in.begin(), call.in.end(), reads);
  }

  std::unordered_set<const Storage*> owned_;
  std::vector<Tensor> own_memory_;  // keeps the storages' addresses from being used again
  Tensor before_write_;             // the bytes of the constant that an operator overwrites next
};

// Removes the calls that neither an output nor a check needs.
void drop_unused(PlannedNetwork& network) {
  std::unordered_set<const Storage*> needed;
  for (const Tensor& output : network.outputs) needed.insert(storage_of(output));
  std::vector<std::unique_ptr<PlannedCall>> kept;
  for (auto call = network.calls.rbegin(); call != network.calls.rend(); ++call) {
    const auto is_needed = [&](const Tensor& t) { return t.defined() && needed.count(storage_of(t)) != 0; };
    const bool is_check = (*call)->out.empty();
    if (!is_check && std::none_of((*call)->out.begin(), (*call)->out.end(), is_needed)) continue;
    for (const Tensor& operand : (*call)->in) {
      if (operand.defined()) needed.insert(storage_of(operand));
    }
    kept.push_back(std::move(*call));
  }
  network.calls.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
}

// A storage of the network: its place, and the first and last call that use it.
struct Life {
  std::size_t nbytes = 0, first = 0, last = 0, place = 0;
  bool overlaps(const Life& other) const { return first <= other.last && other.first <= last; }
};

constexpr std::size_t kAlignment = 64;

// The largest first, each at the lowest place that is free during its life. Returns the bytes of the block.
std::size_t choose_places(std::vector<Life*>& lives) {
  const auto key = [](const Life* life) { return std::tuple(-static_cast<std::int64_t>(life->nbytes), life->first); };
  std::sort(lives.begin(), lives.end(), [&](const Life* a, const Life* b) { return key(a) < key(b); });
  std::size_t end = 0;
  std::vector<const Life*> placed;  // by place
  for (Life* const life : lives) {
    std::size_t place = 0;
    for (const Life* const other : placed) {
      if (!life->overlaps(*other)) continue;
      if (place + life->nbytes <= other->place) break;
      place = std::max(place, other->place + other->nbytes);
    }
    life->place = place;
    const auto after = [](const Life* a, const Life* b) { return a->place < b->place; };
    placed.insert(std::upper_bound(placed.begin(), placed.end(), life, after), life);
    end = std::max(end, place + life->nbytes);
  }
  return end;
}

}  // namespace

PlannedNetwork record_calls(const TensorFunction& f, const std::vector<Tensor>& examples) {
  PlannedNetwork network;
  adjoint::detail::StateLog older;
  for (const Tensor& example : examples) {
    ADJOINT_CHECK(example.device().is_cpu(), "Plan: inputs must be on the CPU; got one on {}", example.device());
    network.inputs.push_back(example.detach().clone());
  }
  Recorder recorder(network.inputs);
  try {
    network.outputs = run_traced(recorder, f, network.inputs);
  } catch (...) {
    older.undo();
    throw;
  }
  for (std::size_t i = 0; i < network.outputs.size(); ++i) {
    ADJOINT_CHECK(network.outputs[i].defined(), "Plan: outputs must be defined; got Tensor{{}} as output {}", i);
  }
  if (!older.states().empty()) {
    older.undo();
    fail(
        "Plan: a network must not write to tensors that were there before its call, such as its parameters and "
        "buffers; got writes to {} of them",
        older.states().size());
  }
  network.calls = std::move(recorder.calls);
  drop_unused(network);
  return network;
}

std::size_t place_in_block(PlannedNetwork& network) {
  constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();
  std::unordered_map<const Storage*, Life> lives;
  const auto begin = [&](const Tensor& tensor, std::size_t first, std::size_t last) {
    Life& life = lives.try_emplace(storage_of(tensor), Life{.first = kNever}).first->second;
    life.nbytes = (tensor.impl()->storage->nbytes() + kAlignment - 1) / kAlignment * kAlignment;
    life.first = std::min(life.first, first);
    life.last = std::max(life.last, last);
  };
  for (const Tensor& input : network.inputs) begin(input, 0, kNever);
  for (std::size_t i = 0; i < network.calls.size(); ++i) {
    for (const Tensor& result : network.calls[i]->out) {
      if (result.defined()) begin(result, i, i);
    }
  }
  for (std::size_t i = 0; i < network.calls.size(); ++i) {
    for (const Tensor& operand : network.calls[i]->in) {
      if (operand.defined() && lives.count(storage_of(operand)) != 0) begin(operand, i, i);
    }
  }
  for (const Tensor& output : network.outputs) {
    if (lives.count(storage_of(output)) != 0) begin(output, 0, kNever);
  }

  std::vector<Life*> all;
  for (auto& [storage, life] : lives) all.push_back(&life);
  const std::size_t nbytes = choose_places(all);
  const auto block = std::make_shared<Tensor>(Tensor::empty({static_cast<std::int64_t>(nbytes)}, {.dtype = kUInt8}));
  auto* const data = static_cast<std::byte*>(block->raw_mutable_data());
  std::unordered_map<const Storage*, std::shared_ptr<Storage>> places;
  const auto place = [&](Tensor& tensor) {
    if (!tensor.defined()) return;
    const auto life = lives.find(storage_of(tensor));
    if (life == lives.end()) return;
    std::shared_ptr<Storage>& storage = places[life->first];
    if (storage == nullptr) storage = Storage::wrap(data + life->second.place, life->first->nbytes(), kCPU, [block] {});
    tensor = moved(tensor, storage);
  };
  const std::vector<Tensor> before = network.inputs;  // keeps the keys of `places` alive
  std::for_each(network.inputs.begin(), network.inputs.end(), place);
  for (std::size_t i = 0; i < before.size(); ++i) copy_into(before[i], network.inputs[i]);
  std::vector<Tensor> old;
  for (const auto& call : network.calls) {
    old.insert(old.end(), call->out.begin(), call->out.end());
    std::for_each(call->in.begin(), call->in.end(), place);
    std::for_each(call->out.begin(), call->out.end(), place);
  }
  std::for_each(network.outputs.begin(), network.outputs.end(), place);
  return nbytes;
}

std::vector<Tensor> constants_of(const PlannedNetwork& network) {
  std::unordered_set<const Storage*> seen;
  for (const Tensor& input : network.inputs) seen.insert(storage_of(input));
  for (const auto& call : network.calls) {
    for (const Tensor& result : call->out) {
      if (result.defined()) seen.insert(storage_of(result));
    }
  }
  std::vector<Tensor> constants;
  for (const auto& call : network.calls) {
    for (const Tensor& operand : call->in) {
      if (operand.defined() && seen.insert(storage_of(operand)).second) constants.push_back(operand);
    }
  }
  return constants;
}

}  // namespace adjoint::nn::detail
