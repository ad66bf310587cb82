#include <adjoint/nn/stream_calls.h>

#include <adjoint/core/autograd/module_calls.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/graph/call_trace.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/nn/traced.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace adjoint::nn::detail {
namespace {

using adjoint::detail::CallTrace;
using adjoint::detail::ModuleCalls;
using adjoint::detail::OperatorCall;
using adjoint::detail::TraceScope;

// Collects the nodes of a call's translation.
class SignalTranslation final : public OnnxCall {
 public:
  SignalTranslation(const OperatorCall& call, SignalCall& to) : OnnxCall(call.name, call.in, call.out), to_(to) {}

  OnnxValue operand(std::size_t i) override {
    return in[i].defined() ? OnnxValue{static_cast<std::int32_t>(i)} : OnnxValue{};
  }
  std::vector<OnnxValue> broadcast_operands() override {
    std::vector<OnnxValue> all;
    for (std::size_t i = 0; i < in.size(); ++i) all.push_back(operand(i));
    return all;
  }
  OnnxValue constant(const Tensor& value) override { return make(value); }
  std::vector<OnnxValue> add_node(std::string_view type, std::span<const OnnxValue> inputs,
                                  const OnnxAttributes& attributes, std::size_t outputs) override {
    SignalCall::Node node{.type = std::string(type), .inputs = {}, .attributes = attributes};
    for (const OnnxValue& input : inputs) node.inputs.push_back(input.id);
    to_.nodes.push_back(std::move(node));
    std::vector<OnnxValue> results(outputs);
    for (OnnxValue& result : results) result = make({});
    return results;
  }
  void set_result(std::size_t, OnnxValue) override {}
  void refuse(std::string_view reason) const override { to_.refuse(fmt::format("of which {}", reason)); }

 private:
  OnnxValue make(const Tensor& value) {
    to_.made.push_back(value);
    return {static_cast<std::int32_t>(to_.in.size() + to_.made.size()) - 1};
  }

  SignalCall& to_;
};

const Storage* signal_storage(const Tensor& tensor) { return tensor.impl()->storage.get(); }

bool shows_same(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() && a.impl()->offset == b.impl()->offset &&
         a.strides() == b.strides();
}

class SignalTrace final : public CallTrace {
 public:
  explicit SignalTrace(const Tensor& input) : CallTrace(Calls::kFunctions) { define(input); }

  void called(const OperatorCall& call) override {
    const auto depends = [&](const Tensor& t) { return is_derived(t); };
    if (std::none_of(call.in.begin(), call.in.end(), depends)) {
      if (call.in_place && is_derived(call.out[0])) forget(call.out[0]);
      return;
    }
    const TraceScope paused(nullptr);
    SignalCall& made = add(call.name, call.in, call.out);
    for (std::size_t i = 0; i < call.in.size(); ++i) {
      const bool was_overwritten = call.in_place && made.operands[i] < 0 && call.in[i].defined() &&
                                   signal_storage(call.in[i]) == signal_storage(call.out[0]);
      if (was_overwritten) made.in[i] = before_write_;
    }
    if (call.has_rule()) {
      SignalTranslation translation(call, made);
      call.translate(translation);
    }
    made.planned = call.planned();
    if (call.in_place) forget(call.out[0]);
    define_results(made);
  }

  void called(const char* name, const std::vector<Tensor>& in, const std::vector<Tensor>& out,
              std::optional<SignalLoop> loop) {
    const auto depends = [&](const Tensor& t) { return is_derived(t); };
    if (std::none_of(in.begin(), in.end(), depends)) return;
    SignalCall& made = add(name, in, out);
    made.loop = std::move(loop);
    define_results(made);
  }

  void overwrites(const Tensor& target) override {
    if (is_derived(target)) return;
    const TraceScope paused(nullptr);
    before_write_ = target.clone();
    keep_for_earlier(target);
  }

  void accesses(const Tensor& tensor, bool writes) override {
    const TraceScope paused(nullptr);
    if (is_derived(tensor)) {
      refuse("Streaming: a network must compute with operators alone; got {}, which {} elements", called_function(),
             writes ? "writes" : "reads");
    }
    if (writes) keep_for_earlier(tensor);
  }

  void checked(const char*, const Tensor&, std::function<void(const Tensor&)>) override {}

  void draws() override {
    refuse("Streaming: a network must not use random numbers; got {}; call eval() before", called_function());
  }

  std::int32_t value_of(const Tensor& tensor) const {
    const auto found = known_.find(signal_storage(tensor));
    if (found != known_.end()) {
      for (const auto& [known, value] : found->second) {
        if (shows_same(known, tensor)) return value;
      }
    }
    refuse(
        "Streaming: a view of a network's tensor must be made by an operator, after writes to the tensor; got {}, "
        "which uses another",
        called_function());
  }

  bool is_derived(const Tensor& tensor) const { return tensor.defined() && known_.count(signal_storage(tensor)) != 0; }

  SignalCalls recorded;

 private:
  SignalCall& add(const char* name, std::span<const Tensor> in, std::span<const Tensor> out) {
    SignalCall& made = recorded.calls.emplace_back();
    made.name = name;
    if (const std::string* const module = ModuleCalls::innermost()) made.module = *module;
    made.in.assign(in.begin(), in.end());
    made.out.assign(out.begin(), out.end());
    for (const Tensor& operand : in) made.operands.push_back(is_derived(operand) ? value_of(operand) : -1);
    return made;
  }
  void define_results(SignalCall& call) {
    for (const Tensor& result : call.out) call.results.push_back(result.defined() ? define(result) : -1);
  }

  std::int32_t define(const Tensor& tensor) {
    known_[signal_storage(tensor)].emplace_back(tensor, recorded.values);
    return recorded.values++;
  }

  // The storage is written to; views that are older are unknown from then on, so that their use throws.
  void forget(const Tensor& target) {
    if (static_cast<std::size_t>(target.numel()) * element_size(target.dtype()) != target.impl()->storage->nbytes()) {
      refuse("Streaming: views of a tensor must not be written to; got {}; use the function without `_`",
             called_function());
    }
    known_.erase(signal_storage(target));
  }

  // Calls so far read a copy of a constant that is written to from now on.
  void keep_for_earlier(const Tensor& constant) {
    for (SignalCall& call : recorded.calls) {
      for (std::size_t i = 0; i < call.in.size(); ++i) {
        Tensor& operand = call.in[i];
        if (call.operands[i] < 0 && operand.defined() && signal_storage(operand) == signal_storage(constant))
          operand = operand.clone();
      }
    }
  }

  std::unordered_map<const Storage*, std::vector<std::pair<Tensor, std::int32_t>>> known_;
  Tensor before_write_;  // the constant that an operator overwrites next
};

const OnnxAttribute* attribute_of(const SignalCall::Node& node, std::string_view name) {
  for (const OnnxAttribute& attribute : node.attributes) {
    if (attribute.name == name) return &attribute;
  }
  return nullptr;
}

}  // namespace

void SignalCall::refuse(std::string_view which) const {
  const std::string where = module.empty() ? name : fmt::format("{} in {}", name, module);
  nn::detail::refuse("Streaming: a network must work on blocks of its signal; got {}, {}", where, which);
}

const SignalCall::Node* SignalCall::find(std::string_view type) const {
  const auto found = std::find_if(nodes.begin(), nodes.end(), [&](const Node& node) { return node.type == type; });
  return found == nodes.end() ? nullptr : &*found;
}

std::vector<std::int64_t> SignalCall::integers(const Node& node, std::size_t i) const {
  if (i >= node.inputs.size() || node.inputs[i] < static_cast<std::int32_t>(in.size())) return {};
  const Tensor& constant = made[static_cast<std::size_t>(node.inputs[i]) - in.size()];
  return constant.defined() ? constant.to(kInt64).to_vector<std::int64_t>() : std::vector<std::int64_t>{};
}

double SignalCall::number(const Node& node, std::size_t i, double otherwise) const {
  if (i >= node.inputs.size() || node.inputs[i] < static_cast<std::int32_t>(in.size())) return otherwise;
  return made[static_cast<std::size_t>(node.inputs[i]) - in.size()].to(kFloat64).item<double>();
}

std::vector<std::int64_t> integers_of(const SignalCall::Node& node, std::string_view name) {
  const OnnxAttribute* const found = attribute_of(node, name);
  return found == nullptr ? std::vector<std::int64_t>{} : std::get<std::vector<std::int64_t>>(found->value);
}
std::int64_t integer_of(const SignalCall::Node& node, std::string_view name, std::int64_t otherwise) {
  const OnnxAttribute* const found = attribute_of(node, name);
  return found == nullptr ? otherwise : std::get<std::int64_t>(found->value);
}
double number_of(const SignalCall::Node& node, std::string_view name, double otherwise) {
  const OnnxAttribute* const found = attribute_of(node, name);
  return found == nullptr ? otherwise : std::get<double>(found->value);
}

SignalCalls record_signal(const TensorFunction& f, const Tensor& input) {
  SignalTrace trace(input);
  const std::vector<Tensor> results = run_traced(trace, f, {input});
  ADJOINT_CHECK(results.size() == 1 && results[0].defined(),
                "Streaming: a network must return one tensor; got {} of them", results.size());
  ADJOINT_CHECK(trace.is_derived(results[0]), "Streaming: the output must depend on the signal; got a constant");
  trace.recorded.output = trace.value_of(results[0]);
  return std::move(trace.recorded);
}

bool records_signal() { return dynamic_cast<SignalTrace*>(CallTrace::current()) != nullptr; }

void record_loop(const char* name, const std::vector<Tensor>& in, const std::vector<Tensor>& out,
                 std::optional<SignalLoop> loop) {
  dynamic_cast<SignalTrace&>(*CallTrace::current()).called(name, in, out, std::move(loop));
}

}  // namespace adjoint::nn::detail
