#include <adjoint/tests/support/conv_oracle.h>

namespace adjoint::testing::oracle {
namespace {

using Index = std::int64_t;

struct Place {
  Index d, h, w;
};

// Row-major position in a tensor (any, channels, extents).
Index at(Index i0, Index i1, const Place& p, Index channels, const Extents& extents) {
  return (((i0 * channels + i1) * extents.d + p.d) * extents.h + p.h) * extents.w + p.w;
}

// The image's place of tap k at feature position o, which may be outside.
Place touched(const ConvGeometry& g, const Place& o, const Place& k) {
  return {o.d * g.stride.d - g.padding.d + k.d * g.dilation.d, o.h * g.stride.h - g.padding.h + k.h * g.dilation.h,
          o.w * g.stride.w - g.padding.w + k.w * g.dilation.w};
}

bool is_inside(const Place& p, const Extents& extents) {
  return p.d >= 0 && p.d < extents.d && p.h >= 0 && p.h < extents.h && p.w >= 0 && p.w < extents.w;
}

template <class Visit>
void for_each_place(const Extents& extents, Visit visit) {
  for (Index d = 0; d < extents.d; ++d)
    for (Index h = 0; h < extents.h; ++h)
      for (Index w = 0; w < extents.w; ++w) visit(Place{d, h, w});
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
        for_each_place(g.feature, [&](const Place& o) {
          for_each_place(g.kernel, [&](const Place& k) {
            const Place i = touched(g, o, k);
            if (!is_inside(i, g.image)) return;
            term(at(n, f / per_feature * per_image + c, i, g.image_channels, g.image), at(f, c, k, per_image, g.kernel),
                 at(n, f, o, g.feature_channels, g.feature));
          });
        });
}

std::vector<double> biased(Index batch, Index channels, const Extents& extents, Values bias) {
  const Index volume = extents.product();
  std::vector<double> result(static_cast<std::size_t>(batch * channels * volume), 0.0);
  if (bias.empty()) return result;
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = value(bias, static_cast<Index>(i) / volume % channels);
  return result;
}

double biased_at(Values bias, Index channel) { return bias.empty() ? 0.0 : value(bias, channel); }

struct Position {
  Index n, channel;
  Place place;
};
Position position(Index index, Index channels, const Extents& extents) {
  const Index volume = extents.product(), plane = extents.h * extents.w;
  return {index / (volume * channels),
          index / volume % channels,
          {index / plane % extents.d, index / extents.w % extents.h, index % extents.w}};
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
    for_each_place(g.kernel, [&](const Place& k) {
      const Place i = touched(g, p.place, k);
      if (!is_inside(i, g.image)) return;
      const Index channel = p.channel / (g.feature_channels / g.groups) * per_image + c;
      sum += value(image, at(p.n, channel, i, g.image_channels, g.image)) *
             value(filter, at(p.channel, c, k, per_image, g.kernel));
    });
  return sum;
}

double conv_transpose_at(const ConvGeometry& g, Values feature, Values filter, Values bias, std::int64_t index) {
  const Index per_image = g.image_channels / g.groups;
  const Index per_feature = g.feature_channels / g.groups;
  const Position p = position(index, g.image_channels, g.image);
  const std::vector<Meeting> planes = meetings(g, 0, p.place.d);
  const std::vector<Meeting> rows = meetings(g, 1, p.place.h);
  const std::vector<Meeting> columns = meetings(g, 2, p.place.w);
  double sum = biased_at(bias, p.channel);
  for (Index j = 0; j < per_feature; ++j) {
    const Index f = p.channel / per_image * per_feature + j;
    for (const Meeting& plane : planes)
      for (const Meeting& row : rows)
        for (const Meeting& column : columns)
          sum += value(feature, at(p.n, f, {plane.o, row.o, column.o}, g.feature_channels, g.feature)) *
                 value(filter, at(f, p.channel % per_image, {plane.k, row.k, column.k}, per_image, g.kernel));
  }
  return sum;
}

double conv_weight_at(const ConvGeometry& g, Values image, Values feature, std::int64_t index) {
  const Index per_image = g.image_channels / g.groups;
  const Position p = position(index, per_image, g.kernel);  // n: feature channel; place: tap
  const Index channel = p.n / (g.feature_channels / g.groups) * per_image + p.channel;
  double sum = 0.0;
  for (Index n = 0; n < g.batch; ++n)
    for_each_place(g.feature, [&](const Place& o) {
      const Place i = touched(g, o, p.place);
      if (!is_inside(i, g.image)) return;
      sum += value(image, at(n, channel, i, g.image_channels, g.image)) *
             value(feature, at(n, p.n, o, g.feature_channels, g.feature));
    });
  return sum;
}

}  // namespace adjoint::testing::oracle
