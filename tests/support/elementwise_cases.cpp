#include <adjoint/tests/support/elementwise_cases.h>

#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/tests/support/values.h>

#include <algorithm>
#include <cmath>
#include <ostream>

namespace adjoint::testing {
namespace {

using In = const std::vector<Tensor>&;
using Ref = const double*;
constexpr auto kF = Takes::kFloating;
constexpr auto kN = Takes::kNumbers;
constexpr auto kE = Takes::kEverything;

double sigmoid_of(double x) { return 1.0 / (1.0 + std::exp(-x)); }

}  // namespace

const std::vector<ElementwiseCase>& elementwise_cases() {
  static const std::vector<ElementwiseCase> cases = {
      {"add", 2, kN, true, -4, 4, true, [](In in) { return in[0] + in[1]; }, [](Ref x) { return x[0] + x[1]; }},
      {"sub", 2, kN, true, -4, 4, true, [](In in) { return in[0] - in[1]; }, [](Ref x) { return x[0] - x[1]; }},
      {"mul", 2, kN, true, -4, 4, true, [](In in) { return in[0] * in[1]; }, [](Ref x) { return x[0] * x[1]; }},
      {"div", 2, kF, false, 1, 4, true, [](In in) { return in[0] / in[1]; }, [](Ref x) { return x[0] / x[1]; }},
      {"neg", 1, kN, true, -4, 4, true, [](In in) { return -in[0]; }, [](Ref x) { return -x[0]; }},
      {"add_scalar", 1, kN, true, -4, 4, true, [](In in) { return in[0] + 3.0; }, [](Ref x) { return x[0] + 3.0; }},
      {"scalar_add", 1, kN, true, -4, 4, true, [](In in) { return 3.0 + in[0]; }, [](Ref x) { return x[0] + 3.0; }},
      {"sub_scalar", 1, kN, true, -4, 4, true, [](In in) { return in[0] - 3.0; }, [](Ref x) { return x[0] - 3.0; }},
      {"scalar_sub", 1, kN, true, -4, 4, true, [](In in) { return 3.0 - in[0]; }, [](Ref x) { return 3.0 - x[0]; }},
      {"mul_scalar", 1, kN, true, -4, 4, true, [](In in) { return in[0] * 3.0; }, [](Ref x) { return x[0] * 3.0; }},
      {"scalar_mul", 1, kN, true, -4, 4, true, [](In in) { return 3.0 * in[0]; }, [](Ref x) { return x[0] * 3.0; }},
      {"div_scalar", 1, kF, false, -4, 4, true, [](In in) { return in[0] / 3.0; }, [](Ref x) { return x[0] / 3.0; }},
      {"scalar_div", 1, kF, false, 1, 4, true, [](In in) { return 3.0 / in[0]; }, [](Ref x) { return 3.0 / x[0]; }},
      {"abs", 1, kN, true, -4, 4, true, [](In in) { return abs(in[0]); }, [](Ref x) { return std::fabs(x[0]); }},
      {"sign", 1, kN, true, -4, 4, true, [](In in) { return sign(in[0]); },
       [](Ref x) { return x[0] > 0   ? 1.0
                          : x[0] < 0 ? -1.0
                                     : 0.0; }},
      {"square", 1, kN, true, -4, 4, true, [](In in) { return square(in[0]); }, [](Ref x) { return x[0] * x[0]; }},
      {"clamp", 1, kN, true, -4, 4, true, [](In in) { return clamp(in[0], 1.0, 3.0); },
       [](Ref x) { return std::min(std::max(x[0], 1.0), 3.0); }},
      {"clamp_min", 1, kN, true, -4, 4, true, [](In in) { return clamp_min(in[0], 1.0); },
       [](Ref x) { return std::max(x[0], 1.0); }},
      {"clamp_max", 1, kN, true, -4, 4, true, [](In in) { return clamp_max(in[0], 1.0); },
       [](Ref x) { return std::min(x[0], 1.0); }},
      {"relu", 1, kN, true, -4, 4, true, [](In in) { return relu(in[0]); }, [](Ref x) { return std::max(x[0], 0.0); }},
      {"exp", 1, kF, false, -4, 4, true, [](In in) { return exp(in[0]); }, [](Ref x) { return std::exp(x[0]); }},
      {"log", 1, kF, false, 0.25, 4, true, [](In in) { return log(in[0]); }, [](Ref x) { return std::log(x[0]); }},
      {"sqrt", 1, kF, false, 0.25, 4, true, [](In in) { return sqrt(in[0]); }, [](Ref x) { return std::sqrt(x[0]); }},
      {"sin", 1, kF, false, -4, 4, true, [](In in) { return sin(in[0]); }, [](Ref x) { return std::sin(x[0]); }},
      {"cos", 1, kF, false, -4, 4, true, [](In in) { return cos(in[0]); }, [](Ref x) { return std::cos(x[0]); }},
      {"pow_2", 1, kF, true, -4, 4, true, [](In in) { return pow(in[0], 2.0); }, [](Ref x) { return x[0] * x[0]; }},
      {"pow_3", 1, kF, false, -2, 2, true, [](In in) { return pow(in[0], 3.0); },
       [](Ref x) { return x[0] * x[0] * x[0]; }},
      {"pow_negative", 1, kF, false, 0.5, 4, true, [](In in) { return pow(in[0], -1.5); },
       [](Ref x) { return std::pow(x[0], -1.5); }},
      {"pow_0", 1, kF, true, -4, 4, true, [](In in) { return pow(in[0], 0.0); }, [](Ref) { return 1.0; }},
      {"pow", 2, kF, false, 0.5, 3, true, [](In in) { return pow(in[0], in[1]); },
       [](Ref x) { return std::pow(x[0], x[1]); }},
      {"minimum", 2, kE, true, -4, 4, true, [](In in) { return minimum(in[0], in[1]); },
       [](Ref x) { return std::min(x[0], x[1]); }},
      {"maximum", 2, kE, true, -4, 4, true, [](In in) { return maximum(in[0], in[1]); },
       [](Ref x) { return std::max(x[0], x[1]); }},
      {"leaky_relu", 1, kF, true, -4, 4, true, [](In in) { return leaky_relu(in[0], 0.5); },
       [](Ref x) { return x[0] > 0 ? x[0] : 0.5 * x[0]; }},
      {"sigmoid", 1, kF, false, -4, 4, true, [](In in) { return sigmoid(in[0]); },
       [](Ref x) { return sigmoid_of(x[0]); }},
      {"tanh", 1, kF, false, -4, 4, true, [](In in) { return tanh(in[0]); }, [](Ref x) { return std::tanh(x[0]); }},
      {"silu", 1, kF, false, -4, 4, true, [](In in) { return silu(in[0]); },
       [](Ref x) { return x[0] * sigmoid_of(x[0]); }},
      {"softplus", 1, kF, false, -4, 4, true, [](In in) { return softplus(in[0]); },
       [](Ref x) { return std::log(1.0 + std::exp(x[0])); }},
      {"eq", 2, kE, true, -4, 4, false, [](In in) { return in[0] == in[1]; },
       [](Ref x) { return x[0] == x[1] ? 1.0 : 0.0; }},
      {"ne", 2, kE, true, -4, 4, false, [](In in) { return in[0] != in[1]; },
       [](Ref x) { return x[0] != x[1] ? 1.0 : 0.0; }},
      {"lt", 2, kE, true, -4, 4, false, [](In in) { return in[0] < in[1]; },
       [](Ref x) { return x[0] < x[1] ? 1.0 : 0.0; }},
      {"le", 2, kE, true, -4, 4, false, [](In in) { return in[0] <= in[1]; },
       [](Ref x) { return x[0] <= x[1] ? 1.0 : 0.0; }},
      {"gt", 2, kE, true, -4, 4, false, [](In in) { return in[0] > in[1]; },
       [](Ref x) { return x[0] > x[1] ? 1.0 : 0.0; }},
      {"ge", 2, kE, true, -4, 4, false, [](In in) { return in[0] >= in[1]; },
       [](Ref x) { return x[0] >= x[1] ? 1.0 : 0.0; }},
      {"eq_scalar", 1, kE, true, -4, 4, false, [](In in) { return in[0] == 1.0; },
       [](Ref x) { return x[0] == 1.0 ? 1.0 : 0.0; }},
      {"ne_scalar", 1, kE, true, -4, 4, false, [](In in) { return in[0] != 1.0; },
       [](Ref x) { return x[0] != 1.0 ? 1.0 : 0.0; }},
      {"lt_scalar", 1, kE, true, -4, 4, false, [](In in) { return in[0] < 1.0; },
       [](Ref x) { return x[0] < 1.0 ? 1.0 : 0.0; }},
      {"le_scalar", 1, kE, true, -4, 4, false, [](In in) { return in[0] <= 1.0; },
       [](Ref x) { return x[0] <= 1.0 ? 1.0 : 0.0; }},
      {"gt_scalar", 1, kE, true, -4, 4, false, [](In in) { return in[0] > 1.0; },
       [](Ref x) { return x[0] > 1.0 ? 1.0 : 0.0; }},
      {"ge_scalar", 1, kE, true, -4, 4, false, [](In in) { return in[0] >= 1.0; },
       [](Ref x) { return x[0] >= 1.0 ? 1.0 : 0.0; }},
      {"where", 3, kE, true, -4, 4, true, [](In in) { return where(in[0] > 0.0, in[1], in[2]); },
       [](Ref x) { return x[0] > 0.0 ? x[1] : x[2]; }},
  };
  return cases;
}

std::vector<DType> dtypes(Takes takes) {
  switch (takes) {
    case Takes::kFloating: return {kFloat16, kBFloat16, kFloat32, kFloat64};
    case Takes::kNumbers: return {kFloat16, kBFloat16, kFloat32, kFloat64, kInt32, kInt64, kUInt8};
    default: return {kFloat16, kBFloat16, kFloat32, kFloat64, kInt32, kInt64, kUInt8, kBool};
  }
}

std::vector<double> operand_values(const ElementwiseCase& c, DType dtype, std::int64_t count, int which) {
  const double step = is_floating_point(dtype) ? 0.25 : 1.0;
  const bool is_unsigned = dtype == kUInt8 || dtype == kBool;
  const double low = is_unsigned ? 0.0 : c.low;
  const double high = dtype == kBool ? 1.0 : c.high;
  std::vector<double> values = reals(count, 100 + static_cast<std::uint64_t>(which));
  for (double& value : values) value = low + step * std::floor((value + 1.0) / 2.0 * ((high - low) / step + 1.0));
  return values;
}

double tolerance(DType dtype) {
  switch (dtype) {
    case kFloat16: return 0x1p-11;
    case kBFloat16: return 0x1p-8;
    case kFloat32: return 0x1p-22;
    default: return 0x1p-50;
  }
}

std::ostream& operator<<(std::ostream& out, const ElementwiseCase& c) { return out << c.name; }

}  // namespace adjoint::testing
