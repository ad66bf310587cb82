// Activations, and other layers that only reshape or mask, as modules. Behind a convolution in a Sequential, those with
// an activation() become part of it.
#pragma once

#include <adjoint/nn/module.h>
#include <adjoint/ops/elementwise/activation.h>
#include <adjoint/ops/elementwise/elementwise.h>

#include <cstdint>

namespace adjoint::nn {

class ADJOINT_API Identity : public Module {
 public:
  Identity() : Module("Identity") {}
  Tensor operator()(const Tensor& x) const { return x; }
};

class ADJOINT_API ReLU : public Module {
 public:
  ReLU() : Module("ReLU") {}
  Tensor operator()(const Tensor& x) const { return relu(x); }
  Activation activation() const { return Activation::relu(); }
};

struct LeakyReLUOptions {
  double negative_slope = 0.01;
};
class ADJOINT_API LeakyReLU : public Module {
 public:
  explicit LeakyReLU(const LeakyReLUOptions& options = {});
  Tensor operator()(const Tensor& x) const { return leaky_relu(x, options_.negative_slope); }
  Activation activation() const { return Activation::leaky_relu(options_.negative_slope); }

 private:
  LeakyReLUOptions options_;
};

struct PReLUOptions {
  /// 1, or one slope for each channel (the input's axis 1).
  std::int64_t num_parameters = 1;
  /// The slopes at first.
  double init = 0.25;
};
/// Throws Error for num_parameters below 1.
class ADJOINT_API PReLU : public Module {
 public:
  explicit PReLU(const PReLUOptions& options = {});
  Tensor operator()(const Tensor& x) const;

  Parameter weight;  // (num_parameters)
};

class ADJOINT_API Sigmoid : public Module {
 public:
  Sigmoid() : Module("Sigmoid") {}
  Tensor operator()(const Tensor& x) const { return sigmoid(x); }
  Activation activation() const { return Activation::sigmoid(); }
};

class ADJOINT_API Tanh : public Module {
 public:
  Tanh() : Module("Tanh") {}
  Tensor operator()(const Tensor& x) const { return tanh(x); }
  Activation activation() const { return Activation::tanh(); }
};

class ADJOINT_API SiLU : public Module {
 public:
  SiLU() : Module("SiLU") {}
  Tensor operator()(const Tensor& x) const { return silu(x); }
  Activation activation() const { return Activation::silu(); }
};

struct FlattenOptions {
  std::int64_t start_dim = 1, end_dim = -1;
};
/// Merges axes start_dim to end_dim, both included.
class ADJOINT_API Flatten : public Module {
 public:
  explicit Flatten(const FlattenOptions& options = {});
  Tensor operator()(const Tensor& x) const { return x.flatten(options_.start_dim, options_.end_dim); }

 private:
  FlattenOptions options_;
};

/// (N, C r^2, H, W) -> (N, C, H r, W r); pixel_shuffle (ops/resample) has the arithmetic. Throws Error for r below 1.
class ADJOINT_API PixelShuffle : public Module {
 public:
  explicit PixelShuffle(std::int64_t upscale_factor);
  Tensor operator()(const Tensor& x) const;

 private:
  std::int64_t upscale_factor_;
};

struct DropoutOptions {
  /// Probability that an element becomes 0.
  double p = 0.5;
};
/// In training, elements chosen at random become 0, infinities and NaN too, and the others are scaled by 1 / (1 - p);
/// else the identity. Draws from the
/// global generator. Throws Error for p outside [0, 1].
class ADJOINT_API Dropout : public Module {
 public:
  explicit Dropout(const DropoutOptions& options = {});
  Tensor operator()(const Tensor& x) const;

 private:
  DropoutOptions options_;
};

}  // namespace adjoint::nn
