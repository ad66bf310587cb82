#include <adjoint/nn/onnx/onnx.h>

#include <adjoint/core/base/check.h>
#include <adjoint/nn/onnx/save/dynamic.h>
#include <adjoint/nn/onnx/save/model.h>
#include <adjoint/nn/onnx/save/passes.h>
#include <adjoint/nn/onnx/save/trace.h>
#include <adjoint/nn/traced.h>
#include <adjoint/ops/join/join.h>

#include <algorithm>
#include <set>
#include <string_view>

namespace adjoint::nn::detail {
namespace {

// The second run's inputs: dynamic axes are twice, three times, five times as long, for each name another factor, so
// that their extents can be distinguished.
std::vector<Tensor> inputs_of_other_sizes(const std::vector<Tensor>& inputs, const std::vector<DynamicAxis>& axes) {
  constexpr std::int64_t kFactors[] = {2, 3, 5, 7, 11, 13};
  std::vector<std::string> names;
  std::vector<Tensor> others = inputs;
  for (const DynamicAxis& axis : axes) {
    auto name = std::find(names.begin(), names.end(), axis.name);
    if (name == names.end()) {
      ADJOINT_CHECK(names.size() < std::size(kFactors), "save_onnx: there must be at most {} dynamic sizes; got more",
                    std::size(kFactors));
      name = names.insert(names.end(), axis.name);
    }
    Tensor& other = others[axis.input];
    const std::vector<Tensor> copies(static_cast<std::size_t>(kFactors[name - names.begin()]), other);
    other = cat(copies, axis.axis);
  }
  return others;
}

void set_axes(OnnxGraph& graph, const std::vector<DynamicAxis>& axes) {
  for (const DynamicAxis& axis : axes) {
    OnnxGraph::Port& port = graph.inputs[axis.input];
    port.axes.resize(port.shape.size());
    port.axes[static_cast<std::size_t>(axis.axis)] = axis.name;
  }
}

void check_axes(const std::vector<Tensor>& inputs, const std::vector<DynamicAxis>& axes) {
  for (const DynamicAxis& axis : axes) {
    ADJOINT_CHECK(axis.input < inputs.size() && axis.axis >= 0 && axis.axis < inputs[axis.input].dim(),
                  "save_onnx: a dynamic axis must be one of an input; got axis {} of input {}", axis.axis, axis.input);
    ADJOINT_CHECK(!axis.name.empty(), "save_onnx: a dynamic axis must have a name; got none for axis {} of input {}",
                  axis.axis, axis.input);
    ADJOINT_CHECK(inputs[axis.input].shape()[static_cast<std::size_t>(axis.axis)] > 0,
                  "save_onnx: a dynamic axis must have elements; got shape {}", inputs[axis.input].shape());
  }
}

class Names {
 public:
  explicit Names(OnnxGraph& graph) : graph_(graph) {}

  void name_ports(std::vector<OnnxGraph::Port>& ports, const std::vector<std::string>& names, const char* kind) {
    ADJOINT_CHECK(names.empty() || names.size() == ports.size(),
                  "save_onnx: there must be a name for each {}; got {} names for {}", kind, names.size(), ports.size());
    for (std::size_t i = 0; i < ports.size(); ++i) {
      std::string name = !names.empty() ? names[i] : ports.size() == 1 ? kind : fmt::format("{}_{}", kind, i);
      ADJOINT_CHECK(!name.empty() && used_.insert(name).second,
                    "save_onnx: names of inputs and outputs must be distinct and not empty; got \"{}\"", name);
      graph_.values[static_cast<std::size_t>(ports[i].value)].name = std::move(name);
    }
  }

  void name_others() {
    for (const OnnxGraph::Node& node : graph_.nodes) {
      for (const std::int32_t id : node.outputs) {
        std::string& name = graph_.values[static_cast<std::size_t>(id)].name;
        if (name.empty()) name = unique(node.type);
      }
    }
    for (OnnxGraph::Value& value : graph_.values) {
      if (!value.constant.defined()) continue;
      if (value.name.empty() || !used_.insert(value.name).second)
        value.name = unique(value.name.empty() ? "constant" : value.name);
    }
  }

 private:
  std::string unique(std::string_view stem) {
    for (;;) {
      std::string name = fmt::format("{}_{}", stem, next_++);
      if (used_.insert(name).second) return name;
    }
  }

  OnnxGraph& graph_;
  std::set<std::string> used_;
  std::size_t next_ = 0;
};

// Constants that no node reads any more.
void drop_unused(OnnxGraph& graph) {
  std::vector<bool> used(graph.values.size());
  for (const OnnxGraph::Node& node : graph.nodes) {
    for (const std::int32_t id : node.inputs) {
      if (id >= 0) used[static_cast<std::size_t>(id)] = true;
    }
  }
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (!used[i]) graph.values[i].constant = {};
  }
}

}  // namespace

void save_onnx(const std::filesystem::path& path, const TensorFunction& f, const std::vector<Tensor>& inputs,
               const SaveOnnxOptions& options, const NamedTensors& weights) {
  check_inputs("save_onnx", inputs);
  check_axes(inputs, options.dynamic_axes);
  OnnxGraph graph = trace_onnx(f, inputs, weights);
  if (!options.dynamic_axes.empty()) {
    set_axes(graph, options.dynamic_axes);
    make_dynamic(graph, trace_onnx(f, inputs_of_other_sizes(inputs, options.dynamic_axes), weights));
  }
  if (options.fold_batch_norm) fold_batch_norm(graph);
  compute_bfloat16_in_float32(graph);
  if (options.float16_weights) store_weights_in_float16(graph);
  drop_unused(graph);
  Names names(graph);
  names.name_ports(graph.inputs, options.input_names, "input");
  names.name_ports(graph.outputs, options.output_names, "output");
  names.name_others();
  write_onnx(path, graph, options.external_data);
}

}  // namespace adjoint::nn::detail
