// Casts of tensors between every pair of dtypes, against an oracle in long double and 128-bit integers, on the CPU and
// on CUDA; and single values that a dtype refuses.
#include <adjoint/core/tensor/convert.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

namespace adjoint::testing {
namespace {

constexpr DType kAllDTypes[] = {kFloat16, kBFloat16, kFloat32, kFloat64, kInt32, kInt64, kUInt8, kBool};
constexpr double kInf = std::numeric_limits<double>::infinity(), kNaN = std::numeric_limits<double>::quiet_NaN();

template <class T>
constexpr bool kIsFloat = std::is_floating_point_v<T> || is_reduced_float<T>;

// Whole numbers and their neighbours, the ends of every range, halves of every last place, and values that double
// rounding would get wrong.
template <class T>
std::vector<T> samples() {
  std::vector<T> values;
  if constexpr (kIsFloat<T>) {
    const auto add = [&](double value) {
      for (const double x : {value, -value, std::nextafter(value, kInf), std::nextafter(value, -kInf)}) {
        if constexpr (is_reduced_float<T>) {
          values.push_back(T(static_cast<float>(x)));
        } else {
          values.push_back(static_cast<T>(x));
        }
      }
    };
    for (const double x : {0.0,
                           0.25,
                           0.5,
                           0.75,
                           1.0,
                           1.5,
                           2.9,
                           127.5,
                           255.0,
                           255.5,
                           256.0,
                           300.7,
                           65504.0,
                           65519.5,
                           65520.0,
                           0x1p24 + 1,
                           0x1p31 - 1,
                           0x1p31,
                           0x1p31 + 1,
                           0x1p53,
                           0x1p62,
                           0x1p63,
                           0x1p64,
                           1e30,
                           0x1.fffffefp127,
                           0x1.ffffffp127,
                           1e300,
                           1e-5,
                           0x1p-25,
                           0x1p-133,
                           0x1p-134,
                           0x1p-149,
                           0x1p-150,
                           1e-300,
                           kInf,
                           1 + 0x1p-8,
                           1 + 0x1p-11,
                           1 + 0x1.8p-7,
                           1 + 0x1.8p-10}) {
      add(x);
      add(x * (1 + 0x1p-40));
      add(x * (1 - 0x1p-40));
    }
    add(kNaN);
  } else {
    const auto add = [&](std::int64_t value) { values.push_back(static_cast<T>(value)); };
    constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
    for (const std::int64_t x :
         {std::int64_t{0}, std::int64_t{1}, std::int64_t{127}, std::int64_t{128}, std::int64_t{255}, std::int64_t{256},
          std::int64_t{300}, std::int64_t{65519}, std::int64_t{65520}, std::int64_t{1} << 24,
          (std::int64_t{1} << 30) + (1 << 22), std::int64_t{1} << 31, std::int64_t{1} << 53,
          (std::int64_t{1} << 55) + 4, (std::int64_t{1} << 62) + (std::int64_t{1} << 54), std::int64_t{1} << 62}) {
      for (const std::int64_t near : {x - 1, x, x + 1}) {
        add(near);
        add(-near);
      }
    }
    for (const std::int64_t x : {kLeast, kLeast + 1, -(kLeast + 1)}) add(x);
  }
  return values;
}

// The nearer of two neighbours among T's positive numbers, which are in the order of their bits; infinity is one last
// place above the largest.
template <class T>
T nearest_half(long double value) {
  T half;
  half.bits = 0;
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const std::uint16_t infinity = dtype_of<T> == kFloat16 ? 0x7c00 : 0x7f80;
  const long double magnitude = std::fabs(value);
  const auto at = [&](std::uint32_t bits) -> long double {
    if (bits == infinity) return dtype_of<T> == kFloat16 ? 0x1p16L : 0x1p128L;
    T t;
    t.bits = static_cast<std::uint16_t>(bits);
    return static_cast<float>(t);
  };
  std::uint32_t low = 0, high = infinity;
  if (magnitude >= at(infinity)) low = infinity;
  while (low + 1 < high) {
    const std::uint32_t middle = (low + high) / 2;
    (at(middle) <= magnitude ? low : high) = middle;
  }
  if (low != infinity) {
    const long double below = magnitude - at(low), above = at(low + 1) - magnitude;
    if (above < below || (above == below && low % 2 == 1)) ++low;
  }
  half.bits = static_cast<std::uint16_t>(sign | low);
  return half;
}

// Exact in long double: its 64 bits hold every int64.
template <class To, class From>
To expected(From from) {
  const auto value = [&]() -> long double {
    if constexpr (is_reduced_float<From>) return static_cast<float>(from);
    return static_cast<long double>(from);
  }();
  if constexpr (std::is_same_v<To, bool>) {
    return std::isnan(value) || value < 0 || value > 0;
  } else if constexpr (is_reduced_float<To>) {
    return std::isnan(value) ? To(std::numeric_limits<float>::quiet_NaN()) : nearest_half<To>(value);
  } else if constexpr (std::is_floating_point_v<To>) {
    return static_cast<To>(value);
  } else if constexpr (kIsFloat<From>) {
    if (std::isnan(value)) return 0;
    if (value <= static_cast<long double>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    if (value >= static_cast<long double>(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
    return static_cast<To>(static_cast<std::int64_t>(value));
  } else {
    __extension__ using Wide = __int128;
    const Wide modulus = Wide{1} << (8 * sizeof(To));
    const Wide rest = (static_cast<Wide>(from) % modulus + modulus) % modulus;
    return static_cast<To>(rest > Wide{std::numeric_limits<To>::max()} ? rest - modulus : rest);
  }
}

template <class T>
Tensor tensor_of(const std::vector<T>& values) {
  return Tensor::from_vector(values, {static_cast<std::int64_t>(values.size())}, {.dtype = dtype_of<T>});
}

template <class To, class From>
std::vector<To> expected_of(const std::vector<From>& values) {
  std::vector<To> result;
  for (const From value : values) result.push_back(expected<To>(value));
  return result;
}

// NaN's payload is anyone's.
template <class T>
void expect_equal(const std::string& what, const std::vector<T>& actual, const std::vector<T>& wanted) {
  ASSERT_EQ(actual.size(), wanted.size()) << what;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const auto a = static_cast<double>(actual[i]), b = static_cast<double>(wanted[i]);
    if constexpr (std::is_same_v<T, std::int64_t>) {
      ASSERT_EQ(actual[i], wanted[i]) << what << ", sample " << i;
    } else if (std::isnan(b)) {
      ASSERT_TRUE(std::isnan(a)) << what << ", sample " << i << ": " << a;
    } else {
      ASSERT_TRUE(a == b && std::signbit(a) == std::signbit(b))
          << what << ", sample " << i << ": got " << a << ", expected " << b;
    }
  }
}

// f<From, To>(name of the pair)
template <class F>
void for_each_pair(F&& f) {
  for (const DType from : kAllDTypes) {
    for (const DType to : kAllDTypes) {
      visit(from, [&]<class From>() {
        visit(to, [&]<class To>() { f.template operator()<From, To>(to_string(from) + " to " + to_string(to)); });
      });
    }
  }
}

TEST(Cast, EveryPairOfDTypesHasItsOneMeaning) {
  for_each_pair([]<class From, class To>(const std::string& what) {
    const std::vector<From> values = samples<From>();
    const Tensor x = tensor_of(values);
    const std::vector<To> wanted = expected_of<To>(values);
    expect_equal(what, x.to(dtype_of<To>).template to_vector<To>(), wanted);
    expect_equal(what + ", to_vector", x.to_vector<To>(), wanted);
    // Strided on either side.
    Tensor doubled = Tensor::zeros({x.numel(), 2}, {.dtype = dtype_of<From>});
    doubled.select(1, 0).copy_(x);
    expect_equal(what + ", strided", doubled.select(1, 0).to(dtype_of<To>).template to_vector<To>(), wanted);
    Tensor target = Tensor::zeros({x.numel(), 2}, {.dtype = dtype_of<To>});
    target.select(1, 1).copy_(x);
    expect_equal(what + ", copy_", target.select(1, 1).template to_vector<To>(), wanted);
  });
}

TEST(CastCuda, EveryPairOfDTypesHasItsOneMeaning) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  for_each_pair([]<class From, class To>(const std::string& what) {
    const std::vector<From> values = samples<From>();
    const Tensor x = tensor_of(values).to(kCUDA);
    const std::vector<To> wanted = expected_of<To>(values);
    expect_equal(what, x.to(dtype_of<To>).template to_vector<To>(), wanted);
    Tensor doubled = Tensor::zeros({x.numel(), 2}, {.dtype = dtype_of<From>, .device = kCUDA});
    doubled.select(1, 0).copy_(x);
    expect_equal(what + ", strided", doubled.select(1, 0).to(dtype_of<To>).template to_vector<To>(), wanted);
  });
}

TEST(Cast, ExamplesThatFrameworksDisagreeOn) {
  const Tensor x = Tensor::from_vector<double>({-1, kInf, -kInf, kNaN, 300.9, -0.9, 1e20}, {7}, {.dtype = kFloat64});
  EXPECT_EQ(x.to(kUInt8).to_vector<int>(), (std::vector<int>{0, 255, 0, 0, 255, 0, 255}));
  EXPECT_EQ(x.to(kInt32).to_vector<int>(), (std::vector<int>{-1, INT32_MAX, INT32_MIN, 0, 300, 0, INT32_MAX}));
  EXPECT_EQ(x.to(kInt64).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{-1, INT64_MAX, INT64_MIN, 0, 300, 0, INT64_MAX}));
  EXPECT_EQ(x.to(kBool).to_vector<int>(), std::vector<int>(7, 1));
  const Tensor i = Tensor::from_vector<std::int64_t>({-1, 256, 511, (1LL << 32) + 5}, {4}, {.dtype = kInt64});
  EXPECT_EQ(i.to(kUInt8).to_vector<int>(), (std::vector<int>{255, 0, 255, 5}));
  EXPECT_EQ(i.to(kInt32).to_vector<int>(), (std::vector<int>{-1, 256, 511, 5}));
}

// Scalars that a dtype cannot hold, and neighbours that it can.
struct Holding {
  DType dtype;
  std::vector<double> held, refused;
};
const std::vector<Holding>& holdings() {
  static const std::vector<Holding> all = {
      {kUInt8, {0, -0.0, 1, 255}, {-1, 256, 0.5, 254.999, kInf, -kInf, kNaN, 1e300}},
      {kInt32, {-0x1p31, 0x1p31 - 1, -7}, {0x1p31, -0x1p31 - 1, 0.5, -1e-300, kInf, -kInf, kNaN}},
      {kInt64, {-0x1p63, 0x1p63 - 1024, 0x1p53}, {0x1p63, -0x1p63 - 2048, 1e19, 1.5, kInf, -kInf, kNaN}},
      {kBool, {0, 1}, {2, -1, 0.5, kInf, kNaN}},
      {kFloat16, {65504, 65519.99, -65519.99, 1e-30, 0.1, kInf, -kInf, kNaN}, {65520, -65520, 1e6, 1e300}},
      {kBFloat16, {65520, 1e38, 0x1.fep127, 1e-300, kInf, kNaN}, {0x1.ffp127, -0x1.ffp127, 3.4e38 * 1.01, 1e300}},
      {kFloat32, {0x1.fffffep127, 0x1.fffffefp127, 1e-300, -kInf, kNaN}, {0x1.ffffffp127, 3.5e38, -1e300}},
      {kFloat64, {1e308, -1e308, kInf, kNaN, 5e-324}, {}}};
  return all;
}

class Scalars : public ::testing::TestWithParam<Device> {
 protected:
  void SetUp() override {
    if (GetParam().is_cuda() && !cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, Scalars, ::testing::Values(kCPU, kCUDA),
                         [](const auto& test) { return std::string(test.param.is_cuda() ? "Cuda" : "Cpu"); });

TEST_P(Scalars, AreRoundedOnceOrRefused) {
  for (const Holding& h : holdings()) {
    const TensorOptions options{.dtype = h.dtype, .device = GetParam()};
    Tensor x = Tensor::ones({2, 3}, options);
    const std::string name = to_string(h.dtype);
    for (const double value : h.held) {
      expect_values(name, Tensor::full({2}, value, options), {value, value});
      expect_values(name, x.clone().fill_(value), std::vector<double>(6, value));
      expect_values(name, Tensor::from_vector<double>({value}, {1}, options), {value});
      expect_values(name, Tensor::scalar(value, options), {value});
    }
    const std::string got = "for " + name;
    for (const double value : h.refused) {
      SCOPED_TRACE(value);
      EXPECT_ERROR(Tensor::full({2}, value, options), "full: a scalar takes the tensor's dtype",
                   (got + " (2,)").c_str());
      EXPECT_ERROR(Tensor::scalar(value, options), "scalar: a scalar takes the tensor's dtype", (got + " ()").c_str());
      EXPECT_ERROR(x.fill_(value), "fill_: a scalar takes the tensor's dtype", (got + " (2, 3)").c_str());
      EXPECT_ERROR(Tensor::from_vector<double>({1, value}, {2}, options),
                   "from_vector: the dtype must hold every value", "in place 1", (got + " (2,)").c_str());
    }
    expect_values(name, x, std::vector<double>(6, 1));
  }
}

TEST(Scalars, FromVectorOfEveryType) {
  EXPECT_ERROR(Tensor::from_vector<int>({3, -1}, {2}, {.dtype = kUInt8}),
               "from_vector: the dtype must hold every value exactly; got -1 in place 1 for uint8 (2,)");
  EXPECT_ERROR(Tensor::from_vector<std::int64_t>({INT64_MAX}, {1}, {.dtype = kInt32}), "got 9223372036854775807 in");
  EXPECT_ERROR(Tensor::from_vector<std::uint8_t>({1, 2}, {2}, {.dtype = kBool}), "got 2 in place 1 for bool (2,)");
  EXPECT_ERROR(Tensor::from_vector<float>({1e20F}, {}, {.dtype = kInt64}), "in place 0 for int64 ()");
  EXPECT_ERROR(Tensor::from_vector<std::int64_t>({65520}, {1}, {.dtype = kFloat16}),
               "from_vector: the dtype must hold every value; got 65520 in place 0 for float16 (1,)");
  EXPECT_ERROR(Tensor::from_vector<bfloat16>({bfloat16(0.5F)}, {1}, {.dtype = kInt32}), "got 0.5 in place 0");
  expect_values("bool", Tensor::from_vector<bool>({true, false}, {2}, {.dtype = kUInt8}), {1, 0});
  // Values already in a tensor are not checked.
  EXPECT_TRUE(
      std::isinf(Tensor::from_vector<float>({static_cast<float>(kInf)}, {1}, {.dtype = kFloat16}).item<float>()));
}

TEST(Scalars, ArangeRefusesElementsThatTheDTypeCannotHold) {
  expect_values("down to 1", Tensor::arange(3, 0, -1, {.dtype = kUInt8}), {3, 2, 1});
  expect_values("to the end", Tensor::arange(250, 256, 1, {.dtype = kUInt8}), {250, 251, 252, 253, 254, 255});
  expect_values("bool", Tensor::arange(0, 2, 1, {.dtype = kBool}), {0, 1});
  EXPECT_EQ(Tensor::arange(0.5, 0.5, 1, {.dtype = kInt32}).numel(), 0);
  EXPECT_ERROR(Tensor::arange(250, 257, 1, {.dtype = kUInt8}), "arange: a scalar takes", "got 256 for uint8 (7,)");
  EXPECT_ERROR(Tensor::arange(2, -2, -1, {.dtype = kUInt8}), "arange: a scalar takes", "got -1 for uint8 (4,)");
  EXPECT_ERROR(Tensor::arange(0, 3, 0.5, {.dtype = kInt32}), "arange: a scalar takes", "got 0.5 for int32 (6,)");
  EXPECT_ERROR(Tensor::arange(0.5, 3, 1, {.dtype = kInt64}), "arange: a scalar takes", "got 0.5 for int64 (3,)");
  EXPECT_ERROR(Tensor::arange(0, 3, 1, {.dtype = kBool}), "arange: a scalar takes", "got 2 for bool (3,)");
  EXPECT_ERROR(Tensor::arange(65500, 65521, 20, {.dtype = kFloat16}), "arange: a scalar takes", "for float16 (2,)");
}

TEST_P(Scalars, ItemIsTheValueOrAnError) {
  const auto one = [&](double value, DType dtype) { return Tensor::full({1, 1}, value, {dtype, GetParam()}); };
  EXPECT_EQ(one(3, kFloat32).item<int>(), 3);
  EXPECT_EQ(one(-0x1p31, kFloat64).item<int>(), INT32_MIN);
  EXPECT_EQ(one(255, kFloat16).item<std::uint8_t>(), 255);
  EXPECT_EQ(one(1, kInt64).item<bool>(), true);
  EXPECT_EQ(one(0x1p63 - 1024, kInt64).item<double>(), 0x1p63 - 1024);
  EXPECT_EQ(one(0.1, kFloat64).item<float>(), 0.1F);
  EXPECT_TRUE(std::isnan(one(kNaN, kFloat64).item<float>()));
  EXPECT_EQ(static_cast<float>(one(-kInf, kFloat32).item<float16>()), -std::numeric_limits<float>::infinity());
  EXPECT_EQ(Tensor::from_vector<std::int64_t>({INT64_MAX - 1}, {}, {kInt64, GetParam()}).item<std::int64_t>(),
            INT64_MAX - 1);
  EXPECT_ERROR(one(2.5, kFloat32).item<int>(),
               "item: the type asked for must hold the value exactly; got 2.5 of float32 for int32");
  EXPECT_ERROR(one(kNaN, kBFloat16).item<std::int64_t>(), "item: ", "got nan of bfloat16 for int64");
  EXPECT_ERROR(one(kInf, kFloat64).item<std::uint8_t>(), "item: ", "got inf of float64 for uint8");
  EXPECT_ERROR(one(-1, kInt32).item<std::uint8_t>(), "item: ", "got -1 of int32 for uint8");
  EXPECT_ERROR(one(0x1p31, kFloat32).item<int>(), "item: ", "for int32");
  EXPECT_ERROR(one(0x1p63, kFloat32).item<std::int64_t>(), "item: ", "for int64");
  EXPECT_ERROR(one(2, kUInt8).item<bool>(), "item: ", "got 2 of uint8 for bool");
  EXPECT_ERROR(one(1e300, kFloat64).item<float>(), "item: the type asked for must hold the value; got 1e+300");
  EXPECT_ERROR(one(70000, kInt32).item<float16>(), "item: ", "got 70000 of int32 for float16");
  // As many values as there are: to_vector casts.
  EXPECT_EQ(one(2.5, kFloat32).to_vector<int>(), std::vector<int>{2});
  EXPECT_EQ(one(kNaN, kFloat32).to_vector<std::int64_t>(), std::vector<std::int64_t>{0});
  EXPECT_EQ(one(-kInf, kFloat32).to_vector<std::uint8_t>(), std::vector<std::uint8_t>{0});
}

}  // namespace
}  // namespace adjoint::testing
