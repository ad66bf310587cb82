#include <adjoint/tests/support/conv_oracle.h>

namespace adjoint::testing::oracle {
namespace {

using Index = std::int64_t;

// Row-major position in a tensor of four axes whose last three extents are b, c and d.
Index at(Index i0, Index i1, Index i2, Index i3, Index b, Index c, Index d) {
  return ((i0 * b + i1) * c + i2) * d + i3;
}

double value(Values values, Index index) { return values[static_cast<std::size_t>(index)]; }

// Calls term(image index, filter index, feature index) for every product of S.
template <class Term>
void for_each_term(const ConvGeometry& g, Term term) {
  const Index per_image = g.image_channels / g.groups;
  const Index per_feature = g.feature_channels / g.groups;
  for (Index n = 0; n < g.batch; ++n)
    for (Index f = 0; f < g.feature_channels; ++f)
      for (Index c = 0; c < per_image; ++c)
        for (Index oh = 0; oh < g.feature[0]; ++oh)
          for (Index kh = 0; kh < g.kernel[0]; ++kh) {
            const Index ih = oh * g.stride[0] - g.padding[0] + kh * g.dilation[0];
            if (ih < 0 || ih >= g.image[0]) continue;
            for (Index ow = 0; ow < g.feature[1]; ++ow)
              for (Index kw = 0; kw < g.kernel[1]; ++kw) {
                const Index iw = ow * g.stride[1] - g.padding[1] + kw * g.dilation[1];
                if (iw < 0 || iw >= g.image[1]) continue;
                const Index channel = f / per_feature * per_image + c;
                term(at(n, channel, ih, iw, g.image_channels, g.image[0], g.image[1]),
                     at(f, c, kh, kw, per_image, g.kernel[0], g.kernel[1]),
                     at(n, f, oh, ow, g.feature_channels, g.feature[0], g.feature[1]));
              }
          }
}

std::vector<double> biased(Index batch, Index channels, const Extent2& extents, Values bias) {
  const Index plane = extents[0] * extents[1];
  std::vector<double> result(static_cast<std::size_t>(batch * channels * plane), 0.0);
  if (bias.empty()) return result;
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = value(bias, static_cast<Index>(i) / plane % channels);
  return result;
}

double biased_at(Values bias, Index channel) { return bias.empty() ? 0.0 : value(bias, channel); }

struct Position {
  Index n, channel, h, w;
};
Position position(Index index, Index channels, const Extent2& extents) {
  return {index / (extents[1] * extents[0] * channels), index / (extents[1] * extents[0]) % channels,
          index / extents[1] % extents[0], index % extents[1]};
}

// Every (o, k) of one axis that meets image position i.
struct Meeting {
  Index o, k;
};
std::vector<Meeting> meetings(const ConvGeometry& g, std::size_t axis, Index i) {
  std::vector<Meeting> result;
  for (Index o = 0; o < g.feature[axis]; ++o)
    for (Index k = 0; k < g.kernel[axis]; ++k)
      if (o * g.stride[axis] - g.padding[axis] + k * g.dilation[axis] == i) result.push_back({o, k});
  return result;
}

}  // namespace

std::vector<double> conv(const ConvGeometry& g, Values image, Values filter, Values bias) {
  std::vector<double> feature = biased(g.batch, g.feature_channels, g.feature, bias);
  for_each_term(g, [&](Index i, Index k, Index o) {
    feature[static_cast<std::size_t>(o)] += value(image, i) * value(filter, k);
  });
  return feature;
}

std::vector<double> conv_transpose(const ConvGeometry& g, Values feature, Values filter, Values bias) {
  std::vector<double> image = biased(g.batch, g.image_channels, g.image, bias);
  for_each_term(g, [&](Index i, Index k, Index o) {
    image[static_cast<std::size_t>(i)] += value(feature, o) * value(filter, k);
  });
  return image;
}

std::vector<double> conv_weight(const ConvGeometry& g, Values image, Values feature) {
  std::vector<double> filter = biased(g.feature_channels, g.image_channels / g.groups, g.kernel, {});
  for_each_term(g, [&](Index i, Index k, Index o) {
    filter[static_cast<std::size_t>(k)] += value(image, i) * value(feature, o);
  });
  return filter;
}

double conv_at(const ConvGeometry& g, Values image, Values filter, Values bias, std::int64_t index) {
  const Index per_image = g.image_channels / g.groups;
  const Position p = position(index, g.feature_channels, g.feature);
  double sum = biased_at(bias, p.channel);
  for (Index c = 0; c < per_image; ++c)
    for (Index kh = 0; kh < g.kernel[0]; ++kh)
      for (Index kw = 0; kw < g.kernel[1]; ++kw) {
        const Index ih = p.h * g.stride[0] - g.padding[0] + kh * g.dilation[0];
        const Index iw = p.w * g.stride[1] - g.padding[1] + kw * g.dilation[1];
        if (ih < 0 || ih >= g.image[0] || iw < 0 || iw >= g.image[1]) continue;
        const Index channel = p.channel / (g.feature_channels / g.groups) * per_image + c;
        sum += value(image, at(p.n, channel, ih, iw, g.image_channels, g.image[0], g.image[1])) *
               value(filter, at(p.channel, c, kh, kw, per_image, g.kernel[0], g.kernel[1]));
      }
  return sum;
}

double conv_transpose_at(const ConvGeometry& g, Values feature, Values filter, Values bias, std::int64_t index) {
  const Index per_image = g.image_channels / g.groups;
  const Index per_feature = g.feature_channels / g.groups;
  const Position p = position(index, g.image_channels, g.image);
  const std::vector<Meeting> rows = meetings(g, 0, p.h);
  const std::vector<Meeting> columns = meetings(g, 1, p.w);
  double sum = biased_at(bias, p.channel);
  for (Index j = 0; j < per_feature; ++j) {
    const Index f = p.channel / per_image * per_feature + j;
    for (const Meeting& row : rows)
      for (const Meeting& column : columns)
        sum += value(feature, at(p.n, f, row.o, column.o, g.feature_channels, g.feature[0], g.feature[1])) *
               value(filter, at(f, p.channel % per_image, row.k, column.k, per_image, g.kernel[0], g.kernel[1]));
  }
  return sum;
}

double conv_weight_at(const ConvGeometry& g, Values image, Values feature, std::int64_t index) {
  const Index per_image = g.image_channels / g.groups;
  const Position p = position(index, per_image, g.kernel);  // n: feature channel; h, w: taps
  const Index channel = p.n / (g.feature_channels / g.groups) * per_image + p.channel;
  double sum = 0.0;
  for (Index n = 0; n < g.batch; ++n)
    for (Index oh = 0; oh < g.feature[0]; ++oh)
      for (Index ow = 0; ow < g.feature[1]; ++ow) {
        const Index ih = oh * g.stride[0] - g.padding[0] + p.h * g.dilation[0];
        const Index iw = ow * g.stride[1] - g.padding[1] + p.w * g.dilation[1];
        if (ih < 0 || ih >= g.image[0] || iw < 0 || iw >= g.image[1]) continue;
        sum += value(image, at(n, channel, ih, iw, g.image_channels, g.image[0], g.image[1])) *
               value(feature, at(n, p.n, oh, ow, g.feature_channels, g.feature[0], g.feature[1]));
      }
  return sum;
}

}  // namespace adjoint::testing::oracle
