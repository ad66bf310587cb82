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

double gelu_tanh_of(double x) {
  return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
}

}  // namespace

const std::vector<ElementwiseCase>& elementwise_cases() {
  static const std::vector<ElementwiseCase> cases = {
      {"add", 2, kN, true, -4, 4, true, [](In in) { return in[0] + in[1]; }, [](Ref x) { return x[0] + x[1]; }},
      {"sub", 2, kN, true, -4, 4, true, [](In in) { return in[0] - in[1]; }, [](Ref x) { return x[0] - x[1]; }},
      {"mul", 2, kN, true, -4, 4, true, [](In in) { return in[0] * in[1]; }, [](Ref x) { return x[0] * x[1]; }},
      {"div", 2, kF, false, 1, 4, true, [](In in) { return in[0] / in[1]; }, [](Ref x) { return x[0] / x[1]; }},
      {"neg", 1, kN, true, -4, 4, true, [](In in) { return -in[0]; }, [](Ref x) { return -x[0]; }},
      {"add/scalar", 1, kN, true, -4, 4, true, [](In in) { return in[0] + 3; }, [](Ref x) { return x[0] + 3.0; }},
      {"add/of_scalar", 1, kN, true, -4, 4, true, [](In in) { return 3 + in[0]; }, [](Ref x) { return x[0] + 3.0; }},
      {"sub/scalar", 1, kN, true, -4, 4, true, [](In in) { return in[0] - 3; }, [](Ref x) { return x[0] - 3.0; }},
      {"sub/of_scalar", 1, kN, true, -4, 4, true, [](In in) { return 3 - in[0]; }, [](Ref x) { return 3.0 - x[0]; }},
      {"mul/scalar", 1, kN, true, -4, 4, true, [](In in) { return in[0] * 3; }, [](Ref x) { return x[0] * 3.0; }},
      {"mul/of_scalar", 1, kN, true, -4, 4, true, [](In in) { return 3 * in[0]; }, [](Ref x) { return x[0] * 3.0; }},
      {"div/scalar", 1, kF, false, -4, 4, true, [](In in) { return in[0] / 3.0; }, [](Ref x) { return x[0] / 3.0; }},
      {"div/of_scalar", 1, kF, false, 1, 4, true, [](In in) { return 3.0 / in[0]; }, [](Ref x) { return 3.0 / x[0]; }},
      {"abs", 1, kN, true, -4, 4, true, [](In in) { return abs(in[0]); }, [](Ref x) { return std::fabs(x[0]); }},
      {"sign", 1, kN, true, -4, 4, true, [](In in) { return sign(in[0]); },
       [](Ref x) { return x[0] > 0   ? 1.0
                          : x[0] < 0 ? -1.0
                                     : 0.0; }},
      {"square", 1, kN, true, -4, 4, true, [](In in) { return square(in[0]); }, [](Ref x) { return x[0] * x[0]; }},
      {"clamp", 1, kN, true, -4, 4, true, [](In in) { return clamp(in[0], 1, 3); },
       [](Ref x) { return std::min(std::max(x[0], 1.0), 3.0); }},
      {"clamp_min", 1, kN, true, -4, 4, true, [](In in) { return clamp_min(in[0], 1); },
       [](Ref x) { return std::max(x[0], 1.0); }},
      {"clamp_max", 1, kN, true, -4, 4, true, [](In in) { return clamp_max(in[0], 1); },
       [](Ref x) { return std::min(x[0], 1.0); }},
      {"relu", 1, kN, true, -4, 4, true, [](In in) { return relu(in[0]); }, [](Ref x) { return std::max(x[0], 0.0); }},
      {"exp", 1, kF, false, -4, 4, true, [](In in) { return exp(in[0]); }, [](Ref x) { return std::exp(x[0]); }},
      {"log", 1, kF, false, 0.25, 4, true, [](In in) { return log(in[0]); }, [](Ref x) { return std::log(x[0]); }},
      {"sqrt", 1, kF, false, 0.25, 4, true, [](In in) { return sqrt(in[0]); }, [](Ref x) { return std::sqrt(x[0]); }},
      {"sin", 1, kF, false, -4, 4, true, [](In in) { return sin(in[0]); }, [](Ref x) { return std::sin(x[0]); }},
      {"cos", 1, kF, false, -4, 4, true, [](In in) { return cos(in[0]); }, [](Ref x) { return std::cos(x[0]); }},
      {"pow/2", 1, kF, true, -4, 4, true, [](In in) { return pow(in[0], 2.0); }, [](Ref x) { return x[0] * x[0]; }},
      {"pow/3", 1, kF, false, -2, 2, true, [](In in) { return pow(in[0], 3.0); },
       [](Ref x) { return x[0] * x[0] * x[0]; }},
      {"pow/negative", 1, kF, false, 0.5, 4, true, [](In in) { return pow(in[0], -1.5); },
       [](Ref x) { return std::pow(x[0], -1.5); }},
      {"pow/0", 1, kF, true, -4, 4, true, [](In in) { return pow(in[0], 0.0); }, [](Ref) { return 1.0; }},
      {"pow", 2, kF, false, 0.5, 3, true, [](In in) { return pow(in[0], in[1]); },
       [](Ref x) { return std::pow(x[0], x[1]); }},
      {"pow/of_scalar", 1, kF, false, -4, 4, true, [](In in) { return pow(2.0, in[0]); },
       [](Ref x) { return std::exp2(x[0]); }},
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
      {"eq/scalar", 1, kE, true, -4, 4, false, [](In in) { return in[0] == 1.0; },
       [](Ref x) { return x[0] == 1.0 ? 1.0 : 0.0; }},
      {"ne/scalar", 1, kE, true, -4, 4, false, [](In in) { return in[0] != 1.0; },
       [](Ref x) { return x[0] != 1.0 ? 1.0 : 0.0; }},
      {"lt/scalar", 1, kE, true, -4, 4, false, [](In in) { return in[0] < 1.0; },
       [](Ref x) { return x[0] < 1.0 ? 1.0 : 0.0; }},
      {"le/scalar", 1, kE, true, -4, 4, false, [](In in) { return in[0] <= 1.0; },
       [](Ref x) { return x[0] <= 1.0 ? 1.0 : 0.0; }},
      {"gt/scalar", 1, kE, true, -4, 4, false, [](In in) { return in[0] > 1.0; },
       [](Ref x) { return x[0] > 1.0 ? 1.0 : 0.0; }},
      {"ge/scalar", 1, kE, true, -4, 4, false, [](In in) { return in[0] >= 1.0; },
       [](Ref x) { return x[0] >= 1.0 ? 1.0 : 0.0; }},
      {"where", 3, kE, true, -4, 4, true, [](In in) { return where(in[0] > 0.0, in[1], in[2]); },
       [](Ref x) { return x[0] > 0.0 ? x[1] : x[2]; }},
      {"expm1", 1, kF, false, -4, 4, true, [](In in) { return expm1(in[0]); }, [](Ref x) { return std::expm1(x[0]); }},
      {"log1p", 1, kF, false, -0.75, 4, true, [](In in) { return log1p(in[0]); },
       [](Ref x) { return std::log1p(x[0]); }},
      {"log2", 1, kF, false, 0.25, 4, true, [](In in) { return log2(in[0]); }, [](Ref x) { return std::log2(x[0]); }},
      {"rsqrt", 1, kF, false, 0.25, 4, true, [](In in) { return rsqrt(in[0]); },
       [](Ref x) { return 1.0 / std::sqrt(x[0]); }},
      {"reciprocal", 1, kF, false, 0.25, 4, true, [](In in) { return reciprocal(in[0]); },
       [](Ref x) { return 1.0 / x[0]; }},
      {"tan", 1, kF, false, -1.25, 1.25, true, [](In in) { return tan(in[0]); }, [](Ref x) { return std::tan(x[0]); }},
      {"asin", 1, kF, false, -0.75, 0.75, true, [](In in) { return asin(in[0]); },
       [](Ref x) { return std::asin(x[0]); }},
      {"acos", 1, kF, false, -0.75, 0.75, true, [](In in) { return acos(in[0]); },
       [](Ref x) { return std::acos(x[0]); }},
      {"atan", 1, kF, false, -4, 4, true, [](In in) { return atan(in[0]); }, [](Ref x) { return std::atan(x[0]); }},
      {"sinh", 1, kF, false, -4, 4, true, [](In in) { return sinh(in[0]); }, [](Ref x) { return std::sinh(x[0]); }},
      {"cosh", 1, kF, false, -4, 4, true, [](In in) { return cosh(in[0]); }, [](Ref x) { return std::cosh(x[0]); }},
      {"erf", 1, kF, false, -4, 4, true, [](In in) { return erf(in[0]); }, [](Ref x) { return std::erf(x[0]); }},
      {"floor", 1, kN, true, -4, 4, true, [](In in) { return floor(in[0]); }, [](Ref x) { return std::floor(x[0]); }},
      {"ceil", 1, kN, true, -4, 4, true, [](In in) { return ceil(in[0]); }, [](Ref x) { return std::ceil(x[0]); }},
      {"trunc", 1, kN, true, -4, 4, true, [](In in) { return trunc(in[0]); }, [](Ref x) { return std::trunc(x[0]); }},
      {"round", 1, kN, true, -4, 4, true, [](In in) { return round(in[0]); },
       [](Ref x) { return std::nearbyint(x[0]); }},
      {"atan2", 2, kF, false, 0.5, 4, true, [](In in) { return atan2(in[0], in[1]); },
       [](Ref x) { return std::atan2(x[0], x[1]); }},
      {"fmod", 2, kN, true, -4, 4, true, [](In in) { return fmod(in[0], in[1] + 5); },
       [](Ref x) { return std::fmod(x[0], x[1] + 5.0); }},
      {"fmod/scalar", 1, kN, true, -4, 4, true, [](In in) { return fmod(in[0], 3); },
       [](Ref x) { return std::fmod(x[0], 3.0); }},
      {"remainder", 2, kN, true, -4, 4, true, [](In in) { return remainder(in[0], in[1] + 5); },
       [](Ref x) { return x[0] - std::floor(x[0] / (x[1] + 5.0)) * (x[1] + 5.0); }},
      {"remainder/scalar", 1, kN, true, -4, 4, true, [](In in) { return remainder(in[0], 3); },
       [](Ref x) { return x[0] - std::floor(x[0] / 3.0) * 3.0; }},
      {"lerp", 3, kF, false, -4, 4, true, [](In in) { return lerp(in[0], in[1], in[2]); },
       [](Ref x) { return x[0] + x[2] * (x[1] - x[0]); }},
      {"lerp/scalar", 2, kF, false, -4, 4, true, [](In in) { return lerp(in[0], in[1], 0.25); },
       [](Ref x) { return x[0] + 0.25 * (x[1] - x[0]); }},
      {"relu6", 1, kF, true, -4, 4, true, [](In in) { return relu6(in[0]); },
       [](Ref x) { return std::min(std::max(x[0], 0.0), 6.0); }},
      {"hardtanh", 1, kF, true, -4, 4, true, [](In in) { return hardtanh(in[0]); },
       [](Ref x) { return std::min(std::max(x[0], -1.0), 1.0); }},
      {"elu", 1, kF, false, -4, 4, true, [](In in) { return elu(in[0], 1.5); },
       [](Ref x) { return x[0] > 0 ? x[0] : 1.5 * std::expm1(x[0]); }},
      {"selu", 1, kF, false, -4, 4, true, [](In in) { return selu(in[0]); },
       [](Ref x) { return 1.0507009873554805 * (x[0] > 0 ? x[0] : 1.6732632423543772 * std::expm1(x[0])); }},
      {"gelu", 1, kF, false, -4, 4, true, [](In in) { return gelu(in[0]); },
       [](Ref x) { return x[0] * 0.5 * std::erfc(-x[0] / std::sqrt(2.0)); }},
      {"gelu_tanh", 1, kF, false, -4, 4, true, [](In in) { return gelu_tanh(in[0]); },
       [](Ref x) { return gelu_tanh_of(x[0]); }},
      {"softplus/parameters", 1, kF, false, -4, 4, true, [](In in) { return softplus(in[0], 2.0, 5.0); },
       [](Ref x) { return x[0] > 2.5 ? x[0] : std::log1p(std::exp(2.0 * x[0])) / 2.0; }},
      {"logsigmoid", 1, kF, false, -4, 4, true, [](In in) { return logsigmoid(in[0]); },
       [](Ref x) { return std::log(sigmoid_of(x[0])); }},
      {"softsign", 1, kF, false, -4, 4, true, [](In in) { return softsign(in[0]); },
       [](Ref x) { return x[0] / (1.0 + std::fabs(x[0])); }},
      {"mish", 1, kF, false, -4, 4, true, [](In in) { return mish(in[0]); },
       [](Ref x) { return x[0] * std::tanh(std::log1p(std::exp(x[0]))); }},
      {"hardsigmoid", 1, kF, false, -4, 4, true, [](In in) { return hardsigmoid(in[0]); },
       [](Ref x) { return std::min(std::max(x[0] + 3.0, 0.0), 6.0) / 6.0; }},
      {"hardswish", 1, kF, false, -4, 4, true, [](In in) { return hardswish(in[0]); },
       [](Ref x) { return x[0] * std::min(std::max(x[0] + 3.0, 0.0), 6.0) / 6.0; }},
      {"snake", 1, kF, false, -4, 4, true, [](In in) { return snake(in[0], Tensor::full({1}, 1.5, in[0].options())); },
       [](Ref x) { return x[0] + std::pow(std::sin(1.5 * x[0]), 2.0) / 1.5; }},
      {"logical_and", 2, kE, true, -4, 4, false, [](In in) { return logical_and(in[0], in[1]); },
       [](Ref x) { return x[0] != 0.0 && x[1] != 0.0 ? 1.0 : 0.0; }},
      {"logical_or", 2, kE, true, -4, 4, false, [](In in) { return logical_or(in[0], in[1]); },
       [](Ref x) { return x[0] != 0.0 || x[1] != 0.0 ? 1.0 : 0.0; }},
      {"logical_xor", 2, kE, true, -4, 4, false, [](In in) { return logical_xor(in[0], in[1]); },
       [](Ref x) { return (x[0] != 0.0) != (x[1] != 0.0) ? 1.0 : 0.0; }},
      {"logical_not", 1, kE, true, -4, 4, false, [](In in) { return logical_not(in[0]); },
       [](Ref x) { return x[0] == 0.0 ? 1.0 : 0.0; }},
      {"isfinite", 1, kE, true, -4, 4, false, [](In in) { return isfinite(in[0]); },
       [](Ref x) { return std::isfinite(x[0]) ? 1.0 : 0.0; }},
      {"masked_fill", 2, kN, true, -4, 4, true, [](In in) { return masked_fill(in[0], in[1] > 0.0, 3.0); },
       [](Ref x) { return x[1] > 0.0 ? 3.0 : x[0]; }},
      {"where/scalar", 2, kN, true, -4, 4, true, [](In in) { return where(in[0] > 0.0, in[1], 3); },
       [](Ref x) { return x[0] > 0.0 ? x[1] : 3.0; }},
      {"where/of_scalar", 2, kN, true, -4, 4, true, [](In in) { return where(in[0] > 0.0, 3, in[1]); },
       [](Ref x) { return x[0] > 0.0 ? 3.0 : x[1]; }},
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
