// Values that are stored in 16 bits and computed with in float32.
#include <adjoint/nn/onnx/save/passes.h>

#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/functions.h>
#include <adjoint/ops/reduce/reduce.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace adjoint::nn::detail {
namespace {

constexpr std::size_t kLeastStored = 1024;  // bytes; a smaller constant is not worth a cast

std::size_t nbytes(const Tensor& x) { return static_cast<std::size_t>(x.numel()) * element_size(x.dtype()); }

class CastWriter {
 public:
  explicit CastWriter(OnnxGraph& graph) : graph_(graph), old_(std::move(graph.nodes)), narrow_(graph.values.size()) {
    graph_.nodes.clear();
  }

  /// The value is stored in 16 bits from now on.
  void mark(std::int32_t id) { narrow_[static_cast<std::size_t>(id)] = true; }

  /// Adds the old nodes to the graph, which read float32 in place of marked values.
  void run() {
    std::vector<std::int32_t> wide(narrow_.size(), -1);
    for (OnnxGraph::Node& node : old_) {
      for (std::int32_t& id : node.inputs) {
        // A cast reads any dtype.
        if (id < 0 || !narrow_[static_cast<std::size_t>(id)] || node.type == "Cast") continue;
        std::int32_t& cast = wide[static_cast<std::size_t>(id)];
        if (cast < 0) cast = this->cast(id, kFloat32, node.made_by);
        id = cast;
      }
      graph_.nodes.push_back(std::move(node));
    }
  }

  std::int32_t cast(std::int32_t id, DType dtype, const std::string& made_by) {
    const auto result = static_cast<std::int32_t>(graph_.values.size());
    graph_.values.emplace_back();
    graph_.nodes.push_back({.type = "Cast",
                            .made_by = made_by,
                            .inputs = {id},
                            .outputs = {result},
                            .attributes = {{"to", onnx_type(dtype)}}});
    return result;
  }

 private:
  OnnxGraph& graph_;
  std::vector<OnnxGraph::Node> old_;
  std::vector<bool> narrow_;  // of the old values
};

// A node's attributes make float32 of bfloat16.
void widen_attributes(OnnxGraph::Node& node) {
  for (auto& [name, value] : node.attributes) {
    if (auto* const tensor = std::get_if<Tensor>(&value); tensor != nullptr && tensor->dtype() == kBFloat16)
      *tensor = tensor->to(kFloat32);
    if (node.type == "Cast" && std::get<std::int64_t>(value) == onnx_type(kBFloat16)) value = onnx_type(kFloat32);
  }
}

// Returns true if no finite element becomes infinite.
bool fits_float16(const Tensor& x) {
  const Tensor becomes_infinite = isinf(x.to(kFloat16)) & logical_not(isinf(x));
  return !becomes_infinite.any().item<bool>();
}

}  // namespace

void compute_bfloat16_in_float32(OnnxGraph& graph) {
  for (OnnxGraph::Node& node : graph.nodes) widen_attributes(node);
  CastWriter writer(graph);
  for (const OnnxGraph::Port& input : graph.inputs) {
    if (input.dtype == kBFloat16) writer.mark(input.value);
  }
  for (std::size_t id = 0; id < graph.values.size(); ++id) {
    OnnxGraph::Value& value = graph.values[id];
    if (!value.constant.defined() || value.constant.dtype() != kBFloat16) continue;
    if (value.name.empty() && nbytes(value.constant) < kLeastStored) {
      value.constant = value.constant.to(kFloat32);  // a number of a formula, not a weight
    } else {
      writer.mark(static_cast<std::int32_t>(id));
    }
  }
  writer.run();
  for (OnnxGraph::Port& output : graph.outputs) {
    if (output.dtype == kBFloat16) output.value = writer.cast(output.value, kBFloat16, "the output");
  }
}

void store_weights_in_float16(OnnxGraph& graph) {
  CastWriter writer(graph);
  for (std::size_t id = 0; id < graph.values.size(); ++id) {
    Tensor& constant = graph.values[id].constant;
    const bool is_large = constant.defined() && constant.dtype() == kFloat32 && nbytes(constant) >= kLeastStored;
    if (!is_large || !fits_float16(constant)) continue;
    constant = constant.to(kFloat16);
    writer.mark(static_cast<std::int32_t>(id));
  }
  writer.run();
}

}  // namespace adjoint::nn::detail
