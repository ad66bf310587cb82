// checkpoint(): computes a piece of a program twice to avoid keeping its intermediate results.
#include <adjoint/core/autograd/autocast.h>
#include <adjoint/core/autograd/gradient_places.h>
#include <adjoint/core/autograd/node.h>
#include <adjoint/core/autograd/op.h>
#include <adjoint/core/autograd/state_log.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/graph/onnx_call.h>
#include <adjoint/core/tensor/random.h>

#include <algorithm>

namespace adjoint {
namespace {

using Function = std::function<Tensor(const std::vector<Tensor>&)>;

// A new recorded tensor with the same elements, at which a sweep can stop.
constinit const OpDef<NoAttr> alias_op{
    .name = "checkpoint",
    .view = [](const Tensor& in, const NoAttr&) { return in.view_as(in.shape(), in.strides(), in.storage_offset()); },
    .onnx = [](OnnxCall& call, const NoAttr&) { return call.operand(0); },
    .vjp = {{{kSaveNone, [](const Ctx<NoAttr>& c) { return c.grad; }}}}};

// A function may return an input or a leaf itself, which none of its own operations has put on the tape.
Tensor recorded(const Tensor& result) { return apply(alias_op, {result}); }

// f(inputs), which must leave its inputs and the thread's tapes unchanged.
Tensor run(const Function& f, const std::vector<Tensor>& inputs) {
  const Tape* const tape = Tape::current();
  const detail::Versions versions(inputs);
  Tensor result = f(inputs);
  check_defined("checkpoint", "the function's result", result);
  ADJOINT_CHECK(
      Tape::current() == tape,
      "checkpoint: the function must end the tapes and pauses that it makes, and no others; got another tape, "
      "or none, recording after it");
  const std::size_t changed = versions.first_changed();
  ADJOINT_CHECK(changed == inputs.size(),
                "checkpoint: the function must not change its inputs in place, for it runs twice; got input {} of "
                "shape {} changed; change a clone()",
                changed, inputs[changed].shape());
  return result;
}

std::vector<Tensor> as_leaves(std::span<const Tensor> inputs) {
  std::vector<Tensor> leaves;
  for (const Tensor& input : inputs) {
    leaves.push_back(input.detach());
    if (input.requires_grad()) leaves.back().requires_grad_();
  }
  return leaves;
}

// Operands: the function's inputs, then the leaves that it captured.
class CheckpointNode final : public detail::Node {
 public:
  CheckpointNode(Function f, std::size_t inputs, const Generator& random, detail::States states)
      : f_(std::move(f)),
        inputs_(inputs),
        random_(random),
        states_(std::move(states)),
        autocast_(detail::autocast_settings()) {}
  const char* name() const override { return "checkpoint"; }

  void backward(Operands grads, const std::vector<bool>& needed, std::vector<Tensor>& operand_grads) override {
    const detail::GradientPlaces none;                // f makes other tensors than gradients
    const GeneratorGuard replay(random_);             // the first run's random numbers
    const MemoryScope scope(MemoryCategory::kOther);  // recomputed tensors are not gradients
    const AutocastGuard autocast(autocast_.dtype, autocast_.options);
    // Until the end of the sweep through f, because that reads the tensors that f saves.
    detail::from_states(states_, [&] { recompute(grads[0], needed, operand_grads); });
  }
  // A layer may write to its own parameter at each run, as Embedding does to rows that are too long.
  bool restores(const Tensor& tensor) const override {
    const auto holds = [&](const detail::State& state) { return state.storage == tensor.impl()->storage; };
    return std::any_of(states_.begin(), states_.end(), holds);
  }

 private:
  void recompute(const Tensor& grad, const std::vector<bool>& needed, std::vector<Tensor>& operand_grads) {
    if (Tape* const sweeping = Tape::current()) {
      // Recomputed on the sweeping tape itself, so that the gradient is differentiable again.
      std::vector<Tensor> operands;
      for (std::size_t i = 0; i < inputs_; ++i) operands.push_back(recorded(saved[i]));
      differentiate(*sweeping, operands, grad, needed, operand_grads, true);
    } else {
      Tape tape;
      differentiate(tape, as_leaves({saved, inputs_}), grad, needed, operand_grads, false);
    }
  }

  void differentiate(Tape& tape, std::vector<Tensor> operands, const Tensor& grad, const std::vector<bool>& needed,
                     std::vector<Tensor>& grads, bool record) {
    operands.insert(operands.end(), saved + inputs_, saved + size);  // before f, which may sweep here too
    const Tensor out = recorded(run(f_, {operands.begin(), operands.begin() + static_cast<std::ptrdiff_t>(inputs_)}));
    std::vector<std::int64_t> targets;
    std::vector<std::size_t> owners;
    for (std::size_t i = 0; i < size; ++i) {
      // Every input is a target, needed or not, because sweeps stop there.
      const std::int64_t id = tape.impl().find(operands[i]);
      if (id < 0) continue;
      targets.push_back(id);
      owners.push_back(i);
    }
    if (tape.impl().find(out) < 0) return;
    const std::vector<Tensor> found =
        tape.impl().sweep("checkpoint", out, targets, {.record = record, .grad_output = grad},
                          {.stop_at_targets = true});
    for (std::size_t t = 0; t < owners.size(); ++t) {
      if (needed[owners[t]]) grads[owners[t]] = found[t];
    }
  }

  Function f_;
  std::size_t inputs_;
  Generator random_;
  detail::States states_;              // of tensors that f writes to, as the first run found them
  detail::AutocastSettings autocast_;  // of the first run
};

Tensor record(Tape& tape, const Function& f, const std::vector<Tensor>& inputs, const Generator& random,
              detail::StateLog& log) {
  detail::Recording inputs_only(tape, "checkpoint", inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) inputs_only.use(i, inputs[i]);
  Tensor out;
  std::vector<Tensor> operands = inputs;
  {
    // A separate tape finds the leaves that f captures; its saved tensors are freed when it ends.
    const PauseTape pause;
    Tape probe;
    const std::vector<Tensor> leaves = as_leaves(inputs);
    out = recorded(run(f, leaves)).detach();
    for (const Tensor& leaf : probe.impl().leaves()) {
      const auto same = [&](const Tensor& input) { return input.impl() == leaf.impl(); };
      if (std::none_of(leaves.begin(), leaves.end(), same)) operands.push_back(leaf);
    }
  }
  ADJOINT_CHECK(Tape::current() == &tape, "checkpoint: the function must not end the tape that records; got its end");
  detail::Recording recording(tape, "checkpoint", operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i) recording.use(i, operands[i]);
  if (!recording.needed()) return out;
  recording.commit(tape.impl().make_node<CheckpointNode>(f, inputs.size(), random, log.states()), operands,
                   Operands(&out, 1), 1, detail::kSaveEveryOperand);
  return out;
}

}  // namespace

Tensor checkpoint(const Function& f, const std::vector<Tensor>& inputs) {
  ADJOINT_CHECK(f != nullptr, "checkpoint: f must be a function; got an empty one");
  for (const Tensor& input : inputs) check_defined("checkpoint", "input", input);
  Tape* const tape = Tape::current();
  if (tape == nullptr) return f(inputs);
  const Generator random = default_generator();
  detail::StateLog log;
  try {
    return record(*tape, f, inputs, random, log);
  } catch (...) {
    default_generator() = random;
    log.undo();
    throw;
  }
}

}  // namespace adjoint
