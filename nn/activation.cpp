#include <adjoint/nn/activation.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/ops/random/random.h>
#include <adjoint/ops/resample/resample.h>
#include <adjoint/ops/view/view.h>

namespace adjoint::nn {
namespace {

Tensor per_channel(const char* type, std::int64_t num_parameters, double init) {
  const OpScope scope(type);
  ADJOINT_CHECK(num_parameters >= 1, "{}: num_parameters must be at least 1; got {}", type, num_parameters);
  return Tensor::full({num_parameters}, init);
}

std::string check_dropout(const char* type, const DropoutOptions& options) {
  ADJOINT_CHECK(options.p >= 0.0 && options.p <= 1.0, "{}: p must be between 0 and 1; got {}", type, options.p);
  return fmt::format("p={}", options.p);
}

}  // namespace

ActivationModule::ActivationModule(const char* type, const Activation& activation, const std::string& description)
    : Module(type), activation_(activation) {
  if (!description.empty()) set_description(description);
}

std::string detail::describe_parameter(const char* name, double value) { return fmt::format("{}={}", name, value); }

GeluApproximation enumerator(std::string_view name, GeluApproximation) {
  constexpr const char* kNames[] = {"none", "tanh"};
  return static_cast<GeluApproximation>(place_of("GELU", name, kNames));
}

Activation detail::PlainOptions<ActivationKind::kGELU>::activation() const {
  check_enumerator("GELU", "GeluApproximation", GeluApproximation(approximate), GeluApproximation::kTanh);
  return approximate == GeluApproximation::kTanh ? Activation::gelu_tanh() : Activation::gelu();
}

std::string detail::PlainOptions<ActivationKind::kGELU>::description() const {
  return approximate == GeluApproximation::kTanh ? "approximate=tanh" : "";
}

GLU::GLU(const GLUOptions& options) : Module("GLU"), options_(options) {
  set_description(fmt::format("dim={}", options.dim));
}

Softmax::Softmax(const SoftmaxOptions& options) : Module("Softmax"), options_(options) {
  set_description(fmt::format("dim={}", options.dim));
}

LogSoftmax::LogSoftmax(const LogSoftmaxOptions& options) : Module("LogSoftmax"), options_(options) {
  set_description(fmt::format("dim={}", options.dim));
}

Snake::Snake(const SnakeOptions& options) : Module("Snake") {
  alpha = register_parameter("alpha", per_channel("Snake", options.num_parameters, options.init));
  set_description(fmt::format("num_parameters={}", options.num_parameters));
}

Tensor Snake::operator()(const Tensor& input) const {
  check_not_moved_from("Snake");
  return hooked(input, [&](const Tensor& x) { return snake(x, alpha); });
}

PReLU::PReLU(const PReLUOptions& options) : Module("PReLU") {
  weight = register_parameter("weight", per_channel("PReLU", options.num_parameters, options.init));
  set_description(fmt::format("num_parameters={}", options.num_parameters));
}

Tensor PReLU::operator()(const Tensor& input) const {
  check_not_moved_from("PReLU");
  return hooked(input, [&](const Tensor& x) { return prelu(x, weight); });
}

Flatten::Flatten(const FlattenOptions& options) : Module("Flatten"), options_(options) {
  set_description(fmt::format("start_dim={}, end_dim={}", options.start_dim, options.end_dim));
}

Unflatten::Unflatten(std::int64_t dim, const Shape& unflattened_size)
    : Module("Unflatten"), dim_(dim), unflattened_size_(unflattened_size) {
  set_description(fmt::format("dim={}, unflattened_size={}", dim, unflattened_size));
}

Tensor Unflatten::operator()(const Tensor& input) const {
  return hooked(input, [&](const Tensor& x) { return unflatten(x, dim_, unflattened_size_); });
}

PixelShuffle::PixelShuffle(std::int64_t upscale_factor) : Module("PixelShuffle"), upscale_factor_(upscale_factor) {
  ADJOINT_CHECK(upscale_factor >= 1, "PixelShuffle: upscale_factor must be at least 1; got {}", upscale_factor);
  set_description(fmt::format("upscale_factor={}", upscale_factor));
}

Tensor PixelShuffle::operator()(const Tensor& input) const {
  return hooked(input, [&](const Tensor& x) { return pixel_shuffle(x, upscale_factor_); });
}

PixelUnshuffle::PixelUnshuffle(std::int64_t downscale_factor)
    : Module("PixelUnshuffle"), downscale_factor_(downscale_factor) {
  ADJOINT_CHECK(downscale_factor >= 1, "PixelUnshuffle: downscale_factor must be at least 1; got {}", downscale_factor);
  set_description(fmt::format("downscale_factor={}", downscale_factor));
}

Tensor PixelUnshuffle::operator()(const Tensor& input) const {
  return hooked(input, [&](const Tensor& x) { return pixel_unshuffle(x, downscale_factor_); });
}

Dropout::Dropout(const DropoutOptions& options) : Module("Dropout"), options_(options) {
  set_description(check_dropout("Dropout", options));
}

Tensor Dropout::operator()(const Tensor& input) const {
  return hooked(input, [&](const Tensor& x) { return dropped(x); });
}

Tensor Dropout::dropped(const Tensor& x) const {
  const OpScope scope("Dropout");
  check_not_moved_from("Dropout");
  return dropout(x, options_.p, training());
}

namespace detail {

ChannelDropout::ChannelDropout(const char* type, Function function, const DropoutOptions& options)
    : Module(type), function_(function), options_(options) {
  set_description(check_dropout(type, options));
}

Tensor ChannelDropout::operator()(const Tensor& input) const {
  return hooked(input, [&](const Tensor& x) {
    const OpScope scope(type().c_str());
    check_not_moved_from("Dropout");
    return function_(x, options_.p, training());
  });
}

}  // namespace detail

}  // namespace adjoint::nn
