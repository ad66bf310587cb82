#include <adjoint/nn/onnx/save/model.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/base/file.h>

#include <onnx/checker.h>
#include <onnx/onnx_pb.h>
#include <onnx/shape_inference/implementation.h>

#include <cstdint>
#include <exception>
#include <limits>
#include <optional>
#include <string>

namespace adjoint::nn::detail {
namespace {

constexpr std::int64_t kIrVersion = 8;  // the file format of operator set 17
constexpr std::int64_t kOperatorSet = 17;
constexpr std::size_t kLeastExternal = 1024;  // bytes

std::string bytes_of(const Tensor& constant) {
  const Tensor packed = constant.to(kCPU).contiguous();
  const std::size_t nbytes = static_cast<std::size_t>(packed.numel()) * element_size(packed.dtype());
  return nbytes == 0 ? std::string() : std::string(static_cast<const char*>(packed.raw_data()), nbytes);
}

// The second file, with the elements of large constants. Each begins at a multiple of 4096 bytes, so that it can be
// mapped.
class ExternalData {
 public:
  explicit ExternalData(const std::filesystem::path& model)
      : name_(model.filename().string() + ".data"), file_("save_onnx", model.parent_path() / name_) {}

  void add(const std::string& bytes, onnx::TensorProto& tensor) {
    constexpr std::size_t kAlignment = 4096;
    const std::string padding((kAlignment - end_ % kAlignment) % kAlignment, '\0');
    file_.write(padding);
    end_ += padding.size();
    tensor.set_data_location(onnx::TensorProto::EXTERNAL);
    const auto entry = [&](const char* key, const std::string& value) {
      auto* const added = tensor.add_external_data();
      added->set_key(key);
      added->set_value(value);
    };
    entry("location", name_);
    entry("offset", std::to_string(end_));
    entry("length", std::to_string(bytes.size()));
    file_.write(bytes);
    end_ += bytes.size();
  }
  void commit() { file_.commit(); }

 private:
  std::string name_;
  AtomicFile file_;
  std::size_t end_ = 0;
};

void set_tensor(const Tensor& from, onnx::TensorProto& to, ExternalData* external) {
  to.set_data_type(static_cast<std::int32_t>(onnx_type(from.dtype())));
  for (const std::int64_t extent : from.shape()) to.add_dims(extent);
  std::string bytes = bytes_of(from);
  if (external != nullptr && bytes.size() >= kLeastExternal) {
    external->add(bytes, to);
  } else {
    to.set_raw_data(std::move(bytes));
  }
}

void set_attribute(const std::string& name, const decltype(OnnxAttribute::value)& value, onnx::AttributeProto& to) {
  to.set_name(name);
  if (const auto* const i = std::get_if<std::int64_t>(&value)) {
    to.set_type(onnx::AttributeProto::INT);
    to.set_i(*i);
  } else if (const auto* const f = std::get_if<double>(&value)) {
    to.set_type(onnx::AttributeProto::FLOAT);
    to.set_f(static_cast<float>(*f));
  } else if (const auto* const s = std::get_if<std::string>(&value)) {
    to.set_type(onnx::AttributeProto::STRING);
    to.set_s(*s);
  } else if (const auto* const ints = std::get_if<std::vector<std::int64_t>>(&value)) {
    to.set_type(onnx::AttributeProto::INTS);
    for (const std::int64_t number : *ints) to.add_ints(number);
  } else {
    to.set_type(onnx::AttributeProto::TENSOR);
    set_tensor(std::get<Tensor>(value), *to.mutable_t(), nullptr);
  }
}

void set_port(const OnnxGraph& graph, const OnnxGraph::Port& port, onnx::ValueInfoProto& to) {
  to.set_name(graph.values[static_cast<std::size_t>(port.value)].name);
  auto* const type = to.mutable_type()->mutable_tensor_type();
  type->set_elem_type(static_cast<std::int32_t>(onnx_type(port.dtype)));
  auto* const shape = type->mutable_shape();  // an empty shape means a tensor without axes
  for (std::size_t axis = 0; axis < port.shape.size(); ++axis) {
    auto* const extent = shape->add_dim();
    if (axis < port.axes.size() && !port.axes[axis].empty()) {
      extent->set_dim_param(port.axes[axis]);
    } else {
      extent->set_dim_value(port.shape[axis]);
    }
  }
}

onnx::ModelProto model_of(const OnnxGraph& graph, ExternalData* external) {
  onnx::ModelProto model;
  model.set_ir_version(kIrVersion);
  model.set_producer_name("Adjoint");
  auto* const operators = model.add_opset_import();
  operators->set_domain("");
  operators->set_version(kOperatorSet);
  onnx::GraphProto& to = *model.mutable_graph();
  to.set_name("network");
  for (const OnnxGraph::Port& input : graph.inputs) set_port(graph, input, *to.add_input());
  for (const OnnxGraph::Port& output : graph.outputs) set_port(graph, output, *to.add_output());
  for (const OnnxGraph::Value& value : graph.values) {
    if (!value.constant.defined()) continue;
    onnx::TensorProto& constant = *to.add_initializer();
    constant.set_name(value.name);
    set_tensor(value.constant, constant, external);
  }
  const auto name_of = [&](std::int32_t id) {
    return id < 0 ? std::string() : graph.values[static_cast<std::size_t>(id)].name;
  };
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const OnnxGraph::Node& node = graph.nodes[i];
    onnx::NodeProto& made = *to.add_node();
    made.set_name(fmt::format("{}_{}", node.type, i));
    made.set_op_type(node.type);
    made.set_doc_string(node.made_by);
    for (const std::int32_t id : node.inputs) made.add_input(name_of(id));
    for (const std::int32_t id : node.outputs) made.add_output(name_of(id));
    for (const auto& [name, value] : node.attributes) set_attribute(name, value, *made.add_attribute());
  }
  return model;
}

}  // namespace

void write_onnx(const std::filesystem::path& path, const OnnxGraph& graph, bool external_data) {
  std::optional<ExternalData> external;
  if (external_data) external.emplace(path);
  AtomicFile file("save_onnx", path);
  onnx::ModelProto model = model_of(graph, external ? &*external : nullptr);
  constexpr std::size_t kMostBytes = std::numeric_limits<std::int32_t>::max();
  ADJOINT_CHECK(model.ByteSizeLong() <= kMostBytes,
                "save_onnx: a file must have fewer than 2^31 bytes; got {}; set .external_data", model.ByteSizeLong());
  try {
    // Elements in another file cannot be read before that file is in its place.
    if (!external) onnx::checker::check_model(model);
    onnx::shape_inference::InferShapes(model, onnx::OpSchemaRegistry::Instance(), {true, 1, false});
  } catch (const std::exception& error) {
    fail("save_onnx: ONNX's checker must accept the network; got: {}", error.what());
  }
  std::string bytes;
  ADJOINT_CHECK(model.SerializeToString(&bytes), "save_onnx: a file must have fewer than 2^31 bytes; got {}",
                model.ByteSizeLong());
  file.write(bytes);
  if (external) external->commit();
  file.commit();
}

}  // namespace adjoint::nn::detail
