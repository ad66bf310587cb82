// The registry of operators: a row for each public function of ops/, by which operators_test.cpp checks values and
// gradients against PyTorch's, finite differences, every dtype, strides, empty operands, CUDA and bad input.
//
// Inputs and expected values are in tests/fixtures/operators/<family>.json, which make_operators.py writes from
// <family>.py; rows are in operators/<family>.cpp and find them by name. scripts/operators compares both with the
// headers and writes docs/operators.md.
#pragma once

#include <adjoint/core/tensor/tensor.h>
#include <adjoint/tests/support/elementwise_cases.h>

#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <map>
#include <string>
#include <vector>

namespace adjoint::testing {

struct OperatorCase {
  /// The fixture's: the function's name, or "function/variant".
  std::string name;
  /// The results of one call, on inputs of the fixture's shapes.
  std::function<std::vector<Tensor>(const std::vector<Tensor>& in)> call;
  /// Dtypes that inputs may have where the fixture has float64; its int64 and bool inputs keep their dtypes.
  Takes takes = Takes::kFloating;
  /// True if floating-point results have gradients, to the second order.
  bool differentiable = true;
  /// By which float64 results may differ from PyTorch's, relative to 1 + |value|; other dtypes have their own.
  double tolerance = 1e-12;
  /// The number of roundings by which the result of a 16-bit or float32 input may be off.
  double roundings = 4;
};

/// A call that a function must refuse, with the parts of its message.
struct BadCall {
  std::string name;  // the function's, or the operator's that reports it
  std::function<void()> call;
  std::vector<const char*> says;
};

/// One set of inputs, PyTorch's results for them, and the gradients of the sum of results times weights.
struct OperatorExample {
  std::vector<Tensor> inputs, results, weights, gradients;  // an undefined gradient
  bool edge = false;  // infinities, NaN, ties, kinks, signed zeros: no finite differences
};

struct OperatorFamily {
  std::string name;  // the fixture's file
  std::vector<OperatorCase> cases;
  std::vector<BadCall> bad_calls;
};

/// A family a file of operators/.
OperatorFamily classification_operators();
OperatorFamily distance_operators();
OperatorFamily fold_operators();
OperatorFamily gan_operators();
OperatorFamily grid_operators();
OperatorFamily image_operators();
OperatorFamily index_operators();
OperatorFamily loss_operators();
OperatorFamily matmul_operators();
OperatorFamily norm_operators();
OperatorFamily pad_operators();
OperatorFamily elementwise_operators();
OperatorFamily join_operators();
OperatorFamily pool_operators();
OperatorFamily reduce_operators();
OperatorFamily resample_operators();
OperatorFamily scan_operators();
OperatorFamily signal_operators();
OperatorFamily sort_operators();
OperatorFamily view_operators();

const std::vector<OperatorFamily>& operator_families();
/// All families' cases in one list, by which tests are named.
const std::vector<OperatorCase>& operator_cases();
/// Those of the fixtures, by the case's name.
const std::map<std::string, std::vector<OperatorExample>>& operator_examples();
std::vector<OperatorExample> operator_examples(const OperatorCase& c);

std::ostream& operator<<(std::ostream& out, const OperatorCase& c);

}  // namespace adjoint::testing
