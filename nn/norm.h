// Normalisation as modules, with PyTorch's options, names and initial values: weight 1, bias 0, running mean 0 and
// variance 1. ops/norm/norm.h has the arithmetic.
//
// Options follow the channels or the shape, or just eps, as in PyTorch: nn::BatchNorm2d(8, 0.8), which momentum may
// follow, nn::LayerNorm({8, 6}, 1e-6).
//
// bn(x, {.activation = Activation::relu(), .residual = r}) is relu(bn(x) + r), in one pass if convolutions fuse the
// activation; in a Sequential an activation right behind becomes part of the layer. Constructors throw Error for counts
// below 1; calls throw it for inputs with other axes or channels.
//
// In training BatchNorm's buffers change in place with every call. C++ does not specify the order in which the operands
// of `bce(D(real), ones) + bce(D(fake), zeros)` are computed: if D has such layers, name one of them first.
#pragma once

#include <adjoint/nn/conv.h>
#include <adjoint/nn/module.h>
#include <adjoint/nn/number.h>
#include <adjoint/ops/norm/norm.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace adjoint::nn {

struct BatchNormOptions {
  double eps = 1e-5;
  /// The share of a batch in running statistics; empty: the mean of all batches so far, which waits for the device.
  /// Batches without elements do not count.
  std::optional<double> momentum = 0.1;
  /// Adds weight and bias.
  bool affine = true;
  /// Keeps running statistics, which eval mode uses; otherwise the batch's own are always used.
  bool track_running_stats = true;
};
struct InstanceNormOptions {
  double eps = 1e-5;
  /// As in BatchNorm, but batches are counted only if it is empty: PyTorch counts no batch here.
  std::optional<double> momentum = 0.1;
  bool affine = false;
  bool track_running_stats = false;
};

namespace detail {

/// The base of BatchNorm and InstanceNorm.
class ADJOINT_API RunningNorm : public Module {
 public:
  std::int64_t num_features() const { return num_features_; }
  const BatchNormOptions& options() const { return options_; }

  Parameter weight, bias;            // (num_features); undefined unless affine
  Buffer running_mean, running_var;  // (num_features); undefined unless tracked
  Buffer num_batches_tracked;        // int64, of shape ()

 protected:
  RunningNorm(const char* type, std::int64_t num_features, const BatchNormOptions& options);
  void check(const Tensor& input, std::int64_t least, std::int64_t most, std::int64_t channel_axis) const;
  /// Returns true if the call uses the input's own statistics; it then updates existing running ones.
  bool uses_input() const { return training() || !running_mean.defined(); }
  /// The share of a batch in running statistics.
  double share() const;
  /// Called in training if statistics are tracked.
  void count_batch() const;

 private:
  std::int64_t num_features_;
  BatchNormOptions options_;
};

class ADJOINT_API BatchNorm : public RunningNorm {
 public:
  /// Takes statistics in training over all ranks' batches (core/distributed/world.h); every rank must then call the
  /// module, with any number of samples. Copies of the module share this setting.
  void set_sync(bool on) { *sync_ = on; }
  bool sync() const { return *sync_; }

 protected:
  using RunningNorm::RunningNorm;
  Tensor normalized(const Tensor& input, std::int64_t least, std::int64_t most, const NormFusion& behind) const;

 private:
  Tensor synchronized(const Tensor& input, double momentum, const NormFusion& behind) const;

  std::shared_ptr<bool> sync_ = std::make_shared<bool>(false);
};

class ADJOINT_API InstanceNorm : public RunningNorm {
 protected:
  InstanceNorm(const char* type, std::int64_t num_features, const InstanceNormOptions& options);
  Tensor normalized(const Tensor& input, std::int64_t rank, const NormFusion& behind) const;
};

}  // namespace detail

#define ADJOINT_NORM_CONSTRUCTORS(Name, Base, Options)                                                          \
  explicit Name(std::int64_t num_features, const Options& options = {}) : Base(#Name, num_features, options) {} \
  Name(std::int64_t num_features, double eps, const std::optional<double>& momentum = 0.1)                      \
      : Name(num_features, Options{.eps = eps, .momentum = momentum}) {}                                        \
  Name(std::int64_t num_features, detail::NoNumber) = delete;

/// (N, C) or (N, C, L).
class ADJOINT_API BatchNorm1d : public detail::BatchNorm {
 public:
  ADJOINT_NORM_CONSTRUCTORS(BatchNorm1d, BatchNorm, BatchNormOptions)
  Tensor forward(const Tensor& input) const { return (*this)(input); }
  Tensor operator()(const Tensor& input, const NormFusion& behind = {}) const {
    return hooked(input, [&](const Tensor& x) { return normalized(x, 2, 3, behind); });
  }
};

/// (N, C, H, W).
class ADJOINT_API BatchNorm2d : public detail::BatchNorm {
 public:
  ADJOINT_NORM_CONSTRUCTORS(BatchNorm2d, BatchNorm, BatchNormOptions)
  Tensor forward(const Tensor& input) const { return (*this)(input); }
  Tensor operator()(const Tensor& input, const NormFusion& behind = {}) const {
    return hooked(input, [&](const Tensor& x) { return normalized(x, 4, 4, behind); });
  }
};

/// (N, C, D, H, W).
class ADJOINT_API BatchNorm3d : public detail::BatchNorm {
 public:
  ADJOINT_NORM_CONSTRUCTORS(BatchNorm3d, BatchNorm, BatchNormOptions)
  Tensor forward(const Tensor& input) const { return (*this)(input); }
  Tensor operator()(const Tensor& input, const NormFusion& behind = {}) const {
    return hooked(input, [&](const Tensor& x) { return normalized(x, 5, 5, behind); });
  }
};

/// (N, C, ...), of any number of axes: a BatchNorm whose statistics cover all ranks' batches.
class ADJOINT_API SyncBatchNorm : public detail::BatchNorm {
 public:
  explicit SyncBatchNorm(std::int64_t num_features, const BatchNormOptions& options = {})
      : BatchNorm("SyncBatchNorm", num_features, options) {
    set_sync(true);
  }
  SyncBatchNorm(std::int64_t num_features, double eps, const std::optional<double>& momentum = 0.1)
      : SyncBatchNorm(num_features, BatchNormOptions{.eps = eps, .momentum = momentum}) {}
  SyncBatchNorm(std::int64_t num_features, detail::NoNumber) = delete;
  Tensor forward(const Tensor& input) const { return (*this)(input); }
  Tensor operator()(const Tensor& input, const NormFusion& behind = {}) const {
    return hooked(input, [&](const Tensor& x) { return normalized(x, 2, kMaxRank, behind); });
  }
};

/// From now on every BatchNorm below the module, or the module itself, uses all ranks' batches for its statistics
/// (set_sync). Returns the module.
template <std::derived_from<Module> M>
M convert_sync_batchnorm(M module) {
  const auto sync = [](auto& norm) { norm.set_sync(true); };
  if constexpr (std::derived_from<M, detail::BatchNorm>) sync(module);
  module.template visit<BatchNorm1d>(sync);
  module.template visit<BatchNorm2d>(sync);
  module.template visit<BatchNorm3d>(sync);
  return module;
}

/// (N, C, L) or (C, L).
class ADJOINT_API InstanceNorm1d : public detail::InstanceNorm {
 public:
  ADJOINT_NORM_CONSTRUCTORS(InstanceNorm1d, InstanceNorm, InstanceNormOptions)
  Tensor forward(const Tensor& input) const { return (*this)(input); }
  Tensor operator()(const Tensor& input, const NormFusion& behind = {}) const {
    return hooked(input, [&](const Tensor& x) { return normalized(x, 3, behind); });
  }
};

/// (N, C, H, W) or (C, H, W).
class ADJOINT_API InstanceNorm2d : public detail::InstanceNorm {
 public:
  ADJOINT_NORM_CONSTRUCTORS(InstanceNorm2d, InstanceNorm, InstanceNormOptions)
  Tensor forward(const Tensor& input) const { return (*this)(input); }
  Tensor operator()(const Tensor& input, const NormFusion& behind = {}) const {
    return hooked(input, [&](const Tensor& x) { return normalized(x, 4, behind); });
  }
};

/// (N, C, D, H, W) or (C, D, H, W).
class ADJOINT_API InstanceNorm3d : public detail::InstanceNorm {
 public:
  ADJOINT_NORM_CONSTRUCTORS(InstanceNorm3d, InstanceNorm, InstanceNormOptions)
  Tensor forward(const Tensor& input) const { return (*this)(input); }
  Tensor operator()(const Tensor& input, const NormFusion& behind = {}) const {
    return hooked(input, [&](const Tensor& x) { return normalized(x, 5, behind); });
  }
};

#undef ADJOINT_NORM_CONSTRUCTORS

struct LayerNormOptions {
  double eps = 1e-5;
  /// Adds a weight and, if `bias` is true, a bias.
  bool elementwise_affine = true;
  bool bias = true;
};
/// Over the last axes, of extents normalized_shape.
class ADJOINT_API LayerNorm : public Module {
 public:
  explicit LayerNorm(const Shape& normalized_shape, const LayerNormOptions& options = {});
  LayerNorm(const Shape& normalized_shape, double eps) : LayerNorm(normalized_shape, LayerNormOptions{.eps = eps}) {}
  LayerNorm(const Shape& normalized_shape, detail::NoNumber) = delete;
  /// LayerNorm({8}), which could also be a module to copy.
  template <std::size_t N>
  explicit LayerNorm(const std::int64_t (&normalized_shape)[N])
      : LayerNorm(Shape(normalized_shape, normalized_shape + N)) {}
  Tensor forward(const Tensor& input) const { return (*this)(input); }
  Tensor operator()(const Tensor& input, const NormFusion& behind = {}) const;

  Parameter weight, bias;  // of normalized_shape

 private:
  Shape normalized_shape_;
  double eps_;
};

struct GroupNormOptions {
  double eps = 1e-5;
  bool affine = true;
};
/// (N, num_channels, ...). Also throws Error if num_groups does not divide num_channels.
class ADJOINT_API GroupNorm : public Module {
 public:
  GroupNorm(std::int64_t num_groups, std::int64_t num_channels, const GroupNormOptions& options = {});
  GroupNorm(std::int64_t num_groups, std::int64_t num_channels, double eps)
      : GroupNorm(num_groups, num_channels, GroupNormOptions{.eps = eps}) {}
  GroupNorm(std::int64_t num_groups, std::int64_t num_channels, detail::NoNumber) = delete;
  Tensor forward(const Tensor& input) const { return (*this)(input); }
  Tensor operator()(const Tensor& input, const NormFusion& behind = {}) const;

  Parameter weight, bias;  // (num_channels)

 private:
  std::int64_t num_groups_;
  double eps_;
};

struct RMSNormOptions {
  /// Empty: the distance from 1 to the next number of the input's dtype.
  std::optional<double> eps = {};
  bool elementwise_affine = true;
};
/// Over the last axes, of extents normalized_shape.
class ADJOINT_API RMSNorm : public Module {
 public:
  explicit RMSNorm(const Shape& normalized_shape, const RMSNormOptions& options = {});
  RMSNorm(const Shape& normalized_shape, double eps) : RMSNorm(normalized_shape, RMSNormOptions{.eps = eps}) {}
  RMSNorm(const Shape& normalized_shape, detail::NoNumber) = delete;
  /// RMSNorm({8}), which could also be a module to copy.
  template <std::size_t N>
  explicit RMSNorm(const std::int64_t (&normalized_shape)[N])
      : RMSNorm(Shape(normalized_shape, normalized_shape + N)) {}
  Tensor forward(const Tensor& input) const { return (*this)(input); }
  Tensor operator()(const Tensor& input, const NormFusion& behind = {}) const;

  Parameter weight;  // of normalized_shape

 private:
  Shape normalized_shape_;
  std::optional<double> eps_;
};

/// A convolution with a bias, for eval mode, that computes norm(conv(x)) with norm's current running statistics. It
/// shares nothing with the two. Throws Error for a norm that does not track statistics, and if channels differ.
ADJOINT_API Conv1d fold_batch_norm(const Conv1d& conv, const BatchNorm1d& norm);
ADJOINT_API Conv2d fold_batch_norm(const Conv2d& conv, const BatchNorm2d& norm);
ADJOINT_API Conv3d fold_batch_norm(const Conv3d& conv, const BatchNorm3d& norm);
ADJOINT_API ConvTranspose1d fold_batch_norm(const ConvTranspose1d& conv, const BatchNorm1d& norm);
ADJOINT_API ConvTranspose2d fold_batch_norm(const ConvTranspose2d& conv, const BatchNorm2d& norm);
ADJOINT_API ConvTranspose3d fold_batch_norm(const ConvTranspose3d& conv, const BatchNorm3d& norm);

}  // namespace adjoint::nn
