#include <adjoint/nn/init.h>

#include <adjoint/core/autograd/node.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/tensor_impl.h>

#include <array>
#include <cmath>
#include <vector>

namespace adjoint::nn::init {
namespace {

// Modules may be made while a tape records, so leaves may be written to, but not one whose values the tape has used.
void check_unused(const char* op, const Tensor& tensor) {
  check_defined(op, "tensor", tensor);
  ADJOINT_CHECK(!adjoint::detail::used_by_a_tape(tensor),
                "{}: a live tape must not have used the tensor; got shape {}; initialise it before the tape, or under "
                "PauseTape",
                op, tensor.shape());
}

struct Fans {
  double in;
  double out;
};

void check_floating(const char* op, const Tensor& tensor) {
  check_unused(op, tensor);
  ADJOINT_CHECK(is_floating_point(tensor.dtype()), "{}: the tensor must be floating point; got {}", op, tensor.dtype());
}

Fans fans(const char* op, const Tensor& tensor) {
  check_floating(op, tensor);
  const Shape& shape = tensor.shape();
  ADJOINT_CHECK(shape.size() >= 2, "{}: the tensor must have at least two axes; got shape {}", op, shape);
  double taps = 1.0;
  for (std::size_t axis = 2; axis < shape.size(); ++axis) taps *= static_cast<double>(shape[axis]);
  return {static_cast<double>(shape[1]) * taps, static_cast<double>(shape[0]) * taps};
}

double gain_of(const char* op, Nonlinearity nonlinearity, double a) {
  switch (nonlinearity) {
    case Nonlinearity::kLinear:
    case Nonlinearity::kSigmoid: return 1.0;
    case Nonlinearity::kTanh: return 5.0 / 3.0;
    case Nonlinearity::kReLU: return std::sqrt(2.0);
    case Nonlinearity::kLeakyReLU: return std::sqrt(2.0 / (1.0 + a * a));
    case Nonlinearity::kSELU: return 0.75;
  }
  fail("{}: the nonlinearity must be one of the enumeration's; got {}", op, static_cast<int>(nonlinearity));
}

double kaiming_deviation(const char* op, const Tensor& tensor, const KaimingOptions& options) {
  const Fans fan = fans(op, tensor);
  ADJOINT_CHECK(options.mode == FanMode::kFanIn || options.mode == FanMode::kFanOut,
                "{}: the mode must be one of the enumeration's; got {}", op,
                static_cast<int>(static_cast<FanMode>(options.mode)));
  return gain_of(op, options.nonlinearity, options.a) / std::sqrt(options.mode == FanMode::kFanIn ? fan.in : fan.out);
}

double xavier_deviation(const char* op, const Tensor& tensor, const XavierOptions& options) {
  const Fans fan = fans(op, tensor);
  return options.gain * std::sqrt(2.0 / (fan.in + fan.out));
}

void fill(const char* op, Tensor& tensor, double value) {
  const OpScope scope(op);
  check_unused(op, tensor);
  const PauseTape pause;
  tensor.fill_(value);
}

// A uniform distribution with this standard deviation, around 0.
void uniform_of_deviation(Tensor& tensor, double deviation) {
  const double bound = std::sqrt(3.0) * deviation;
  uniform_(tensor, -bound, bound);
}

// The hat of linear interpolation, sampled at the taps of a kernel of `size`.
std::vector<double> interpolation_taps(std::int64_t size) {
  const double width = static_cast<double>((size + 1) / 2);
  const double centre = static_cast<double>(size - 1) / 2.0;
  std::vector<double> taps;
  for (std::int64_t k = 0; k < size; ++k) taps.push_back(1.0 - std::abs(static_cast<double>(k) - centre) / width);
  return taps;
}

}  // namespace

FanMode enumerator(std::string_view name, FanMode) {
  constexpr std::array<const char*, 2> kNames{"fan_in", "fan_out"};
  return static_cast<FanMode>(place_of("init: mode", name, kNames));
}

Nonlinearity enumerator(std::string_view name, Nonlinearity) {
  constexpr std::array<const char*, 6> kNames{"linear", "sigmoid", "tanh", "relu", "leaky_relu", "selu"};
  return static_cast<Nonlinearity>(place_of("init: nonlinearity", name, kNames));
}

double calculate_gain(Named<Nonlinearity> nonlinearity, double a) { return gain_of("calculate_gain", nonlinearity, a); }

void constant_(Tensor tensor, double value) { fill("constant_", tensor, value); }
void zeros_(Tensor tensor) { fill("zeros_", tensor, 0.0); }
void ones_(Tensor tensor) { fill("ones_", tensor, 1.0); }

void uniform_(Tensor tensor, double low, double high) {
  check_unused("uniform_", tensor);
  const PauseTape pause;
  tensor.uniform_(low, high);
}

void normal_(Tensor tensor, double mean, double standard_deviation) {
  check_unused("normal_", tensor);
  const PauseTape pause;
  tensor.normal_(mean, standard_deviation);
}

void kaiming_uniform_(Tensor tensor, const KaimingOptions& options) {
  const OpScope scope("kaiming_uniform_");
  const double deviation = kaiming_deviation("kaiming_uniform_", tensor, options);
  if (tensor.numel() > 0) uniform_of_deviation(tensor, deviation);
}

void kaiming_normal_(Tensor tensor, const KaimingOptions& options) {
  const OpScope scope("kaiming_normal_");
  const double deviation = kaiming_deviation("kaiming_normal_", tensor, options);
  if (tensor.numel() > 0) normal_(tensor, 0.0, deviation);
}

void xavier_uniform_(Tensor tensor, const XavierOptions& options) {
  const OpScope scope("xavier_uniform_");
  const double deviation = xavier_deviation("xavier_uniform_", tensor, options);
  if (tensor.numel() > 0) uniform_of_deviation(tensor, deviation);
}

void xavier_normal_(Tensor tensor, const XavierOptions& options) {
  const OpScope scope("xavier_normal_");
  const double deviation = xavier_deviation("xavier_normal_", tensor, options);
  if (tensor.numel() > 0) normal_(tensor, 0.0, deviation);
}

void bilinear_(Tensor tensor) {
  const OpScope scope("bilinear_");
  check_floating("bilinear_", tensor);
  const Shape& shape = tensor.shape();
  ADJOINT_CHECK(shape.size() == 3 || shape.size() == 4,
                "bilinear_: the tensor must be a convolution's weight, of three or four "
                "axes; got shape {}",
                shape);
  ADJOINT_CHECK(shape[1] > 0 && shape[0] % shape[1] == 0,
                "bilinear_: the second extent must divide the first, so that channel c feeds channel c; got shape {}",
                shape);
  const std::vector<double> rows = shape.size() == 4 ? interpolation_taps(shape[2]) : std::vector<double>{1.0};
  const std::vector<double> columns = interpolation_taps(shape.back());
  std::vector<double> values(static_cast<std::size_t>(tensor.numel()), 0.0);
  const std::size_t taps = rows.size() * columns.size(), width = static_cast<std::size_t>(shape[1]);
  for (std::size_t c = 0; c < static_cast<std::size_t>(shape[0]); ++c) {
    double* filter = values.data() + (c * width + c % width) * taps;
    for (std::size_t i = 0; i < taps; ++i) filter[i] = rows[i / columns.size()] * columns[i % columns.size()];
  }
  const PauseTape pause;
  tensor.copy_(Tensor::from_vector(values, shape, {.dtype = kFloat64}));
}

void default_(Tensor weight, Tensor bias) {
  const OpScope scope("default_");
  const double fan_in = fans("default_", weight).in;
  if (bias.defined()) {
    check_floating("default_", bias);
    const PauseTape pause;
    check_writable("default_", bias);
  }
  kaiming_uniform_(weight, {.a = std::sqrt(5.0)});
  if (!bias.defined()) return;
  const double bound = fan_in > 0.0 ? 1.0 / std::sqrt(fan_in) : 0.0;
  uniform_(std::move(bias), -bound, bound);
}

}  // namespace adjoint::nn::init
