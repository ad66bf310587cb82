#include <adjoint/tests/support/operator_cases.h>

#include <adjoint/tests/support/fixtures.h>

#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <ostream>
#include <stdexcept>

namespace adjoint::testing {
namespace {

using nlohmann::json;

DType dtype_of(const std::string& name) {
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64, kInt32, kInt64, kUInt8, kBool}) {
    if (to_string(dtype) == name) return dtype;
  }
  throw std::runtime_error("a fixture has the dtype " + name);
}

double number(const json& value) {
  if (value.is_boolean()) return value.get<bool>() ? 1.0 : 0.0;
  if (value.is_number()) return value.get<double>();
  const auto text = value.get<std::string>();
  const double infinity = std::numeric_limits<double>::infinity();
  return text == "inf" ? infinity : text == "-inf" ? -infinity : std::nan("");
}

Tensor tensor(const json& entry) {
  if (entry.is_null()) return {};
  std::vector<double> values;
  for (const json& value : entry["data"]) values.push_back(number(value));
  return Tensor::from_vector<double>(values, Shape(entry["shape"].get<std::vector<std::int64_t>>()),
                                     {.dtype = dtype_of(entry["dtype"])});
}

std::vector<Tensor> tensors(const json& entries) {
  std::vector<Tensor> all;
  for (const json& entry : entries) all.push_back(tensor(entry));
  return all;
}

std::map<std::string, std::vector<OperatorExample>> read_examples() {
  std::map<std::string, std::vector<OperatorExample>> all;
  for (const OperatorFamily& family : operator_families()) {
    std::ifstream file(fixture("operators/" + family.name + ".json"));
    for (const json& entry : json::parse(file)) {
      all[entry["name"]].push_back({tensors(entry["inputs"]), tensors(entry["results"]), tensors(entry["weights"]),
                                    tensors(entry["gradients"]), entry["edge"]});
    }
  }
  return all;
}

}  // namespace

const std::vector<OperatorFamily>& operator_families() {
  static const std::vector<OperatorFamily> all = {
      classification_operators(), elementwise_operators(), distance_operators(), fold_operators(), gan_operators(),
      grid_operators(),           image_operators(),       index_operators(),    join_operators(), loss_operators(),
      matmul_operators(),         norm_operators(),        pad_operators(),      pool_operators(), reduce_operators(),
      resample_operators(),       scan_operators(),        signal_operators(),   sort_operators(), view_operators()};
  return all;
}

const std::vector<OperatorCase>& operator_cases() {
  static const std::vector<OperatorCase> all = [] {
    std::vector<OperatorCase> cases;
    for (const OperatorFamily& family : operator_families()) {
      cases.insert(cases.end(), family.cases.begin(), family.cases.end());
    }
    return cases;
  }();
  return all;
}

const std::map<std::string, std::vector<OperatorExample>>& operator_examples() {
  static const std::map<std::string, std::vector<OperatorExample>> all = read_examples();
  return all;
}

std::vector<OperatorExample> operator_examples(const OperatorCase& c) {
  const auto found = operator_examples().find(c.name);
  return found == operator_examples().end() ? std::vector<OperatorExample>{} : found->second;
}

std::ostream& operator<<(std::ostream& out, const OperatorCase& c) { return out << c.name; }

}  // namespace adjoint::testing
