// Convolution and transposed convolution as modules, with PyTorch's options, weight layouts and initial distributions:
// weight and bias from U(-b, b), b = 1 / sqrt(fan_in) (nn/init.h).
#pragma once

#include <adjoint/core/tensor/named.h>
#include <adjoint/nn/module.h>
#include <adjoint/ops/conv/conv.h>
#include <adjoint/ops/pad/pad.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace adjoint::nn {

// nn::Conv2d(3, 16, {.kernel_size = 3, .padding = 1}), or without names, in PyTorch's order up to bias, followed by
// dilation for a transposed one: nn::Conv2d(3, 16, {3, 5}), nn::Conv2d(3, 16, 3, 2, 1, 1, 1, false),
// nn::ConvTranspose2d(16, 3, 3, 2, 1, 1). Options may follow the kernel's size: nn::Conv2d(3, 16, 3, {.padding = 1}).
//
// kernel_size has no default. Constructors throw Error if it is omitted or given twice, and for every option that no
// input could fit: channels that are not positive or that groups do not divide, kernel_size, stride or dilation below
// 1, negative padding, kSame with a stride other than 1, output_padding that is negative or below neither stride nor
// dilation. Those of transposed convolutions can warn of checkerboards (set_checkerboard_warning, transposed_size.h).
//
// padding_mode is PyTorch's: the values around the input, kConstant for zeros. A transposed convolution with another
// mode is the adjoint of the convolution with it: it computes the result with padding 0, and adds the elements in the
// padding to the elements from which the padding was copied (pad_adjoint).

/// A convolution's padding for which the result has the input's extents, at a stride of 1: dilation (kernel_size - 1)
/// in total, with the odd element at the end.
inline constexpr std::int64_t kSame = -1;

/// A convolution's padding: a number, kSame, or the words "same" and "valid" (0).
struct Padding1 {
  std::int64_t size = 0;
  constexpr Padding1(std::int64_t size_ = 0) : size(size_) {}  // NOLINT(google-explicit-constructor)
  template <std::size_t N>
  Padding1(const char (&name)[N]) : size(named(name)) {}    // NOLINT(google-explicit-constructor)
  constexpr operator std::int64_t() const { return size; }  // NOLINT(google-explicit-constructor)

  ADJOINT_API static std::int64_t named(std::string_view name);
};
/// For each of two axes: a number for both, {h, w}, kSame, "same" or "valid".
struct Padding2 : Size2 {
  using Size2::Size2;
  constexpr Padding2(const Size2& size) : Size2(size) {}  // NOLINT(google-explicit-constructor)
  template <std::size_t N>
  Padding2(const char (&name)[N]) : Size2(Padding1::named(name)) {}  // NOLINT(google-explicit-constructor)
};

/// For each of three axes: a number for all, {d, h, w}, kSame, "same" or "valid".
struct Padding3 : Size3 {
  using Size3::Size3;
  constexpr Padding3(const Size3& size) : Size3(size) {}  // NOLINT(google-explicit-constructor)
  template <std::size_t N>
  Padding3(const char (&name)[N]) : Size3(Padding1::named(name)) {}  // NOLINT(google-explicit-constructor)
};

struct Conv1dOptions {
  ByName by_name = {};
  std::int64_t kernel_size = 0, stride = 1;
  Padding1 padding = 0;
  std::int64_t dilation = 1, groups = 1;
  bool bias = true;
  Named<PadMode> padding_mode = PadMode::kConstant;
};
struct Conv2dOptions {
  ByName by_name = {};
  Size2 kernel_size = {}, stride = 1;
  Padding2 padding = 0;
  Size2 dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
  Named<PadMode> padding_mode = PadMode::kConstant;
};
struct Conv3dOptions {
  ByName by_name = {};
  Size3 kernel_size = {}, stride = 1;
  Padding3 padding = 0;
  Size3 dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
  Named<PadMode> padding_mode = PadMode::kConstant;
  /// If true, the depth is time: all of its padding is in front. No result then depends on later input if the padding
  /// is kSame, or half of dilation (kernel_size - 1). The input is not copied for zeros, unless kSame adds an odd
  /// number of them along an axis. PyTorch has no such option.
  bool causal = false;
};
struct ConvTranspose1dOptions {
  ByName by_name = {};
  std::int64_t kernel_size = 0, stride = 1, padding = 0, output_padding = 0, dilation = 1, groups = 1;
  bool bias = true;
  Named<PadMode> padding_mode = PadMode::kConstant;
};
struct ConvTranspose2dOptions {
  ByName by_name = {};
  Size2 kernel_size = {}, stride = 1, padding = 0, output_padding = 0, dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
  Named<PadMode> padding_mode = PadMode::kConstant;
};
struct ConvTranspose3dOptions {
  ByName by_name = {};
  Size3 kernel_size = {}, stride = 1, padding = 0, output_padding = 0, dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
  Named<PadMode> padding_mode = PadMode::kConstant;
};

namespace detail {

[[noreturn]] ADJOINT_API void kernel_size_twice(const char* type);
/// `options` with the kernel's size. Throws Error, naming the type, if they already have one.
template <class Options, class Extent>
Options with_kernel_size(const char* type, const Options& options, const Extent& kernel_size) {
  if (!(options.kernel_size == Options{}.kernel_size)) kernel_size_twice(type);
  Options all = options;
  all.kernel_size = kernel_size;
  return all;
}

}  // namespace detail

/// The result's length for one call, in place of the module's output_padding; 0: not requested.
struct OutputSize1d {
  std::int64_t output_size = 0;
};
/// The result's height and width for one call, in place of the module's output_padding; 0: not requested for this axis,
/// which keeps its output_padding.
struct OutputSize2d {
  Size2 output_size = 0;
};

/// The same for depth, height and width.
struct OutputSize3d {
  Size3 output_size = 0;
};

/// (N, in_channels, L) -> (N, out_channels, L'); conv1d has the arithmetic.
class ADJOINT_API Conv1d : public Module {
 public:
  Conv1d(std::int64_t in_channels, std::int64_t out_channels, const Conv1dOptions& options);
  Conv1d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel_size, const Conv1dOptions& options)
      : Conv1d(in_channels, out_channels, detail::with_kernel_size("Conv1d", options, kernel_size)) {}
  Conv1d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel_size, std::int64_t stride = 1,
         Padding1 padding = 0, std::int64_t dilation = 1, std::int64_t groups = 1, bool with_bias = true)
      : Conv1d(in_channels, out_channels,
               Conv1dOptions{{}, kernel_size, stride, padding, dilation, groups, with_bias}) {}
  Tensor forward(const Tensor& input) const { return (*this)(input); }
  Tensor operator()(const Tensor& input) const;
  /// activate((*this)(input), activation), as one operator.
  Tensor activated(const Tensor& input, const Activation& activation) const;
  const Conv1dOptions& options() const { return options_; }

  Parameter weight;  // (out_channels, in_channels / groups, kernel_size)
  Parameter bias;    // (out_channels); undefined without one

 private:
  Conv1dOptions options_;
};

/// (N, in_channels, H, W) -> (N, out_channels, H', W'); conv2d has the arithmetic.
class ADJOINT_API Conv2d : public Module {
 public:
  Conv2d(std::int64_t in_channels, std::int64_t out_channels, const Conv2dOptions& options);
  Conv2d(std::int64_t in_channels, std::int64_t out_channels, const Size2& kernel_size, const Conv2dOptions& options)
      : Conv2d(in_channels, out_channels, detail::with_kernel_size("Conv2d", options, kernel_size)) {}
  Conv2d(std::int64_t in_channels, std::int64_t out_channels, const Size2& kernel_size, const Size2& stride = 1,
         const Padding2& padding = 0, const Size2& dilation = 1, std::int64_t groups = 1, bool with_bias = true)
      : Conv2d(in_channels, out_channels,
               Conv2dOptions{{}, kernel_size, stride, padding, dilation, groups, with_bias}) {}
  Tensor forward(const Tensor& input) const { return (*this)(input); }
  Tensor operator()(const Tensor& input) const;
  /// activate((*this)(input), activation), as one operator.
  Tensor activated(const Tensor& input, const Activation& activation) const;
  const Conv2dOptions& options() const { return options_; }

  Parameter weight;  // (out_channels, in_channels / groups, kh, kw)
  Parameter bias;    // (out_channels); undefined without one

 private:
  Conv2dOptions options_;
};

/// (N, in_channels, D, H, W) -> (N, out_channels, D', H', W'); conv3d has the arithmetic.
class ADJOINT_API Conv3d : public Module {
 public:
  Conv3d(std::int64_t in_channels, std::int64_t out_channels, const Conv3dOptions& options);
  Conv3d(std::int64_t in_channels, std::int64_t out_channels, const Size3& kernel_size, const Conv3dOptions& options)
      : Conv3d(in_channels, out_channels, detail::with_kernel_size("Conv3d", options, kernel_size)) {}
  Conv3d(std::int64_t in_channels, std::int64_t out_channels, const Size3& kernel_size, const Size3& stride = 1,
         const Padding3& padding = 0, const Size3& dilation = 1, std::int64_t groups = 1, bool with_bias = true)
      : Conv3d(in_channels, out_channels,
               Conv3dOptions{{}, kernel_size, stride, padding, dilation, groups, with_bias}) {}
  Tensor forward(const Tensor& input) const { return (*this)(input); }
  Tensor operator()(const Tensor& input) const;
  /// activate((*this)(input), activation), as one operator.
  Tensor activated(const Tensor& input, const Activation& activation) const;
  const Conv3dOptions& options() const { return options_; }

  Parameter weight;  // (out_channels, in_channels / groups, kd, kh, kw)
  Parameter bias;    // (out_channels); undefined without one

 private:
  Conv3dOptions options_;
};

/// (N, in_channels, L) -> (N, out_channels, L'); conv_transpose1d has the arithmetic.
class ADJOINT_API ConvTranspose1d : public Module {
 public:
  ConvTranspose1d(std::int64_t in_channels, std::int64_t out_channels, const ConvTranspose1dOptions& options);
  ConvTranspose1d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel_size,
                  const ConvTranspose1dOptions& options)
      : ConvTranspose1d(in_channels, out_channels, detail::with_kernel_size("ConvTranspose1d", options, kernel_size)) {}
  ConvTranspose1d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel_size,
                  std::int64_t stride = 1, std::int64_t padding = 0, std::int64_t output_padding = 0,
                  std::int64_t groups = 1, bool with_bias = true, std::int64_t dilation = 1)
      : ConvTranspose1d(
            in_channels, out_channels,
            ConvTranspose1dOptions{{}, kernel_size, stride, padding, output_padding, dilation, groups, with_bias}) {}
  /// up(x), or up(x, {.output_size = length}).
  Tensor forward(const Tensor& input, const OutputSize1d& call = {}) const { return (*this)(input, call); }
  Tensor operator()(const Tensor& input, const OutputSize1d& call = {}) const;
  /// activate((*this)(input, call), activation), as one operator.
  Tensor activated(const Tensor& input, const Activation& activation, const OutputSize1d& call = {}) const;
  const ConvTranspose1dOptions& options() const { return options_; }

  Parameter weight;  // (in_channels, out_channels / groups, kernel_size)
  Parameter bias;    // (out_channels); undefined without one

 private:
  ConvTranspose1dOptions options_;
};

/// (N, in_channels, H, W) -> (N, out_channels, H', W'); conv_transpose2d has the arithmetic.
class ADJOINT_API ConvTranspose2d : public Module {
 public:
  ConvTranspose2d(std::int64_t in_channels, std::int64_t out_channels, const ConvTranspose2dOptions& options);
  ConvTranspose2d(std::int64_t in_channels, std::int64_t out_channels, const Size2& kernel_size,
                  const ConvTranspose2dOptions& options)
      : ConvTranspose2d(in_channels, out_channels, detail::with_kernel_size("ConvTranspose2d", options, kernel_size)) {}
  ConvTranspose2d(std::int64_t in_channels, std::int64_t out_channels, const Size2& kernel_size,
                  const Size2& stride = 1, const Size2& padding = 0, const Size2& output_padding = 0,
                  std::int64_t groups = 1, bool with_bias = true, const Size2& dilation = 1)
      : ConvTranspose2d(
            in_channels, out_channels,
            ConvTranspose2dOptions{{}, kernel_size, stride, padding, output_padding, dilation, groups, with_bias}) {}
  /// up(x), or up(x, {.output_size = {height, width}}).
  Tensor forward(const Tensor& input, const OutputSize2d& call = {}) const { return (*this)(input, call); }
  Tensor operator()(const Tensor& input, const OutputSize2d& call = {}) const;
  /// activate((*this)(input, call), activation), as one operator.
  Tensor activated(const Tensor& input, const Activation& activation, const OutputSize2d& call = {}) const;
  const ConvTranspose2dOptions& options() const { return options_; }

  Parameter weight;  // (in_channels, out_channels / groups, kh, kw)
  Parameter bias;    // (out_channels); undefined without one

 private:
  ConvTranspose2dOptions options_;
};

/// (N, in_channels, D, H, W) -> (N, out_channels, D', H', W'); conv_transpose3d has the arithmetic.
class ADJOINT_API ConvTranspose3d : public Module {
 public:
  ConvTranspose3d(std::int64_t in_channels, std::int64_t out_channels, const ConvTranspose3dOptions& options);
  ConvTranspose3d(std::int64_t in_channels, std::int64_t out_channels, const Size3& kernel_size,
                  const ConvTranspose3dOptions& options)
      : ConvTranspose3d(in_channels, out_channels, detail::with_kernel_size("ConvTranspose3d", options, kernel_size)) {}
  ConvTranspose3d(std::int64_t in_channels, std::int64_t out_channels, const Size3& kernel_size,
                  const Size3& stride = 1, const Size3& padding = 0, const Size3& output_padding = 0,
                  std::int64_t groups = 1, bool with_bias = true, const Size3& dilation = 1)
      : ConvTranspose3d(
            in_channels, out_channels,
            ConvTranspose3dOptions{{}, kernel_size, stride, padding, output_padding, dilation, groups, with_bias}) {}
  /// up(x), or up(x, {.output_size = {depth, height, width}}).
  Tensor forward(const Tensor& input, const OutputSize3d& call = {}) const { return (*this)(input, call); }
  Tensor operator()(const Tensor& input, const OutputSize3d& call = {}) const;
  /// activate((*this)(input, call), activation), as one operator.
  Tensor activated(const Tensor& input, const Activation& activation, const OutputSize3d& call = {}) const;
  const ConvTranspose3dOptions& options() const { return options_; }

  Parameter weight;  // (in_channels, out_channels / groups, kd, kh, kw)
  Parameter bias;    // (out_channels); undefined without one

 private:
  ConvTranspose3dOptions options_;
};

}  // namespace adjoint::nn
