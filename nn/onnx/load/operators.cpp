#include <adjoint/nn/onnx/load/operators.h>

#include <adjoint/core/base/check.h>

#include <unordered_map>

namespace adjoint::nn::detail {
namespace {

// An attribute of type T, or null.
template <class T>
const T* attribute(const OnnxArgs& args, const char* name) {
  const auto found = args.node.attributes.find(name);
  if (found == args.node.attributes.end()) return nullptr;
  const T* const value = std::get_if<T>(&found->second);
  if (value == nullptr) args.refuse(fmt::format("its attribute {} has a wrong type", name));
  return value;
}

}  // namespace

const Tensor& OnnxArgs::operator[](std::size_t i) const {
  if (!has(i)) refuse(fmt::format("its input {} is missing", i));
  return in[i];
}

std::int64_t OnnxArgs::integer(const char* name, std::int64_t otherwise) const {
  const auto* const value = attribute<std::int64_t>(*this, name);
  return value != nullptr ? *value : otherwise;
}
double OnnxArgs::number(const char* name, double otherwise) const {
  const auto* const value = attribute<double>(*this, name);
  return value != nullptr ? *value : otherwise;
}
std::string OnnxArgs::text(const char* name, std::string_view otherwise) const {
  const auto* const value = attribute<std::string>(*this, name);
  return value != nullptr ? *value : std::string(otherwise);
}
std::vector<std::int64_t> OnnxArgs::integers(const char* name, const std::vector<std::int64_t>& otherwise) const {
  const auto* const value = attribute<std::vector<std::int64_t>>(*this, name);
  return value != nullptr ? *value : otherwise;
}
std::vector<double> OnnxArgs::numbers(const char* name, const std::vector<double>& otherwise) const {
  const auto* const value = attribute<std::vector<double>>(*this, name);
  return value != nullptr ? *value : otherwise;
}

std::vector<std::string> OnnxArgs::texts(const char* name, const std::vector<std::string>& otherwise) const {
  const auto* const value = attribute<std::vector<std::string>>(*this, name);
  return value != nullptr ? *value : otherwise;
}
Tensor OnnxArgs::tensor(const char* name) const {
  const auto* const value = attribute<Tensor>(*this, name);
  return value != nullptr ? *value : Tensor();
}

std::vector<std::int64_t> OnnxArgs::host_integers(std::size_t i) const {
  const Tensor& x = (*this)[i];
  if (is_floating_point(x.dtype()) || x.dim() > 1) refuse(fmt::format("its input {} must be integers of one axis", i));
  return x.to(kInt64).to_vector<std::int64_t>();
}
std::vector<double> OnnxArgs::host_numbers(std::size_t i) const { return (*this)[i].to(kFloat64).to_vector<double>(); }

std::int64_t OnnxArgs::host_integer(std::size_t i) const {
  const std::vector<std::int64_t> given = host_integers(i);
  if (given.size() != 1) refuse(fmt::format("its input {} must be one integer; got {}", i, (*this)[i].shape()));
  return given[0];
}

std::vector<std::int64_t> OnnxArgs::axes(const char* name, std::size_t i) const {
  return has(i) ? host_integers(i) : integers(name);
}

std::int64_t OnnxArgs::axis_of(std::int64_t given, std::int64_t rank) const {
  if (given < -rank || given >= rank) refuse(fmt::format("its axis must be in [{}, {}); got {}", -rank, rank, given));
  return given < 0 ? given + rank : given;
}

void OnnxArgs::refuse(const std::string& reason) const {
  fail("load_onnx: nodes must be supported; got {} node '{}': {}", node.type, node.name, reason);
}

const OnnxOperator* find_onnx_operator(std::string_view type) {
  static const auto all = [] {
    std::unordered_map<std::string_view, const OnnxOperator*> map;
    for (const auto table :
         {onnx_activation_operators(), onnx_index_operators(), onnx_layer_operators(), onnx_math_operators(),
          onnx_norm_operators(), onnx_product_operators(), onnx_random_operators(), onnx_recurrent_operators(),
          onnx_reduce_operators(), onnx_resize_operators(), onnx_shape_operators(), onnx_signal_operators()}) {
      for (const OnnxOperator& op : table) map.emplace(op.type, &op);
    }
    return map;
  }();
  const auto found = all.find(type);
  return found == all.end() ? nullptr : found->second;
}

}  // namespace adjoint::nn::detail
