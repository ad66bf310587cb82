// Functions of float32 that the CPU computes in vectors: accuracy, special values, and results that depend on the
// element alone, not on its place, the threads or the operand's strides.
#include <adjoint/core/base/cpu_isa.h>
#include <adjoint/core/base/parallel.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/join/join.h>
#include <adjoint/ops/view/view.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <tuple>
#include <vector>

namespace adjoint {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Function {
  const char* name;
  Tensor (*call)(const Tensor& x);
  double (*exact)(double x);
  double low, high;  // of the operands that are drawn
};

#define ADJOINT_FUNCTION(name, low, high)                                                                     \
  {                                                                                                           \
#name, [](const Tensor& x) { return adjoint::name(x); }, [](double x) { return std::name(x); }, low, high \
  }
const Function kFunctions[] = {
    ADJOINT_FUNCTION(acos, -1, 1),    ADJOINT_FUNCTION(asin, -1, 1),   ADJOINT_FUNCTION(atan, -50, 50),
    ADJOINT_FUNCTION(cos, -200, 200), ADJOINT_FUNCTION(cosh, -80, 80), ADJOINT_FUNCTION(erf, -4, 4),
    ADJOINT_FUNCTION(exp, -80, 80),   ADJOINT_FUNCTION(expm1, -5, 80), ADJOINT_FUNCTION(log, 1e-6, 1e4),
    ADJOINT_FUNCTION(log1p, -0.9, 9), ADJOINT_FUNCTION(log2, 1e-6, 4), ADJOINT_FUNCTION(sin, -200, 200),
    ADJOINT_FUNCTION(sinh, -80, 80),  ADJOINT_FUNCTION(tan, -9, 9),    ADJOINT_FUNCTION(tanh, -9, 9),
};
#undef ADJOINT_FUNCTION

std::vector<CpuIsa> instruction_sets() {
  std::vector<CpuIsa> all;
  for (const CpuIsa isa : {CpuIsa::kBaseline, CpuIsa::kAvx2, CpuIsa::kAvx512}) {
    if (isa <= best_cpu_isa()) all.push_back(isa);
  }
  return all;
}

std::vector<std::uint32_t> bits(const Tensor& tensor) {
  std::vector<std::uint32_t> all;
  for (const float value : tensor.to_vector<float>()) all.push_back(std::bit_cast<std::uint32_t>(value));
  return all;
}

// Distance in units of the exact value's last place.
double error(float value, double exact) {
  const auto rounded = static_cast<float>(exact);
  if (std::isnan(exact)) return std::isnan(value) ? 0.0 : kInfinity;
  if (std::isinf(rounded) || std::isinf(value)) return value == rounded ? 0.0 : kInfinity;
  const float size = std::max(std::fabs(rounded), std::numeric_limits<float>::min());
  return std::fabs(static_cast<double>(value) - exact) / (std::nextafter(size, kInfinity) - size);
}

TEST(VectorMath, IsWithinFourUnitsInTheLastPlace) {
  manual_seed(0);
  for (const CpuIsa isa : instruction_sets()) {
    const CpuIsaGuard guard(isa);
    for (const Function& function : kFunctions) {
      const Tensor unit = Tensor::rand({20011});
      const Tensor x = unit * (function.high - function.low) + function.low;
      const std::vector<float> in = x.to_vector<float>(), out = function.call(x).to_vector<float>();
      double worst = 0.0;
      float at = 0.0F;
      for (std::size_t i = 0; i < in.size(); ++i) {
        const double e = error(out[i], function.exact(static_cast<double>(in[i])));
        if (e > worst) worst = e, at = in[i];
      }
      EXPECT_LE(worst, 4.0) << function.name << " at " << at << ", instruction set " << static_cast<int>(isa);
    }
  }
}

std::vector<float> special_values() {
  using Limits = std::numeric_limits<float>;
  return {0.0F,
          -0.0F,
          kInfinity,
          -kInfinity,
          Limits::quiet_NaN(),
          Limits::denorm_min(),
          -Limits::denorm_min(),
          1.0F,
          -1.0F,
          Limits::max(),
          Limits::lowest(),
          1e-30F,
          0.5F,
          -0.5F,
          3.0F,
          -3.0F,
          2.0F,
          -7.25F,
          33554432.0F,
          -8388607.0F};
}

TEST(VectorMath, KeepsSpecialValues) {
  const std::vector<float> special = special_values();
  const Tensor x = Tensor::from_vector(special, {static_cast<std::int64_t>(special.size())});
  for (const CpuIsa isa : instruction_sets()) {
    const CpuIsaGuard guard(isa);
    for (const Function& function : kFunctions) {
      const std::vector<float> out = function.call(x).to_vector<float>();
      for (std::size_t i = 0; i < special.size(); ++i) {
        const double exact = function.exact(static_cast<double>(special[i]));
        EXPECT_LE(error(out[i], exact), 4.0) << function.name << "(" << special[i] << ") = " << out[i];
        if (exact == 0.0) {
          EXPECT_EQ(std::signbit(out[i]), std::signbit(exact)) << function.name << "(" << special[i] << ")";
        }
      }
    }
  }
}

TEST(VectorMath, KeepsSpecialValuesOfTwoOperands) {
  const std::vector<float> special = special_values();
  std::vector<float> first, second;
  for (const float a : special) {
    for (const float b : special) first.push_back(a), second.push_back(b);
  }
  const auto count = static_cast<std::int64_t>(first.size());
  const Tensor a = Tensor::from_vector(first, {count}), b = Tensor::from_vector(second, {count});
  for (const CpuIsa isa : instruction_sets()) {
    const CpuIsaGuard guard(isa);
    const std::vector<float> powers = pow(a, b).to_vector<float>(), angles = atan2(a, b).to_vector<float>();
    for (std::size_t i = 0; i < first.size(); ++i) {
      const auto x = static_cast<double>(first[i]), y = static_cast<double>(second[i]);
      for (const auto& [name, value, exact] :
           {std::tuple{"pow", powers[i], std::pow(x, y)}, std::tuple{"atan2", angles[i], std::atan2(x, y)}}) {
        EXPECT_LE(error(value, exact), 4.0) << name << "(" << x << ", " << y << ") = " << value;
        if (exact == 0.0) {
          EXPECT_EQ(std::signbit(value), std::signbit(exact)) << name << "(" << x << ", " << y << ")";
        }
      }
    }
  }
}

TEST(VectorMath, DependsOnTheElementAlone) {
  manual_seed(1);
  for (const CpuIsa isa : instruction_sets()) {
    const CpuIsaGuard guard(isa);
    for (const Function& function : kFunctions) {
      const Tensor x = Tensor::rand({300}) * (function.high - function.low) + function.low;
      const std::vector<std::uint32_t> whole = bits(function.call(x));
      for (const std::int64_t begin : {0, 1, 3, 63, 64, 65, 130}) {
        for (const std::int64_t size : {1, 2, 15, 16, 17, 63, 64, 65, 129}) {
          const std::vector<std::uint32_t> part = bits(function.call(x.narrow(0, begin, size)));
          ASSERT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + begin))
              << function.name << " of [" << begin << ", " << begin + size << "), instruction set "
              << static_cast<int>(isa);
        }
      }
      const Tensor doubled = stack({x, x}, 1);  // (300, 2)
      const std::vector<std::uint32_t> strided = bits(function.call(doubled.select(1, 1)));
      ASSERT_EQ(strided, whole) << function.name << " of a strided operand";
    }
  }
}

TEST(VectorMath, DependsOnNoNumberOfThreads) {
  manual_seed(2);
  const Tensor x = Tensor::rand({200003}) * 4.0 + 0.1;
  const int threads = num_threads();
  set_num_threads(1);
  const std::vector<std::uint32_t> one = bits(log(x)), power = bits(pow(x, x));
  set_num_threads(3);
  EXPECT_EQ(bits(log(x)), one);
  EXPECT_EQ(bits(pow(x, x)), power);
  set_num_threads(threads);
}

TEST(VectorMath, FormulasHaveTheBitsOfTheirOperators) {
  manual_seed(3);
  const Tensor g = Tensor::randn({257}), x = Tensor::randn({257});
  for (const CpuIsa isa : instruction_sets()) {
    const CpuIsaGuard guard(isa);
    EXPECT_EQ(bits(lerp(g, x, Tensor::full({257}, 0.25))), bits(g + (x - g) * 0.25))
        << "no product is fused with a sum";
  }
}

}  // namespace
}  // namespace adjoint
