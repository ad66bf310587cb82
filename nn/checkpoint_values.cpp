#include <adjoint/nn/checkpoint_values.h>

#include <adjoint/core/base/check.h>

#include <cstring>

namespace adjoint::nn::detail {
namespace {

const Tensor& only(const NamedTensors& state, DType dtype) {
  ADJOINT_CHECK(state.size() == 1 && state[0].first.empty(), "a value must be one tensor; got {}{}", state.size(),
                state.size() == 1 ? ", '" + state[0].first + "'" : "");
  const Tensor& tensor = state[0].second;
  ADJOINT_CHECK(tensor.dtype() == dtype, "a value of this type must be kept as {}; got {} {}", dtype, tensor.dtype(),
                tensor.shape());
  return tensor;
}

}  // namespace

NamedTensors bytes_state(const void* data, std::size_t bytes) {
  Tensor tensor = Tensor::empty({static_cast<std::int64_t>(bytes)}, {.dtype = kUInt8});
  if (bytes > 0) std::memcpy(tensor.raw_mutable_data(), data, bytes);
  return {{"", tensor}};
}

NamedTensors reals_state(const std::vector<double>& values, const Shape& shape) {
  return {{"", Tensor::from_vector(values, shape, {.dtype = kFloat64})}};
}

NamedTensors integers_state(const std::vector<std::int64_t>& values, const Shape& shape) {
  return {{"", Tensor::from_vector(values, shape, {.dtype = kInt64})}};
}

std::vector<std::uint8_t> take_bytes(const NamedTensors& state) {
  return only(state, kUInt8).to_vector<std::uint8_t>();
}

void take_bytes(const NamedTensors& state, void* data, std::size_t bytes) {
  const std::vector<std::uint8_t> taken = take_bytes(state);
  ADJOINT_CHECK(taken.size() == bytes, "a value of this type must have {} bytes; got {}", bytes, taken.size());
  std::memcpy(data, taken.data(), bytes);
}

std::vector<std::int64_t> take_integers(const NamedTensors& state) {
  return only(state, kInt64).to_vector<std::int64_t>();
}

std::vector<double> take_reals(const NamedTensors& state) { return only(state, kFloat64).to_vector<double>(); }

void check_count(std::size_t count, std::size_t expected) {
  ADJOINT_CHECK(count == expected, "a value of this type must be {} number{}; got {}", expected,
                expected == 1 ? "" : "s", count);
}

void does_not_hold(std::int64_t value, std::size_t bytes, bool is_signed) {
  fail("a number must fit its type of {} bits{}; got {}", 8 * bytes, is_signed ? "" : " without a sign", value);
}

void take_elements(const NamedTensors& state, Tensor& tensor) {
  const Tensor& taken = only(state, tensor.dtype());
  ADJOINT_CHECK(taken.shape() == tensor.shape(), "the tensor must have shape {}; got {}", tensor.shape(),
                taken.shape());
  tensor.detach().copy_(taken);
}

}  // namespace adjoint::nn::detail
