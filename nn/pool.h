// Pooling as modules, with PyTorch's options; ops/pool/pool.h has the arithmetic.
#pragma once

#include <adjoint/nn/module.h>
#include <adjoint/ops/pool/pool.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace adjoint::nn {

using MaxPool1dOptions = MaxPool1dParams;
using MaxPool2dOptions = MaxPool2dParams;
using MaxPool3dOptions = MaxPool3dParams;
using AvgPool1dOptions = AvgPool1dParams;
using AvgPool2dOptions = AvgPool2dParams;
using AvgPool3dOptions = AvgPool3dParams;
struct MaxUnpool1dOptions {
  ByName by_name = {};
  std::int64_t stride = 0, padding = 0;
};
struct MaxUnpool2dOptions {
  ByName by_name = {};
  Size2 stride = 0, padding = 0;
};
struct MaxUnpool3dOptions {
  ByName by_name = {};
  Size3 stride = 0, padding = 0;
};

namespace detail {

/// The values of the pooled axes.
inline Dims axes_of(std::int64_t size) { return {size}; }
inline Dims axes_of(const Size2& size) { return {size.h, size.w}; }
inline Dims axes_of(const Size3& size) { return {size.d, size.h, size.w}; }

/// "kernel_size=3, stride=2, padding=1"; a stride of 0 is the kernel's size. Throws Error, naming the type, for options
/// that no input could fit.
ADJOINT_API std::string describe_window(const char* type, const Dims& kernel_size, const Dims& stride,
                                        const Dims& padding, const Dims& dilation);
ADJOINT_API std::string describe_output(const char* type, const Dims& output_size);

/// The base of modules with a window.
template <class Extent, class Options>
class Pooling : public Module {
 public:
  const Extent& kernel_size() const { return kernel_size_; }
  const Options& options() const { return options_; }

 protected:
  Pooling(const char* type, const Extent& kernel_size, const Options& options)
      : Module(type), kernel_size_(kernel_size), options_(options) {
    Extent dilation = 1;
    if constexpr (requires { options.dilation; }) dilation = options.dilation;
    set_description(describe_window(type, axes_of(kernel_size), axes_of(options.stride), axes_of(options.padding),
                                    axes_of(dilation)));
  }

 private:
  Extent kernel_size_;
  Options options_;
};

/// The base of modules with a number of windows.
template <class Extent>
class AdaptivePooling : public Module {
 public:
  const Extent& output_size() const { return output_size_; }

 protected:
  AdaptivePooling(const char* type, const Extent& output_size) : Module(type), output_size_(output_size) {
    set_description(describe_output(type, axes_of(output_size)));
  }

 private:
  Extent output_size_;
};

}  // namespace detail

// nn::MaxPool2d(2), nn::MaxPool2d(3, 2, 1), nn::MaxPool2d(3, {.stride = 2, .padding = 1}): the kernel's size, then
// options, or stride and padding.
// Constructors throw Error for kernels and dilations below 1, and negative strides and paddings.

// A size in braces, {2, 1} or {2}, needs a separate constructor: it could also mean a module to copy.
#define ADJOINT_POOL_SIZE(Name, Extent)                                                                 \
  template <std::size_t N, class Size = Extent>                                                         \
  requires(N <= 2 && std::same_as<Size, Size2>) explicit Name(const std::int64_t(&size)[N])             \
      : Name(Size(size[0], size[N - 1])) {}                                                             \
  template <std::size_t N, class Size = Extent>                                                         \
  requires((N == 1 || N == 3) && std::same_as<Size, Size3>) explicit Name(const std::int64_t(&size)[N]) \
      : Name(Size(size[0], size[N / 2], size[N - 1])) {}

#define ADJOINT_POOL_CONSTRUCTORS(Name, Extent)                                    \
  explicit Name(const Extent& kernel_size, const Name##Options& options = {})      \
      : Pooling(#Name, kernel_size, options) {}                                    \
  Name(const Extent& kernel_size, const Extent& stride, const Extent& padding = 0) \
      : Name(kernel_size, Name##Options{.stride = stride, .padding = padding}) {}  \
  ADJOINT_POOL_SIZE(Name, Extent)

#define ADJOINT_POOL(Name, Extent, function)                                                        \
  class ADJOINT_API Name : public detail::Pooling<Extent, Name##Options> {                          \
   public:                                                                                          \
    ADJOINT_POOL_CONSTRUCTORS(Name, Extent)                                                         \
    Tensor forward(const Tensor& input) const { return (*this)(input); }                            \
    Tensor operator()(const Tensor& input) const {                                                  \
      check_not_moved_from(#Name);                                                                  \
      return hooked(input, [&](const Tensor& x) { return function(x, kernel_size(), options()); }); \
    }                                                                                               \
    ADJOINT_POOL_WITH_INDICES_##function                                                            \
  };
// Both the result and the positions of its elements (int64), for MaxUnpool1d, MaxUnpool2d and MaxUnpool3d.
#define ADJOINT_POOL_INDICES(function, ...)                                                     \
  std::pair<Tensor, Tensor> with_indices(const Tensor& input) const {                           \
    return detail::located(*this, [&] { return function##_with_indices(input, __VA_ARGS__); }); \
  }
#define ADJOINT_POOL_WITH_INDICES_max_pool1d ADJOINT_POOL_INDICES(max_pool1d, kernel_size(), options())
#define ADJOINT_POOL_WITH_INDICES_max_pool2d ADJOINT_POOL_INDICES(max_pool2d, kernel_size(), options())
#define ADJOINT_POOL_WITH_INDICES_max_pool3d ADJOINT_POOL_INDICES(max_pool3d, kernel_size(), options())
#define ADJOINT_POOL_WITH_INDICES_avg_pool1d
#define ADJOINT_POOL_WITH_INDICES_avg_pool2d
#define ADJOINT_POOL_WITH_INDICES_avg_pool3d
ADJOINT_POOL(MaxPool1d, std::int64_t, max_pool1d)
ADJOINT_POOL(MaxPool2d, Size2, max_pool2d)
ADJOINT_POOL(MaxPool3d, Size3, max_pool3d)
ADJOINT_POOL(AvgPool1d, std::int64_t, avg_pool1d)
ADJOINT_POOL(AvgPool2d, Size2, avg_pool2d)
ADJOINT_POOL(AvgPool3d, Size3, avg_pool3d)
#undef ADJOINT_POOL_WITH_INDICES_max_pool1d
#undef ADJOINT_POOL_WITH_INDICES_max_pool2d
#undef ADJOINT_POOL_WITH_INDICES_max_pool3d
#undef ADJOINT_POOL_WITH_INDICES_avg_pool1d
#undef ADJOINT_POOL_WITH_INDICES_avg_pool2d
#undef ADJOINT_POOL_WITH_INDICES_avg_pool3d
#undef ADJOINT_POOL

// nn::AdaptiveAvgPool2d(1), nn::AdaptiveAvgPool2d({7, 5}); 0 leaves an axis unchanged. Constructors throw Error for a
// negative size.

#define ADJOINT_POOL(Name, Extent, function)                                             \
  class ADJOINT_API Name : public detail::AdaptivePooling<Extent> {                      \
   public:                                                                               \
    explicit Name(const Extent& output_size) : AdaptivePooling(#Name, output_size) {}    \
    ADJOINT_POOL_SIZE(Name, Extent)                                                      \
    Tensor forward(const Tensor& input) const { return (*this)(input); }                 \
    Tensor operator()(const Tensor& input) const {                                       \
      check_not_moved_from(#Name);                                                       \
      return hooked(input, [&](const Tensor& x) { return function(x, output_size()); }); \
    }                                                                                    \
    ADJOINT_POOL_WITH_INDICES_##function                                                 \
  };
#define ADJOINT_POOL_WITH_INDICES_adaptive_avg_pool1d
#define ADJOINT_POOL_WITH_INDICES_adaptive_avg_pool2d
#define ADJOINT_POOL_WITH_INDICES_adaptive_avg_pool3d
#define ADJOINT_POOL_WITH_INDICES_adaptive_max_pool1d ADJOINT_POOL_INDICES(adaptive_max_pool1d, output_size())
#define ADJOINT_POOL_WITH_INDICES_adaptive_max_pool2d ADJOINT_POOL_INDICES(adaptive_max_pool2d, output_size())
#define ADJOINT_POOL_WITH_INDICES_adaptive_max_pool3d ADJOINT_POOL_INDICES(adaptive_max_pool3d, output_size())
ADJOINT_POOL(AdaptiveAvgPool1d, std::int64_t, adaptive_avg_pool1d)
ADJOINT_POOL(AdaptiveAvgPool2d, Size2, adaptive_avg_pool2d)
ADJOINT_POOL(AdaptiveAvgPool3d, Size3, adaptive_avg_pool3d)
ADJOINT_POOL(AdaptiveMaxPool1d, std::int64_t, adaptive_max_pool1d)
ADJOINT_POOL(AdaptiveMaxPool2d, Size2, adaptive_max_pool2d)
ADJOINT_POOL(AdaptiveMaxPool3d, Size3, adaptive_max_pool3d)
#undef ADJOINT_POOL_WITH_INDICES_adaptive_avg_pool1d
#undef ADJOINT_POOL_WITH_INDICES_adaptive_avg_pool2d
#undef ADJOINT_POOL_WITH_INDICES_adaptive_avg_pool3d
#undef ADJOINT_POOL_WITH_INDICES_adaptive_max_pool1d
#undef ADJOINT_POOL_WITH_INDICES_adaptive_max_pool2d
#undef ADJOINT_POOL_WITH_INDICES_adaptive_max_pool3d
#undef ADJOINT_POOL_INDICES
#undef ADJOINT_POOL

/// unpool(y, indices), or with the result's size: unpool(y, indices, {height, width}).
class ADJOINT_API MaxUnpool1d : public detail::Pooling<std::int64_t, MaxUnpool1dOptions> {
 public:
  ADJOINT_POOL_CONSTRUCTORS(MaxUnpool1d, std::int64_t)
  Tensor forward(const Tensor& input, const Tensor& indices, std::int64_t output_size = 0) const {
    return (*this)(input, indices, output_size);
  }
  Tensor operator()(const Tensor& input, const Tensor& indices, std::int64_t output_size = 0) const {
    check_not_moved_from("MaxUnpool1d");
    return max_unpool1d(input, indices, kernel_size(),
                        {.stride = options().stride, .padding = options().padding, .output_size = output_size});
  }
};
class ADJOINT_API MaxUnpool2d : public detail::Pooling<Size2, MaxUnpool2dOptions> {
 public:
  ADJOINT_POOL_CONSTRUCTORS(MaxUnpool2d, Size2)
  Tensor forward(const Tensor& input, const Tensor& indices, std::int64_t output_size = 0) const {
    return (*this)(input, indices, output_size);
  }
  Tensor operator()(const Tensor& input, const Tensor& indices, const Size2& output_size = 0) const {
    check_not_moved_from("MaxUnpool2d");
    return max_unpool2d(input, indices, kernel_size(),
                        {.stride = options().stride, .padding = options().padding, .output_size = output_size});
  }
};
class ADJOINT_API MaxUnpool3d : public detail::Pooling<Size3, MaxUnpool3dOptions> {
 public:
  ADJOINT_POOL_CONSTRUCTORS(MaxUnpool3d, Size3)
  Tensor forward(const Tensor& input, const Tensor& indices, const Size3& output_size = 0) const {
    return (*this)(input, indices, output_size);
  }
  Tensor operator()(const Tensor& input, const Tensor& indices, const Size3& output_size = 0) const {
    check_not_moved_from("MaxUnpool3d");
    return max_unpool3d(input, indices, kernel_size(),
                        {.stride = options().stride, .padding = options().padding, .output_size = output_size});
  }
};

#undef ADJOINT_POOL_CONSTRUCTORS
#undef ADJOINT_POOL_SIZE

}  // namespace adjoint::nn
