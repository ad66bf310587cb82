// y = scale * (x - mean) / sqrt(var + eps) + shift of x = W u + b has the weight factor * W and the bias
// factor * (b - mean) + shift, where factor = scale / sqrt(var + eps).
#include <adjoint/nn/onnx/save/passes.h>

#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/functions.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace adjoint::nn::detail {
namespace {

std::int64_t integer(const OnnxGraph::Node& node, std::string_view name, std::int64_t otherwise) {
  for (const auto& [own, value] : node.attributes) {
    if (own == name) return std::get<std::int64_t>(value);
  }
  return otherwise;
}

double epsilon(const OnnxGraph::Node& node) {
  for (const auto& [own, value] : node.attributes) {
    if (own == "epsilon") return static_cast<float>(std::get<double>(value));  // as the file stores it
  }
  return 1e-5F;
}

class Folder {
 public:
  explicit Folder(OnnxGraph& graph) : graph_(graph), reads_(graph.values.size()), makers_(graph.values.size(), -1) {
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      for (const std::int32_t id : graph.nodes[i].inputs)
        if (id >= 0) ++reads_[static_cast<std::size_t>(id)];
      for (const std::int32_t id : graph.nodes[i].outputs)
        makers_[static_cast<std::size_t>(id)] = static_cast<std::int32_t>(i);
    }
    for (const OnnxGraph::Port& output : graph.outputs) ++reads_[static_cast<std::size_t>(output.value)];
  }

  void run() {
    std::vector<OnnxGraph::Node> kept;
    std::vector<bool> folded(graph_.nodes.size());
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) folded[i] = fold(graph_.nodes[i]);
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!folded[i]) kept.push_back(std::move(graph_.nodes[i]));
    }
    graph_.nodes = std::move(kept);
  }

 private:
  OnnxGraph::Value& at(std::int32_t id) { return graph_.values[static_cast<std::size_t>(id)]; }
  bool is_constant(std::int32_t id) { return id >= 0 && at(id).constant.defined(); }
  Tensor number(std::int32_t id) { return at(id).constant.to(kCPU).to(kFloat64); }

  bool fold(const OnnxGraph::Node& norm) {
    if (norm.type != "BatchNormalization") return false;
    const std::int32_t x = norm.inputs[0], maker = makers_[static_cast<std::size_t>(x)];
    if (maker < 0 || reads_[static_cast<std::size_t>(x)] != 1) return false;
    for (std::size_t i = 1; i < 5; ++i) {
      if (!is_constant(norm.inputs[i])) return false;
    }
    OnnxGraph::Node& layer = graph_.nodes[static_cast<std::size_t>(maker)];
    const bool is_layer =
        layer.type == "Conv" || layer.type == "ConvTranspose" || is_linear(layer) || is_product(layer);
    if (!is_layer || !is_constant(layer.inputs[1])) return false;
    const bool has_bias = layer.inputs.size() > 2;
    if (has_bias && !is_constant(layer.inputs[2])) return false;

    const Tensor factor = number(norm.inputs[1]) / sqrt(number(norm.inputs[4]) + epsilon(norm));
    const Tensor before = has_bias ? number(layer.inputs[2]) : Tensor::zeros({1}, {.dtype = kFloat64});
    const Tensor bias = factor * (before - number(norm.inputs[3])) + number(norm.inputs[2]);
    const Tensor weight = scaled(layer, number(layer.inputs[1]), factor);
    const std::string name = at(layer.inputs[1]).name;
    const DType dtype = at(layer.inputs[1]).constant.dtype();
    layer.inputs.resize(3, -1);
    layer.inputs[2] = replaced(layer.inputs[2], bias.to(dtype), bias_name(name));
    layer.inputs[1] = replaced(layer.inputs[1], weight.to(dtype), name);
    layer.outputs[0] = norm.outputs[0];
    if (layer.type == "MatMul") layer.type = "Gemm";  // which has a bias
    makers_[static_cast<std::size_t>(norm.outputs[0])] = maker;
    return true;
  }

  // Without factors, which the library's rules do not write.
  static bool is_linear(const OnnxGraph::Node& node) {
    const auto is_trans_b = [](const auto& attribute) { return attribute.first == "transB"; };
    return node.type == "Gemm" && std::all_of(node.attributes.begin(), node.attributes.end(), is_trans_b);
  }

  // A linear layer without a bias: rows times a weight (in, out).
  bool is_product(const OnnxGraph::Node& node) {
    const std::optional<Shape>& shape = at(node.outputs[0]).shape;
    return node.type == "MatMul" && shape && shape->size() == 2;
  }

  // The weight with each output channel times its factor.
  static Tensor scaled(const OnnxGraph::Node& layer, const Tensor& weight, const Tensor& factor) {
    Shape shape = Dims::filled(weight.shape().size(), 1);
    const bool by_columns = layer.type == "MatMul" || (layer.type == "Gemm" && integer(layer, "transB", 0) == 0);
    if (by_columns) return weight * factor;
    if (layer.type != "ConvTranspose") {  // (out, ...)
      shape[0] = factor.numel();
      return weight * factor.reshape(shape);
    }
    // (in, out / groups, ...): a group of inputs has a group of outputs.
    const std::int64_t groups = integer(layer, "group", 1);
    shape[0] = weight.size(0);
    shape[1] = weight.size(1);
    const Tensor each =
        factor.reshape({groups, 1, weight.size(1)}).expand({groups, weight.size(0) / groups, weight.size(1)});
    return weight * each.reshape(shape);
  }

  // A new constant in place of one, under `name` unless other nodes read the old one.
  std::int32_t replaced(std::int32_t old, const Tensor& value, const std::string& name) {
    const bool is_free = old < 0 || reads_[static_cast<std::size_t>(old)] == 1;
    graph_.values.push_back({.name = is_free ? name : "", .constant = value, .shape = value.shape()});
    reads_.push_back(1);
    makers_.push_back(-1);
    return static_cast<std::int32_t>(graph_.values.size() - 1);
  }

  static std::string bias_name(std::string weight) {
    constexpr std::string_view kWeight = "weight";
    if (!weight.ends_with(kWeight)) return {};
    weight.resize(weight.size() - kWeight.size());
    return weight + "bias";
  }

  OnnxGraph& graph_;
  std::vector<std::int32_t> reads_;   // of values: by how many nodes and outputs
  std::vector<std::int32_t> makers_;  // of values: nodes
};

}  // namespace

void fold_batch_norm(OnnxGraph& graph) { Folder(graph).run(); }

}  // namespace adjoint::nn::detail
