#include <adjoint/tests/support/values.h>

#include <adjoint/core/tensor/convert.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>

namespace adjoint::testing {
namespace {

// Steele, Lea and Flood 2014.
std::uint64_t split_mix(std::uint64_t& state) {
  std::uint64_t z = (state += 0x9e3779b97f4a7c15U);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

double rounded(double value, DType dtype) {
  switch (dtype) {
    case kFloat16: return convert<float16>(value);
    case kBFloat16: return convert<bfloat16>(value);
    case kFloat32: return static_cast<float>(value);
    default: return value;
  }
}

std::string index_of(std::int64_t flat, const Shape& shape) {
  Dims index = Dims::filled(shape.size(), 0);
  for (std::size_t axis = shape.size(); axis-- > 0; flat /= shape[axis]) index[axis] = flat % shape[axis];
  return to_string(index);
}

void compare(const std::string& what, const Tensor& actual, const std::vector<double>& expected,
             const std::function<bool(double, double)>& same) {
  const std::vector<double> values = actual.to_vector<double>();
  ASSERT_EQ(values.size(), expected.size()) << what;
  std::int64_t wrong = 0;
  std::size_t first = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (same(values[i], expected[i])) continue;
    if (wrong++ == 0) first = i;
  }
  if (wrong == 0) return;
  ADD_FAILURE() << what << ": " << wrong << " of " << values.size() << " elements of " << to_string(actual.shape())
                << " differ; first at " << index_of(static_cast<std::int64_t>(first), actual.shape()) << ": got "
                << values[first] << ", expected " << expected[first];
}

}  // namespace

std::vector<double> integers(std::int64_t count, std::int64_t magnitude, std::uint64_t seed) {
  std::vector<double> values(static_cast<std::size_t>(count));
  const auto range = static_cast<std::uint64_t>(2 * magnitude + 1);
  for (double& value : values) value = static_cast<double>(split_mix(seed) % range) - static_cast<double>(magnitude);
  return values;
}

std::vector<double> reals(std::int64_t count, std::uint64_t seed) {
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) value = static_cast<double>(split_mix(seed) >> 11) * 0x1p-52 - 1.0;
  return values;
}

Tensor non_contiguous(const std::vector<double>& values, const Shape& shape, const TensorOptions& options) {
  Dims reversed;
  Shape padded;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    reversed.push_back(static_cast<std::int64_t>(axis));
    padded.push_back(shape[axis] + 2);
  }
  Tensor base = Tensor::full(padded, options.dtype == kBool ? 1.0 : 7.0, options);
  Tensor view = base.permute(reversed);
  for (std::size_t axis = 0; axis < shape.size(); ++axis)
    view = view.narrow(static_cast<std::int64_t>(axis), 1, shape[axis]);
  view.copy_(Tensor::from_vector<double>(values, shape, {.dtype = kFloat64}));
  return view;
}

void expect_values(const std::string& what, const Tensor& actual, const std::vector<double>& expected) {
  const DType dtype = actual.dtype();
  compare(what, actual, expected,
          [dtype](double a, double e) { return a == rounded(e, dtype) || (std::isnan(a) && std::isnan(e)); });
}

void expect_same_bits(const std::string& what, const Tensor& actual, const Tensor& expected) {
  ASSERT_EQ(actual.shape(), expected.shape()) << what;
  ASSERT_EQ(actual.dtype(), expected.dtype()) << what;
  const Tensor a = actual.to(kCPU).contiguous();
  const Tensor b = expected.to(kCPU).contiguous();
  const auto nbytes = static_cast<std::size_t>(a.numel() * element_size(a.dtype()));
  if (nbytes == 0 || std::memcmp(a.raw_data(), b.raw_data(), nbytes) == 0) return;
  expect_values(what, a, b.to_vector<double>());
  ADD_FAILURE() << what << ": the bits differ";
}

void expect_near(const std::string& what, const Tensor& actual, const std::vector<double>& expected, double tolerance) {
  compare(what, actual, expected,
          [tolerance](double a, double e) { return std::abs(a - e) <= tolerance * (1.0 + std::abs(e)); });
}

}  // namespace adjoint::testing
