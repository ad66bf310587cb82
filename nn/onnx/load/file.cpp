#include <adjoint/nn/onnx/load/file.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/base/file.h>
#include <adjoint/core/graph/onnx_call.h>
#include <adjoint/nn/onnx/load/operators.h>

#include <onnx/defs/schema.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>
#include <string_view>

namespace adjoint::nn::detail {
namespace {

constexpr std::int64_t kFirstSet = 11, kLastSet = 17;

class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : path_(path) {}

  OnnxFile read() {
    const std::vector<std::uint8_t> bytes = read_file("load_onnx", path_, std::numeric_limits<std::int32_t>::max());
    onnx::ModelProto model;
    if (!model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) || !model.has_graph())
      damaged("it is not a model of ONNX's format");
    read_operator_set(model);
    check_versions(model.graph());
    if (model.functions_size() > 0) damaged("functions of a model's own are not supported; export without them");
    read_graph(model.graph());
    return std::move(file_);
  }

 private:
  [[noreturn]] void damaged(std::string_view reason) const {
    fail("load_onnx: the file must be one that this library can run; got '{}': {}", path_.string(), reason);
  }

  void read_operator_set(const onnx::ModelProto& model) {
    for (const auto& set : model.opset_import()) {
      if (set.domain().empty() || set.domain() == "ai.onnx") file_.operator_set = set.version();
    }
    if (file_.operator_set < 1 || file_.operator_set > kLastSet) wrong_operator_set();
  }

  [[noreturn]] void wrong_operator_set() const {
    damaged(fmt::format("its operator set is {}, and must be from {} to {}; export with opset_version={}",
                        file_.operator_set, kFirstSet, kLastSet, kLastSet));
  }

  // A model of an older set is taken if its operators meant the same in the first, or had no meaning there any more.
  void check_versions(const onnx::GraphProto& graph) {
    if (file_.operator_set >= kFirstSet) return;
    check_versions_of_nodes(graph);
    file_.operator_set = kFirstSet;
  }
  void check_versions_of_nodes(const onnx::GraphProto& graph) const {
    for (const onnx::NodeProto& node : graph.node()) {
      for (const onnx::AttributeProto& attribute : node.attribute()) {
        if (attribute.has_g()) check_versions_of_nodes(attribute.g());
      }
      const auto version = [&](std::int64_t set) {
        const auto* const schema = onnx::OpSchemaRegistry::Schema(node.op_type(), static_cast<int>(set));
        return schema == nullptr || schema->Deprecated() ? 0 : schema->since_version();
      };
      if (version(kFirstSet) == 0) continue;
      if (version(file_.operator_set) != version(kFirstSet)) wrong_operator_set();
    }
  }

  void read_graph(const onnx::GraphProto& graph) {
    file_.constants = constants_of(graph);
    std::set<std::string> constants;
    for (const auto& [name, value] : file_.constants) constants.insert(name);
    for (const onnx::ValueInfoProto& input : graph.input()) {
      if (!constants.contains(input.name())) file_.inputs.push_back(read_input(input));
    }
    for (const onnx::ValueInfoProto& output : graph.output()) file_.outputs.push_back(output.name());
    for (const onnx::NodeProto& node : graph.node()) file_.nodes.push_back(node_of(node));
  }

  OnnxFile::Graph body_of(const onnx::GraphProto& graph) const {
    OnnxFile::Graph body{.inputs = {}, .outputs = {}, .constants = constants_of(graph), .nodes = {}};
    for (const onnx::ValueInfoProto& input : graph.input()) body.inputs.push_back(input.name());
    for (const onnx::ValueInfoProto& output : graph.output()) body.outputs.push_back(output.name());
    for (const onnx::NodeProto& node : graph.node()) body.nodes.push_back(node_of(node));
    return body;
  }

  OnnxFile::Constants constants_of(const onnx::GraphProto& graph) const {
    if (graph.sparse_initializer_size() > 0) damaged("sparse constants are not supported");
    OnnxFile::Constants constants;
    std::set<std::string> names;
    for (const onnx::TensorProto& constant : graph.initializer()) {
      if (constant.name().empty() || !names.insert(constant.name()).second)
        damaged(fmt::format("the name of a constant, \"{}\", is not its own", constant.name()));
      constants.emplace_back(constant.name(), tensor(constant));
    }
    return constants;
  }

  OnnxFile::Input read_input(const onnx::ValueInfoProto& input) const {
    if (!input.type().has_tensor_type()) damaged(fmt::format("the input \"{}\" is not a tensor", input.name()));
    const auto& type = input.type().tensor_type();
    OnnxFile::Input read{.name = input.name(),
                         .dtype = dtype_of_onnx(type.elem_type(), fmt::format("the input \"{}\"", input.name())),
                         .extents = {},
                         .has_shape = type.has_shape()};
    for (const auto& extent : type.shape().dim())
      read.extents.push_back(extent.has_dim_value() ? extent.dim_value() : -1);
    return read;
  }

  OnnxFile::Node node_of(const onnx::NodeProto& node) const {
    OnnxFile::Node read{.type = node.op_type(),
                        .name = !node.name().empty()     ? node.name()
                                : node.output_size() > 0 ? node.output(0)
                                                         : "",
                        .inputs = {node.input().begin(), node.input().end()},
                        .outputs = {node.output().begin(), node.output().end()},
                        .attributes = {},
                        .graphs = {}};
    if (!node.domain().empty() && node.domain() != "ai.onnx")
      damaged(fmt::format("the node '{}' has the operator {} of the domain {}, which is not supported", read.name,
                          read.type, node.domain()));
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.type() == onnx::AttributeProto::GRAPH) {
        read.graphs.emplace(attribute.name(), std::make_shared<const OnnxFile::Graph>(body_of(attribute.g())));
      } else {
        read.attributes.emplace(attribute.name(), value(attribute, read));
      }
    }
    return read;
  }

  OnnxFile::Attribute value(const onnx::AttributeProto& attribute, const OnnxFile::Node& node) const {
    switch (attribute.type()) {
      case onnx::AttributeProto::INT: return std::int64_t{attribute.i()};
      case onnx::AttributeProto::FLOAT: return double{attribute.f()};
      case onnx::AttributeProto::STRING: return attribute.s();
      case onnx::AttributeProto::INTS:
        return std::vector<std::int64_t>(attribute.ints().begin(), attribute.ints().end());
      case onnx::AttributeProto::FLOATS:
        return std::vector<double>(attribute.floats().begin(), attribute.floats().end());
      case onnx::AttributeProto::STRINGS:
        return std::vector<std::string>(attribute.strings().begin(), attribute.strings().end());
      case onnx::AttributeProto::TENSOR: return tensor(attribute.t());
      default:
        damaged(fmt::format("the attribute {} of {} node '{}' is of a kind that is not supported, such as a type",
                            attribute.name(), node.type, node.name));
    }
  }

  // The elements of a second file. Its name must not lead out of the model's folder.
  std::string external(const onnx::TensorProto& proto, std::size_t nbytes) const {
    std::string location;
    std::uint64_t offset = 0, length = nbytes;
    for (const auto& entry : proto.external_data()) {
      try {
        if (entry.key() == "location") location = entry.value();
        if (entry.key() == "offset") offset = std::stoull(entry.value());
        if (entry.key() == "length") length = std::stoull(entry.value());
      } catch (const std::exception&) {
        damaged(fmt::format("the constant \"{}\" has an {} that is no number", proto.name(), entry.key()));
      }
    }
    const std::filesystem::path relative = std::filesystem::path(location).lexically_normal();
    if (location.empty() || relative.is_absolute() || *relative.begin() == "..")
      damaged(
          fmt::format("the constant \"{}\" is in '{}', which is not in the model's folder", proto.name(), location));
    if (length != nbytes)
      damaged(fmt::format("the constant \"{}\" has {} bytes, and its shape {}", proto.name(), length, nbytes));
    InputFile file("load_onnx", path_.parent_path() / relative);
    if (offset > file.size() || nbytes > file.size() - offset)
      damaged(fmt::format("the constant \"{}\" is beyond the end of '{}'", proto.name(), location));
    std::string bytes(1 << 20, '\0');
    const auto read = [&](std::size_t count) {
      if (file.read(bytes.data(), count) != count) damaged(fmt::format("'{}' became shorter", location));
    };
    for (std::uint64_t left = offset; left > 0;) {
      const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(left, bytes.size()));
      read(count);
      left -= count;
    }
    bytes.resize(nbytes);
    read(nbytes);
    return bytes;
  }

  Tensor tensor(const onnx::TensorProto& proto) const {
    const DType dtype = dtype_of_onnx(proto.data_type(), fmt::format("the constant \"{}\"", proto.name()));
    Shape shape;
    std::int64_t numel = 1;
    bool fits = proto.dims_size() <= static_cast<int>(kMaxRank) && !proto.has_segment();
    for (int i = 0; fits && i < proto.dims_size(); ++i) {
      fits = proto.dims(i) >= 0 && !__builtin_mul_overflow(numel, proto.dims(i), &numel);
      shape.push_back(proto.dims(i));
    }
    const std::size_t size = element_size(dtype);
    fits = fits && numel <= std::numeric_limits<std::int64_t>::max() / 8;
    if (!fits) damaged(fmt::format("the constant \"{}\" has a shape that no tensor has", proto.name()));
    const std::size_t nbytes = static_cast<std::size_t>(numel) * size;
    if (proto.data_location() == onnx::TensorProto::EXTERNAL) return from_bytes(external(proto, nbytes), shape, dtype);
    if (proto.has_raw_data()) {
      if (proto.raw_data().size() != nbytes)
        damaged(fmt::format("the constant \"{}\" has {} bytes, and its shape {}", proto.name(), proto.raw_data().size(),
                            nbytes));
      return from_bytes(proto.raw_data(), shape, dtype);
    }
    return from_fields(proto, shape, dtype, numel);
  }

  static Tensor from_bytes(const std::string& bytes, const Shape& shape, DType dtype) {
    Tensor made = Tensor::zeros(shape, {.dtype = dtype});
    if (bytes.empty()) return made;
    auto* const elements = static_cast<char*>(made.raw_mutable_data());
    std::memcpy(elements, bytes.data(), bytes.size());
    if (dtype == kBool)  // any byte but 0 is true
      std::transform(elements, elements + bytes.size(), elements,
                     [](char byte) { return byte != 0 ? char{1} : char{0}; });
    return made;
  }

  Tensor from_fields(const onnx::TensorProto& proto, const Shape& shape, DType dtype, std::int64_t numel) const {
    const auto made = [&](const auto& field) {
      if (field.size() != numel)
        damaged(
            fmt::format("the constant \"{}\" has {} elements, and its shape {}", proto.name(), field.size(), numel));
      using T = typename std::decay_t<decltype(field)>::value_type;
      return std::vector<T>(field.begin(), field.end());
    };
    switch (dtype) {
      case kFloat32: return Tensor::from_vector(made(proto.float_data()), shape);
      case kFloat64: return Tensor::from_vector(made(proto.double_data()), shape);
      case kInt64: {
        const auto field = made(proto.int64_data());
        return Tensor::from_vector(std::vector<std::int64_t>(field.begin(), field.end()), shape);
      }
      default: break;
    }
    // The others are int32s, 16-bit floating-point ones by their bits.
    const auto field = made(proto.int32_data());
    std::string bytes;
    for (const std::int32_t element : field) {
      const auto* const first = reinterpret_cast<const char*>(&element);
      bytes.append(first, first + element_size(dtype));
    }
    return from_bytes(bytes, shape, dtype);
  }

  std::filesystem::path path_;
  OnnxFile file_;
};

}  // namespace

DType dtype_of_onnx(std::int64_t type, std::string_view what) {
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64, kInt32, kInt64, kUInt8, kBool}) {
    if (onnx_type(dtype) == type) return dtype;
  }
  const std::string name = onnx::TensorProto::DataType_IsValid(static_cast<int>(type))
                               ? onnx::TensorProto::DataType_Name(static_cast<onnx::TensorProto::DataType>(type))
                               : std::to_string(type);
  fail("load_onnx: dtypes must be float16, bfloat16, float32, float64, int32, int64, uint8 or bool; got {} of {}", name,
       what);
}

OnnxFile read_onnx(const std::filesystem::path& path) { return Reader(path).read(); }

}  // namespace adjoint::nn::detail
