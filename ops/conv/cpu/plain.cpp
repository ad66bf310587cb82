// The trio by its definition, one product at a time, for every dtype: weak symbols, which ops/conv/cpu's fast kernels
// replace as they arrive. This file goes away with the last of them.

#include <adjoint/ops/conv/kernels.h>

#include <vector>

namespace adjoint::cpu {
namespace {

// Calls term(image index, filter index, feature index) for every product of S.
template <class Term>
void for_each_term(const ConvGeometry& g, Term term) {
  const std::int64_t image_group = g.image_channels_per_group(), feature_group = g.feature_channels_per_group();
  for (std::int64_t plane = 0; plane < g.batch * g.feature_channels; ++plane) {
    const std::int64_t n = plane / g.feature_channels, f = plane % g.feature_channels;
    for (std::int64_t c = 0; c < image_group; ++c) {
      const std::int64_t image_plane = n * g.image_channels + f / feature_group * image_group + c;
      for (std::int64_t tap = 0; tap < g.taps(); ++tap) {
        const std::int64_t kh = tap / g.kernel[1], kw = tap % g.kernel[1];
        for (std::int64_t oh = 0; oh < g.feature[0]; ++oh) {
          const std::int64_t ih = image_position(oh, kh, g.stride[0], g.padding[0], g.dilation[0]);
          if (ih < 0 || ih >= g.image[0]) continue;
          for (std::int64_t ow = 0; ow < g.feature[1]; ++ow) {
            const std::int64_t iw = image_position(ow, kw, g.stride[1], g.padding[1], g.dilation[1]);
            if (iw < 0 || iw >= g.image[1]) continue;
            term((image_plane * g.image[0] + ih) * g.image[1] + iw, (f * image_group + c) * g.taps() + tap,
                 (plane * g.feature[0] + oh) * g.feature[1] + ow);
          }
        }
      }
    }
  }
}

// Sums in float64 and rounds once. sum(a, b, result) adds the products of the two operands.
template <class Sum>
void accumulate(std::span<const Tensor> in, Tensor& out, std::int64_t channels, std::int64_t plane, Sum sum) {
  visit_floating(out.dtype(), [&]<class T>() {
    std::vector<double> result(static_cast<std::size_t>(out.numel()), 0.0);
    if (in.size() == 3) {
      const T* bias = in[2].data<T>();
      for (std::size_t i = 0; i < result.size(); ++i) result[i] = bias[static_cast<std::int64_t>(i) / plane % channels];
    }
    sum(in[0].data<T>(), in[1].data<T>(), result.data());
    T* to = out.mutable_data<T>();
    for (std::size_t i = 0; i < result.size(); ++i) to[i] = static_cast<T>(result[i]);
  });
}

}  // namespace

__attribute__((weak)) void conv(std::span<const Tensor> in, Tensor& out, const ConvGeometry& g) {
  accumulate(in, out, g.feature_channels, g.feature_plane(), [&](const auto* image, const auto* filter, double* to) {
    for_each_term(g, [&](auto i, auto k, auto o) {
      to[o] += static_cast<double>(image[i]) * static_cast<double>(filter[k]);
    });
  });
}

__attribute__((weak)) void conv_transpose(std::span<const Tensor> in, Tensor& out, const ConvGeometry& g) {
  accumulate(in, out, g.image_channels, g.image_plane(), [&](const auto* feature, const auto* filter, double* to) {
    for_each_term(g, [&](auto i, auto k, auto o) {
      to[i] += static_cast<double>(feature[o]) * static_cast<double>(filter[k]);
    });
  });
}

__attribute__((weak)) void conv_weight(std::span<const Tensor> in, Tensor& out, const ConvGeometry& g) {
  accumulate(in, out, 1, 1, [&](const auto* image, const auto* feature, double* to) {
    for_each_term(g, [&](auto i, auto k, auto o) {
      to[k] += static_cast<double>(image[i]) * static_cast<double>(feature[o]);
    });
  });
}

}  // namespace adjoint::cpu
