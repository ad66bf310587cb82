// You are at stop 4 of 7 of the README's reading path, the trio: these are its simplest kernels. nn/module.h comes
// next.
//
// The convolution trio in Eigen: the code to read first, and the reference for the faster kernels.
//
// S(image, filter, feature) = sum of image[o * stride - padding + k * dilation] * filter[k] * feature[o] is linear in
// each, and a derivative in one of them multiplies the other two. Take one tap k of the filter, one row of the feature
// and the positions of that row where the tap falls inside the image. The image positions that it meets are `stride`
// apart in one row, so all three are matrices with some stride in memory:
//
//   feature piece (feature channels, positions)   image piece (image channels, positions)
//   filter tap (feature channels, image channels)
//
//   conv:            feature piece += filter tap   * image piece
//   conv_transpose:  image piece   += filter tap^T * feature piece
//   conv_weight:     filter tap    += feature piece * image piece^T
#include <adjoint/core/base/parallel.h>
#include <adjoint/ops/conv/cpu/backend.h>

#include <Eigen/Core>

#include <algorithm>

namespace adjoint::cpu {
namespace {

// T may be const. Element (row, column) is data[row * inner + column * outer].
template <class T>
using Piece = Eigen::Map<
    std::conditional_t<std::is_const_v<T>, const Eigen::Matrix<std::remove_const_t<T>, Eigen::Dynamic, Eigen::Dynamic>,
                       Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>>,
    Eigen::Unaligned, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>>;

template <class T>
Piece<T> piece(T* data, std::int64_t rows, std::int64_t columns, std::int64_t inner, std::int64_t outer) {
  return {data, rows, columns, {outer, inner}};
}

struct PositionRange {
  std::int64_t begin, end;
  std::int64_t size() const { return std::max<std::int64_t>(end - begin, 0); }
};

// The feature positions of an axis whose tap k is inside the image: 0 <= o * stride - padding + k * dilation < extent.
PositionRange positions(const ConvGeometry& g, std::size_t axis, std::int64_t k) {
  const std::int64_t stride = g.stride[axis], at = k * g.dilation[axis] - g.padding[axis];  // of position 0
  const std::int64_t last = g.image[axis] - 1 - at;
  return {at >= 0 ? 0 : (-at + stride - 1) / stride, last < 0 ? 0 : std::min(last / stride + 1, g.feature[axis])};
}

// multiply(image piece, feature piece) for each row of the feature, of one sample and group.
template <class Image, class Feature, class Multiply>
void visit_rows(const ConvGeometry& g, std::int64_t sample, std::int64_t group, std::int64_t tap, Image* image,
                Feature* feature, Multiply&& multiply) {
  const std::int64_t tap_z = tap / (g.kernel.h * g.kernel.w), tap_y = tap / g.kernel.w % g.kernel.h,
                     tap_x = tap % g.kernel.w;
  const PositionRange planes = positions(g, 0, tap_z), rows = positions(g, 1, tap_y), columns = positions(g, 2, tap_x);
  if (columns.size() == 0) return;
  const std::int64_t image_group = g.image_channels_per_group(), feature_group = g.feature_channels_per_group();
  image += (sample * g.image_channels + group * image_group) * g.image_plane();
  feature += (sample * g.feature_channels + group * feature_group) * g.feature_plane();
  const std::int64_t x = columns.begin * g.stride.w - g.padding.w + tap_x * g.dilation.w;
  for (std::int64_t plane = planes.begin; plane < planes.end; ++plane) {
    const std::int64_t z = plane * g.stride.d - g.padding.d + tap_z * g.dilation.d;
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const std::int64_t y = row * g.stride.h - g.padding.h + tap_y * g.dilation.h;
      multiply(piece(image + (z * g.image.h + y) * g.image.w + x, image_group, columns.size(), g.image_plane(),
                     g.stride.w),
               piece(feature + (plane * g.feature.h + row) * g.feature.w + columns.begin, feature_group, columns.size(),
                     g.feature_plane(), 1));
    }
  }
}

// (feature channels, image channels) of one group.
template <class T>
Piece<T> filter_tap(const ConvGeometry& g, T* filter, std::int64_t group, std::int64_t tap) {
  const std::int64_t image_group = g.image_channels_per_group(), feature_group = g.feature_channels_per_group();
  return piece(filter + group * feature_group * image_group * g.taps() + tap, feature_group, image_group,
               image_group * g.taps(), g.taps());
}

template <class T>
void fill_with_bias(const Tensor& bias, std::int64_t channels, std::int64_t plane, Tensor& out) {
  T* to = out.mutable_data<T>();
  for (std::int64_t i = 0; i < out.numel(); i += plane) {
    std::fill_n(to + i, plane, bias.defined() ? bias.data<T>()[i / plane % channels] : T{0});
  }
}

template <class T>
void conv(std::span<const Tensor> in, Tensor& out, const ConvGeometry& g) {
  fill_with_bias<T>(in[2], g.feature_channels, g.feature_plane(), out);
  const T *image = in[0].data<T>(), *filter = in[1].data<T>();
  T* feature = out.mutable_data<T>();
  parallel_for(g.batch * g.groups, [&](std::int64_t i) {
    for (std::int64_t tap = 0; tap < g.taps(); ++tap) {
      const auto weights = filter_tap(g, filter, i % g.groups, tap);
      visit_rows(g, i / g.groups, i % g.groups, tap, image, feature,
                 [&](const auto& from, auto to) { to.noalias() += weights * from; });
    }
  });
}

template <class T>
void conv_transpose(std::span<const Tensor> in, Tensor& out, const ConvGeometry& g) {
  fill_with_bias<T>(in[2], g.image_channels, g.image_plane(), out);
  const T *feature = in[0].data<T>(), *filter = in[1].data<T>();
  T* image = out.mutable_data<T>();
  parallel_for(g.batch * g.groups, [&](std::int64_t i) {
    for (std::int64_t tap = 0; tap < g.taps(); ++tap) {
      const auto weights = filter_tap(g, filter, i % g.groups, tap);
      visit_rows(g, i / g.groups, i % g.groups, tap, image, feature,
                 [&](auto to, const auto& from) { to.noalias() += weights.transpose() * from; });
    }
  });
}

template <class T>
void conv_weight(std::span<const Tensor> in, Tensor& out, const ConvGeometry& g) {
  const T *image = in[0].data<T>(), *feature = in[1].data<T>();
  T* filter = out.mutable_data<T>();
  std::fill_n(filter, out.numel(), T{0});
  parallel_for(g.groups * g.taps(), [&](std::int64_t i) {
    auto sums = filter_tap(g, filter, i / g.taps(), i % g.taps());
    for (std::int64_t sample = 0; sample < g.batch; ++sample) {
      visit_rows(g, sample, i / g.taps(), i % g.taps(), image, feature,
                 [&](const auto& of_image, const auto& of_feature) {
                   sums.noalias() += of_feature * of_image.transpose();
                 });
    }
  });
}

}  // namespace

constinit const Backend<float> eigen_float{conv<float>, conv_transpose<float>, conv_weight<float>};
constinit const Backend<double> eigen_double{conv<double>, conv_transpose<double>, conv_weight<double>};

}  // namespace adjoint::cpu
