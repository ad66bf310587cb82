#include <adjoint/tests/support/invalid_calls.h>

#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/error.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <typeinfo>

namespace adjoint::testing {
namespace {

// A result of a tape that is gone.
Tensor orphan() {
  Tensor leaf = Tensor::ones({2, 3});
  leaf.requires_grad_();
  const Tape tape;
  return leaf * 2.0;
}

std::vector<Tensor> every_kind() {
  std::vector<Tensor> tensors{Tensor{}, Tensor{},
                              Tensor{}, Tensor::scalar(3.0),
                              orphan(), Tensor::ones({2, 3}).requires_grad_()};
  for (const Shape& shape :
       {Shape{3}, Shape{2, 3}, Shape{2, 3, 4}, Shape{1, 4, 6, 6}, Shape{4, 2, 3, 3}, Shape{4, 4, 3, 3}, Shape{1, 4, 9},
        Shape{4, 4, 3}, Shape{4}, Shape{0, 3}, Shape{2, 3, 0}, Shape{1, 1, 2, 1, 1, 1, 1, 1}}) {
    tensors.push_back(Tensor::ones(shape));
  }
  for (const DType dtype : {kFloat16, kBFloat16, kFloat64, kInt32, kInt64, kUInt8, kBool}) {
    tensors.push_back(Tensor::ones({2, 3}, {.dtype = dtype}));
    tensors.push_back(Tensor::ones({4}, {.dtype = dtype}));
  }
  tensors.push_back(Tensor::zeros({0, std::int64_t{1} << 61, 8}));
  tensors.push_back(Tensor::zeros({std::int64_t{1} << 62, 0, 4, 4}));
  tensors.push_back(Tensor::arange(0.0, 6).reshape({3, 2}).transpose(0, 1));
  tensors.push_back(Tensor::arange(0.0, 3).expand({2, 3}));
  tensors.push_back(Tensor::full({2, 3}, std::nan("")));
  return tensors;
}

template <class T>
const T& pick(std::mt19937_64& random, const std::vector<T>& values) {
  return values[random() % values.size()];
}

}  // namespace

Arguments::Arguments(std::uint64_t seed) : random_(seed), tensors_(every_kind()) {}

std::int64_t Arguments::integer() {
  static const std::vector<std::int64_t> extremes{INT64_MIN,
                                                  INT64_MIN + 1,
                                                  INT64_MAX,
                                                  INT64_MAX - 1,
                                                  std::int64_t{1} << 44,
                                                  std::int64_t{1} << 59,
                                                  std::int64_t{1} << 61,
                                                  std::int64_t{1} << 62,
                                                  -(std::int64_t{1} << 62)};
  return chance(4) ? pick(random_, extremes) : static_cast<std::int64_t>(random_() % 10) - 3;
}

double Arguments::scalar() {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  static const std::vector<double> values{0.0,   1.0,    2.0,    -1.0, 0.5,   3.0,   255.0, -0.25,  1e18,
                                          1e300, -1e300, 5e-324, kInf, -kInf, 1e-30, -0.0,  4096.0, std::nan("")};
  return pick(random_, values);
}

Dims Arguments::dims() {
  Dims dims;
  for (std::uint64_t left = random_() % (chance(8) ? kMaxRank + 1 : 5); left > 0; --left) dims.push_back(integer());
  return dims;
}

Device Arguments::device() {
  Device device = chance(4) ? Device(DeviceType::kCUDA, static_cast<int>(100 + random_() % 28)) : kCPU;
  if (chance(8)) device.index = static_cast<std::int8_t>(random_());  // past the constructor's check
  if (chance(16)) device.type = enumerator<DeviceType>(2);
  if (device.is_cuda() && device.index < 100) device.index = 100;  // that no machine has
  return device;
}

TensorOptions Arguments::options() {
  return {.dtype = chance(2) ? kFloat32 : enumerator<DType>(8), .device = device(), .requires_grad = chance(4)};
}

Tensor Arguments::tensor() { return pick(random_, tensors_); }

Tensor Arguments::fresh() {
  const Tensor& tensor = pick(random_, tensors_);
  return tensor.defined() ? tensor.detach().clone() : tensor;
}

std::vector<Tensor> Arguments::tensors() {
  std::vector<Tensor> result;
  const Tensor& first = pick(random_, tensors_);
  for (std::uint64_t left = random_() % 4; left > 0; --left) result.push_back(chance(3) ? tensor() : first);
  return result;
}

void expect_errors_that_name_the_call(const std::vector<Call>& table, int count, std::uint64_t seed) {
  Arguments arguments(seed);
  std::mt19937_64 random(seed + 1);
  std::vector<int> calls(table.size()), errors(table.size());
  for (int i = 0; i < count; ++i) {
    // Each row first, then any.
    const std::size_t row =
        static_cast<std::size_t>(i) < table.size() ? static_cast<std::size_t>(i) : random() % table.size();
    const Call& call = table[row];
    ++calls[row];
    try {
      call.run(arguments);
    } catch (const Error& error) {
      ++errors[row];
      EXPECT_TRUE(std::string(error.what()).starts_with(call.name + ":"))
          << "call " << i << " of " << call.name << ": " << error.what();
    } catch (const std::exception& error) {
      ADD_FAILURE() << "call " << i << " of " << call.name << " threw " << typeid(error).name() << ": " << error.what();
    }
  }
  for (std::size_t row = 0; row < table.size(); ++row) {
    EXPECT_GT(errors[row], 0) << table[row].name << " never threw in " << calls[row] << " calls";
  }
}

}  // namespace adjoint::testing
