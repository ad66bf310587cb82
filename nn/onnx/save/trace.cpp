#include <adjoint/nn/onnx/save/trace.h>

#include <adjoint/core/autograd/module_calls.h>
#include <adjoint/core/base/check.h>
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

bool same_strides(const Shape& shape, const Strides& a, const Strides& b) {
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] != 1 && a[axis] != b[axis]) return false;
  }
  return true;
}

bool same_elements(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() && a.impl()->offset == b.impl()->offset &&
         (a.numel() == 0 || same_strides(a.shape(), a.strides(), b.strides()));
}

// The operator and its module.
std::string called_by(const char* op) {
  const std::string* module = ModuleCalls::innermost();
  return module == nullptr ? op : fmt::format("{} in {}", op, *module);
}

class Trace final : public CallTrace {
 public:
  Trace(const std::vector<Tensor>& inputs, const NamedTensors& weights) : CallTrace(Calls::kFunctions) {
    for (const Tensor& input : inputs) {
      const std::int32_t id = add_value({});
      graph.values.back().shape = input.shape();
      known_[storage_of(input)].push_back({input, id, true});
      graph.inputs.push_back({.value = id, .dtype = input.dtype(), .shape = input.shape()});
    }
    for (const auto& [name, weight] : weights) {
      if (weight.defined()) names_[storage_of(weight)].emplace_back(weight, name);
    }
  }

  void finish(const std::vector<Tensor>& results) {
    for (std::size_t i = 0; i < results.size(); ++i) {
      const Tensor& result = results[i];
      ADJOINT_CHECK(result.defined(), "save_onnx: outputs must be defined; got Tensor{{}} as output {}", i);
      std::int32_t id = value_of(result);
      const auto is_taken = [&](const OnnxGraph::Port& port) { return port.value == id; };
      const bool is_made = !graph.values[static_cast<std::size_t>(id)].constant.defined() &&
                           std::none_of(graph.inputs.begin(), graph.inputs.end(), is_taken);
      if (!is_made || std::any_of(graph.outputs.begin(), graph.outputs.end(), is_taken)) {
        const std::int32_t copy = add_value({});
        graph.nodes.push_back({.type = "Identity", .made_by = "the output", .inputs = {id}, .outputs = {copy}});
        id = copy;
      }
      graph.outputs.push_back({.value = id, .dtype = result.dtype(), .shape = result.shape()});
    }
    drop_unused();
  }

  void called(const OperatorCall& call) override {
    const bool depends = std::any_of(call.in.begin(), call.in.end(), [&](const Tensor& t) { return is_derived(t); });
    if (!depends) {
      // A target that held values of the network holds a constant from now on.
      if (call.in_place) forget(call.out[0], call.name);
      return;
    }
    if (!call.has_rule()) {
      refuse("save_onnx: the operator {} cannot be written: {}", call.name,
             call.reason() != nullptr ? call.reason() : "ONNX has no counterpart of this part of a gradient");
    }
    const TraceScope paused(nullptr);
    Call translation(*this, call);
    translation.set_result(0, call.translate(translation));
    for (std::size_t i = 0; i < call.out.size(); ++i) {
      if (call.out[i].defined()) define(call.out[i], translation.results[i].id, call.in_place, call.name);
    }
  }

  void overwrites(const Tensor& target) override {
    const TraceScope paused(nullptr);
    if (!is_derived(target)) value_of(target);  // it may be an operand
    keep_constants(target);
  }

  void accesses(const Tensor& tensor, bool writes) override {
    const TraceScope paused(nullptr);
    const char* const op = called_function();
    if (is_derived(tensor)) {
      refuse("save_onnx: a network must compute with operators alone; got {}, which {} elements", op,
             writes ? "writes" : "reads");
    }
    if (!writes) return;
    keep_constants(tensor);
    forget(tensor, op);
  }

  void checked(const char*, const Tensor&, std::function<void(const Tensor&)>) override {}

  void draws() override {
    refuse("save_onnx: a network must not use random numbers; got {}; call eval() before", called_function());
  }

  OnnxGraph graph;

 private:
  struct Known {
    Tensor tensor;
    std::int32_t id;  // -1: a result that the operator's rule does not give
    bool derived;     // from an input
  };

  class Call final : public OnnxCall {
   public:
    Call(Trace& trace, const OperatorCall& call)
        : OnnxCall(call.name, call.in, call.out), results(call.out.size()), trace_(trace), call_(call) {}

    OnnxValue operand(std::size_t i) override {
      return in[i].defined() ? OnnxValue{trace_.value_of(in[i])} : OnnxValue{};
    }
    std::vector<OnnxValue> broadcast_operands() override {
      std::vector<OnnxValue> values;
      Shape shape;
      for (const Tensor& tensor : in) {
        values.push_back({trace_.before_expand(tensor)});
        shape = broadcast_shapes(call_.name, shape, trace_.shape_of(values.back().id));
      }
      for (std::size_t i = 0; i < in.size() && shape != out[0].shape(); ++i) {
        values[i] = operand(i);
        shape = broadcast_shapes(call_.name, shape, in[i].shape());
      }
      return values;
    }
    OnnxValue constant(const Tensor& value) override { return {trace_.add_value(value)}; }
    std::vector<OnnxValue> add_node(std::string_view type, std::span<const OnnxValue> inputs,
                                    const OnnxAttributes& attributes, std::size_t outputs) override {
      OnnxGraph::Node node{.type = std::string(type), .made_by = called_by(call_.name)};
      for (const OnnxValue& input : inputs) node.inputs.push_back(input.id);
      while (!node.inputs.empty() && node.inputs.back() < 0) node.inputs.pop_back();
      std::vector<OnnxValue> made(outputs);
      for (OnnxValue& value : made) node.outputs.push_back(value.id = trace_.add_value({}));
      for (const OnnxAttribute& attribute : attributes) node.attributes.emplace_back(attribute.name, attribute.value);
      trace_.graph.nodes.push_back(std::move(node));
      return made;
    }
    void set_result(std::size_t i, OnnxValue value) override { results.at(i) = value; }
    void refuse(std::string_view reason) const override {
      detail::refuse("save_onnx: the operator {} cannot be written: {}", call_.name, reason);
    }

    std::vector<OnnxValue> results;

   private:
    Trace& trace_;
    const OperatorCall& call_;
  };

  // Drops nodes that no output needs, such as expand() before an operator that broadcasts. Numbers the remaining values
  // in the order of their use, because graphs of one function are compared.
  void drop_unused() {
    std::vector<bool> used(graph.values.size());
    const auto is_used = [&](std::int32_t id) { return id >= 0 && used[static_cast<std::size_t>(id)]; };
    for (const OnnxGraph::Port& output : graph.outputs) used[static_cast<std::size_t>(output.value)] = true;
    std::vector<OnnxGraph::Node> nodes;  // backwards
    for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
      if (std::none_of(node->outputs.begin(), node->outputs.end(), is_used)) continue;
      for (const std::int32_t id : node->inputs) {
        if (id >= 0) used[static_cast<std::size_t>(id)] = true;
      }
      nodes.push_back(std::move(*node));
    }
    graph.nodes.assign(std::make_move_iterator(nodes.rbegin()), std::make_move_iterator(nodes.rend()));

    std::vector<std::int32_t> places(graph.values.size(), -1);
    std::vector<OnnxGraph::Value> values;
    const auto renumber = [&](std::int32_t& id) {
      if (id < 0) return;
      std::int32_t& place = places[static_cast<std::size_t>(id)];
      if (place < 0) {
        place = static_cast<std::int32_t>(values.size());
        values.push_back(std::move(graph.values[static_cast<std::size_t>(id)]));
      }
      id = place;
    };
    for (OnnxGraph::Port& input : graph.inputs) renumber(input.value);
    for (OnnxGraph::Node& node : graph.nodes) {
      std::for_each(node.inputs.begin(), node.inputs.end(), renumber);
      std::for_each(node.outputs.begin(), node.outputs.end(), renumber);
    }
    for (OnnxGraph::Port& output : graph.outputs) renumber(output.value);
    graph.values = std::move(values);
  }

  static const Storage* storage_of(const Tensor& tensor) { return tensor.impl()->storage.get(); }

  std::int32_t add_value(const Tensor& constant) {
    graph.values.push_back({.name = {}, .constant = constant, .shape = {}});
    return static_cast<std::int32_t>(graph.values.size() - 1);
  }

  Known* find(const Tensor& tensor) {
    const auto of_storage = known_.find(storage_of(tensor));
    if (of_storage == known_.end()) return nullptr;
    for (Known& known : of_storage->second) {
      if (same_elements(known.tensor, tensor)) return &known;
    }
    return nullptr;
  }

  // Of a tensor whose memory holds a value of the network, even if the tensor itself is an unknown view of it.
  bool is_derived(const Tensor& tensor) const {
    if (!tensor.defined()) return false;
    const auto of_storage = known_.find(storage_of(tensor));
    return of_storage != known_.end() && std::any_of(of_storage->second.begin(), of_storage->second.end(),
                                                     [](const Known& known) { return known.derived; });
  }

  std::int32_t value_of(const Tensor& tensor) {
    if (const Known* known = find(tensor)) {
      if (known->id < 0)
        refuse("save_onnx: ONNX's operators must have the results that are used; got one of another operator in {}",
               called_function());
      return known->id;
    }
    if (is_derived(tensor))
      refuse(
          "save_onnx: a view of a network's tensor must be made by an operator, after writes to the tensor; got {}, "
          "which uses another",
          called_function());
    const std::int32_t id = add_value(tensor);
    graph.values.back().shape = tensor.shape();
    if (const auto named = names_.find(storage_of(tensor)); named != names_.end()) {
      for (const auto& [weight, name] : named->second) {
        if (same_elements(weight, tensor)) graph.values.back().name = name;
      }
    }
    known_[storage_of(tensor)].push_back({tensor, id, false});
    return id;
  }

  const Shape& shape_of(std::int32_t id) const { return *graph.values[static_cast<std::size_t>(id)].shape; }

  // The value that expand() repeats to this tensor, or the tensor's own.
  std::int32_t before_expand(const Tensor& tensor) {
    const Strides& strides = tensor.strides();
    if (std::find(strides.begin(), strides.end(), 0) == strides.end()) return value_of(tensor);
    if (!is_derived(tensor)) return value_of(narrowed(tensor));
    std::int32_t id = value_of(tensor);
    for (std::size_t i = graph.nodes.size(); i-- > 0;) {
      const OnnxGraph::Node& node = graph.nodes[i];
      if (node.outputs.front() != id) continue;
      const bool is_known = node.type == "Expand" && graph.values[static_cast<std::size_t>(node.inputs[0])].shape;
      if (!is_known) break;
      id = node.inputs[0];
    }
    return id;
  }

  // A constant without its repetitions: a weight if it is one, or of as many axes as the tensor.
  Tensor narrowed(const Tensor& tensor) const {
    if (tensor.impl()->storage->nbytes() == 0) return tensor;
    Shape shape = tensor.shape();
    Strides strides = tensor.strides();
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      if (strides[axis] == 0) shape[axis] = 1;
    }
    const Tensor same_axes = tensor.view_as(shape, strides, tensor.storage_offset());
    const auto named = names_.find(storage_of(tensor));
    for (; named != names_.end(); shape.erase(0), strides.erase(0)) {
      const Tensor view = tensor.view_as(shape, strides, tensor.storage_offset());
      for (const auto& [weight, name] : named->second) {
        if (same_elements(weight, view)) return view;
      }
      if (shape.empty() || shape[0] != 1) break;
    }
    return same_axes;
  }

  void define(const Tensor& tensor, std::int32_t id, bool in_place, const char* op) {
    if (id >= 0) graph.values[static_cast<std::size_t>(id)].shape = tensor.shape();
    std::vector<Known>& all = known_[storage_of(tensor)];
    if (!in_place) {
      all.push_back({tensor, id, true});
      return;
    }
    check_whole(tensor, op);
    all.assign(1, {tensor, id, true});
  }

  // The storage is written to with constants.
  void forget(const Tensor& tensor, const char* op) {
    const auto found = known_.find(storage_of(tensor));
    if (found == known_.end()) return;
    const TraceScope paused(nullptr);
    if (is_derived(tensor)) check_whole(tensor, op);
    known_.erase(found);
  }

  // Views that are older than the write are unknown from then on, so that their use throws.
  static void check_whole(const Tensor& target, const char* op) {
    if (static_cast<std::size_t>(target.numel()) * element_size(target.dtype()) == target.impl()->storage->nbytes())
      return;
    refuse("save_onnx: views of a tensor must not be written to; got {}; use the function without `_`", op);
  }

  // Copies the constants that the graph has of a storage, before it is written to.
  void keep_constants(const Tensor& target) {
    const auto found = known_.find(storage_of(target));
    if (found == known_.end()) return;
    for (const Known& known : found->second) {
      if (known.id < 0) continue;
      Tensor& constant = graph.values[static_cast<std::size_t>(known.id)].constant;
      if (constant.defined()) constant = constant.clone();
    }
  }

  std::unordered_map<const Storage*, std::vector<Known>> known_;  // their tensors keep the storages alive
  std::unordered_map<const Storage*, std::vector<std::pair<Tensor, std::string>>> names_;
};

}  // namespace

OnnxGraph trace_onnx(const TensorFunction& f, const std::vector<Tensor>& inputs, const NamedTensors& weights) {
  Trace trace(inputs, weights);
  const std::vector<Tensor> results = run_traced(trace, f, inputs);
  trace.finish(results);
  return std::move(trace.graph);
}

}  // namespace adjoint::nn::detail
