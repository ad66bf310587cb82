#include <adjoint/tests/support/conv_geometries.h>

#include <cstddef>

namespace adjoint::testing {

ConvGeometry make_geometry(std::int64_t batch, std::int64_t image_channels, std::int64_t feature_channels,
                           std::int64_t groups, Extents feature, Extents kernel, Extents stride, Margins padding,
                           Extents dilation, Margins output_padding) {
  ConvGeometry g{.batch = batch,
                 .image_channels = image_channels,
                 .feature_channels = feature_channels,
                 .groups = groups,
                 .feature = feature,
                 .kernel = kernel,
                 .stride = stride,
                 .padding = padding,
                 .dilation = dilation};
  for (std::size_t a = 0; a < 3; ++a) {
    g.image[a] = (feature[a] - 1) * stride[a] - 2 * padding[a] + dilation[a] * (kernel[a] - 1) + output_padding[a] + 1;
  }
  return g;
}

std::vector<std::int64_t> small_integers(std::int64_t count, std::mt19937& random) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(count));
  std::uniform_int_distribution<int> distribution(-4, 4);
  for (auto& value : values) value = distribution(random);
  return values;
}

}  // namespace adjoint::testing
