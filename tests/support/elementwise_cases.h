// The table of elementwise functions with plain loops to compare them with. The registry of operators
// (operator_cases.h) has its rows too.
#pragma once

#include <adjoint/core/tensor/tensor.h>

#include <iosfwd>
#include <string>
#include <vector>

namespace adjoint::testing {

enum class Takes { kFloating, kNumbers, kEverything };

struct ElementwiseCase {
  std::string name;  // the function's, or "function/variant"
  int arity;
  Takes takes;
  bool exact;        // no rounding on small integers and their quarters: results are compared at tolerance zero
  double low, high;  // operands' range
  bool differentiable;
  Tensor (*call)(const std::vector<Tensor>& in);
  double (*reference)(const double* in);
};

const std::vector<ElementwiseCase>& elementwise_cases();
/// The dtypes that the case accepts.
std::vector<DType> dtypes(Takes takes);
/// Operand number `which`, of `count` values in the case's range that every dtype in `dtype`'s class holds exactly.
std::vector<double> operand_values(const ElementwiseCase& c, DType dtype, std::int64_t count, int which);
/// A rounding function's tolerance, relative to 1 + |value|.
double tolerance(DType dtype);

std::ostream& operator<<(std::ostream& out, const ElementwiseCase& c);

}  // namespace adjoint::testing
