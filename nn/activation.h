// Activations, and other layers that only reshape or mask, as modules. A Sequential merges an activation of the table
// (ops/elementwise/activation.h) into the convolution before it if convolutions fuse that activation. The classes
// follow the table's order.
#pragma once

#include <adjoint/core/tensor/named.h>
#include <adjoint/nn/module.h>
#include <adjoint/nn/number.h>
#include <adjoint/ops/elementwise/activation.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/random/random.h>
#include <adjoint/ops/softmax/softmax.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace adjoint::nn {

class ADJOINT_API Identity : public Module {
 public:
  Identity() : Module("Identity") {}
  Tensor forward(const Tensor& input) const { return (*this)(input); }
  Tensor operator()(const Tensor& input) const {
    return hooked(input, [](const Tensor& x) { return x; });
  }
};

/// The base of the table's modules: nn::ReLU(), nn::LeakyReLU({.negative_slope = 0.2}) or nn::LeakyReLU(0.2),
/// nn::Hardtanh({.min_val = 0.0, .max_val = 4.0}) or nn::Hardtanh(0, 4); parameters have the names, order and defaults
/// of the functions.
class ADJOINT_API ActivationModule : public Module {
 public:
  Tensor forward(const Tensor& input) const { return (*this)(input); }
  Tensor operator()(const Tensor& input) const {
    return hooked(input, [&](const Tensor& x) { return activate(x, activation_); });
  }
  const Activation& activation() const { return activation_; }

 protected:
  ActivationModule(const char* type, const Activation& activation, const std::string& description = {});

 private:
  Activation activation_;
};

namespace detail {
/// "negative_slope=0.01"
ADJOINT_API std::string describe_parameter(const char* name, double value);

/// The options of an activation without parameters.
template <ActivationKind kKind>
struct PlainOptions {
  Activation activation() const { return {kKind}; }
  std::string description() const { return {}; }
};
}  // namespace detail

/// GELU's formula: with the error function, or with tanh, as in gelu and gelu_tanh.
enum class GeluApproximation : std::uint8_t { kNone, kTanh };
ADJOINT_API GeluApproximation enumerator(std::string_view name, GeluApproximation);

template <>
struct detail::PlainOptions<ActivationKind::kGELU> {
  Named<GeluApproximation> approximate = GeluApproximation::kNone;

  /// Throws Error for a value outside the enumeration.
  ADJOINT_API Activation activation() const;
  ADJOINT_API std::string description() const;
};
/// nn::GELU({.approximate = "tanh"}) is equivalent to nn::GELUTanh().
using GELUOptions = detail::PlainOptions<ActivationKind::kGELU>;

#define ADJOINT_MODULE0(Name, function, fused)                                                                      \
  class ADJOINT_API Name : public ActivationModule {                                                                \
   public:                                                                                                          \
    using Options = detail::PlainOptions<ActivationKind::k##Name>;                                                  \
    Name() : Name(Options{}) {}                                                                                     \
    explicit Name(const Options& options) : ActivationModule(#Name, options.activation(), options.description()) {} \
  };
#define ADJOINT_MODULE1(Name, function, fused, a, a_default)                                                     \
  struct Name##Options {                                                                                         \
    double a = a_default;                                                                                        \
  };                                                                                                             \
  class ADJOINT_API Name : public ActivationModule {                                                             \
   public:                                                                                                       \
    explicit Name(const Name##Options& options = {})                                                             \
        : ActivationModule(#Name, Activation::function(options.a), detail::describe_parameter(#a, options.a)) {} \
    explicit Name(double a) : Name(Name##Options{a}) {}                                                          \
    explicit Name(detail::NoNumber) = delete;                                                                    \
  };
#define ADJOINT_MODULE2(Name, function, fused, a, a_default, b, b_default)       \
  struct Name##Options {                                                         \
    double a = a_default, b = b_default;                                         \
  };                                                                             \
  class ADJOINT_API Name : public ActivationModule {                             \
   public:                                                                       \
    explicit Name(const Name##Options& options = {})                             \
        : ActivationModule(#Name, Activation::function(options.a, options.b),    \
                           detail::describe_parameter(#a, options.a) + ", " +    \
                               detail::describe_parameter(#b, options.b)) {}     \
    explicit Name(double a, double b = b_default) : Name(Name##Options{a, b}) {} \
    explicit Name(detail::NoNumber) = delete;                                    \
  };
ADJOINT_ACTIVATIONS(ADJOINT_MODULE0, ADJOINT_MODULE1, ADJOINT_MODULE2)
#undef ADJOINT_MODULE0
#undef ADJOINT_MODULE1
#undef ADJOINT_MODULE2

struct PReLUOptions {
  /// 1, or one slope for each channel (the input's axis 1).
  std::int64_t num_parameters = 1;
  /// The initial slopes.
  double init = 0.25;
};
/// Throws Error for num_parameters below 1.
class ADJOINT_API PReLU : public Module {
 public:
  explicit PReLU(const PReLUOptions& options = {});
  explicit PReLU(std::int64_t num_parameters, double init = 0.25) : PReLU(PReLUOptions{num_parameters, init}) {}
  Tensor forward(const Tensor& x) const { return (*this)(x); }
  Tensor operator()(const Tensor& x) const;

  Parameter weight;  // (num_parameters)
};

struct GLUOptions {
  std::int64_t dim = -1;
};
/// glu along axis `dim`.
class ADJOINT_API GLU : public Module {
 public:
  explicit GLU(const GLUOptions& options = {});
  explicit GLU(std::int64_t dim) : GLU(GLUOptions{dim}) {}
  explicit GLU(detail::NoNumber) = delete;
  Tensor forward(const Tensor& input) const { return (*this)(input); }
  Tensor operator()(const Tensor& input) const {
    return hooked(input, [&](const Tensor& x) { return glu(x, options_.dim); });
  }

 private:
  GLUOptions options_;
};

struct SoftmaxOptions {
  std::int64_t dim = -1;
};
using LogSoftmaxOptions = SoftmaxOptions;
/// softmax, or log_softmax, along axis `dim`, which must be given: nn::Softmax(1), nn::Softmax({.dim = 1}).
#define ADJOINT_SOFTMAX(Name, function)                                                 \
  class ADJOINT_API Name : public Module {                                              \
   public:                                                                              \
    explicit Name(const Name##Options& options);                                        \
    explicit Name(std::int64_t dim) : Name(Name##Options{dim}) {}                       \
    explicit Name(detail::NoNumber) = delete;                                           \
    Tensor forward(const Tensor& input) const { return (*this)(input); }                \
    Tensor operator()(const Tensor& input) const {                                      \
      return hooked(input, [&](const Tensor& x) { return function(x, options_.dim); }); \
    }                                                                                   \
                                                                                        \
   private:                                                                             \
    Name##Options options_;                                                             \
  };
ADJOINT_SOFTMAX(Softmax, softmax)
ADJOINT_SOFTMAX(LogSoftmax, log_softmax)
#undef ADJOINT_SOFTMAX

struct SnakeOptions {
  /// 1, or one parameter for each channel (the input's axis 1).
  std::int64_t num_parameters = 1;
  /// The initial parameters.
  double init = 1.0;
};
/// Throws Error for num_parameters below 1.
class ADJOINT_API Snake : public Module {
 public:
  explicit Snake(const SnakeOptions& options = {});
  explicit Snake(std::int64_t num_parameters, double init = 1.0) : Snake(SnakeOptions{num_parameters, init}) {}
  Tensor forward(const Tensor& x) const { return (*this)(x); }
  Tensor operator()(const Tensor& x) const;

  Parameter alpha;  // (num_parameters)
};

struct FlattenOptions {
  std::int64_t start_dim = 1, end_dim = -1;
};
/// Merges axes start_dim to end_dim, both included.
class ADJOINT_API Flatten : public Module {
 public:
  explicit Flatten(const FlattenOptions& options = {});
  explicit Flatten(std::int64_t start_dim, std::int64_t end_dim = -1) : Flatten(FlattenOptions{start_dim, end_dim}) {}
  explicit Flatten(detail::NoNumber) = delete;
  Tensor forward(const Tensor& input) const { return (*this)(input); }
  Tensor operator()(const Tensor& input) const {
    return hooked(input, [&](const Tensor& x) { return x.flatten(options_.start_dim, options_.end_dim); });
  }

 private:
  FlattenOptions options_;
};

/// Splits axis `dim` into several of these extents, of which one may be -1: the inverse of Flatten.
class ADJOINT_API Unflatten : public Module {
 public:
  Unflatten(std::int64_t dim, const Shape& unflattened_size);
  Tensor forward(const Tensor& x) const { return (*this)(x); }
  Tensor operator()(const Tensor& x) const;

 private:
  std::int64_t dim_;
  Shape unflattened_size_;
};

/// (N, C r^2, H, W) -> (N, C, H r, W r); pixel_shuffle (ops/resample) has the arithmetic. Throws Error for r below 1.
class ADJOINT_API PixelShuffle : public Module {
 public:
  explicit PixelShuffle(std::int64_t upscale_factor);
  Tensor forward(const Tensor& x) const { return (*this)(x); }
  Tensor operator()(const Tensor& x) const;

 private:
  std::int64_t upscale_factor_;
};

/// The inverse: (N, C, H r, W r) -> (N, C r^2, H, W). Throws Error for r below 1.
class ADJOINT_API PixelUnshuffle : public Module {
 public:
  explicit PixelUnshuffle(std::int64_t downscale_factor);
  Tensor forward(const Tensor& x) const { return (*this)(x); }
  Tensor operator()(const Tensor& x) const;

 private:
  std::int64_t downscale_factor_;
};

struct DropoutOptions {
  /// Probability that an element becomes 0.
  double p = 0.5;
};
/// In training, random elements become 0, including infinities and NaN, and the others are scaled by 1 / (1 - p);
/// otherwise the identity. Draws from the global generator. Throws Error for p outside [0, 1].
class ADJOINT_API Dropout : public Module {
 public:
  explicit Dropout(const DropoutOptions& options = {});
  explicit Dropout(double p) : Dropout(DropoutOptions{p}) {}
  explicit Dropout(detail::NoNumber) = delete;
  Tensor forward(const Tensor& x) const { return (*this)(x); }
  Tensor operator()(const Tensor& x) const;

 private:
  Tensor dropped(const Tensor& x) const;

  DropoutOptions options_;
};
namespace detail {

/// The base of dropout of whole channels.
class ADJOINT_API ChannelDropout : public Module {
 public:
  Tensor forward(const Tensor& x) const { return (*this)(x); }
  Tensor operator()(const Tensor& x) const;

 protected:
  using Function = Tensor (*)(const Tensor& x, double p, bool training);
  ChannelDropout(const char* type, Function function, const DropoutOptions& options);

 private:
  Function function_;
  DropoutOptions options_;
};

}  // namespace detail

#define ADJOINT_DROPOUT(Name, function)                                                                      \
  class ADJOINT_API Name : public detail::ChannelDropout {                                                   \
   public:                                                                                                   \
    explicit Name(const DropoutOptions& options = {}) : ChannelDropout(#Name, adjoint::function, options) {} \
    explicit Name(double p) : Name(DropoutOptions{p}) {}                                                     \
    explicit Name(detail::NoNumber) = delete;                                                                \
  };
/// Dropout of whole channels: x (N, C, H, W) or (C, H, W).
ADJOINT_DROPOUT(Dropout2d, dropout2d)
/// The same for volumes: x is (N, C, D, H, W) or (C, D, H, W).
ADJOINT_DROPOUT(Dropout3d, dropout3d)
#undef ADJOINT_DROPOUT

}  // namespace adjoint::nn
