// Between a file's interleaved samples and pictures (C, H, W): planes, dtypes and EXIF's orientations.
#include <adjoint/data/codec.h>

namespace adjoint::data {
namespace {

/// How to turn what was stored with an EXIF orientation upright: transposed first, then flipped.
struct Turn {
  bool transpose, flip_rows, flip_columns;
};
constexpr Turn kTurns[] = {
    {},                     // no orientation
    {false, false, false},  // 1
    {false, false, true},   // 2
    {false, true, true},    // 3
    {false, true, false},   // 4
    {true, false, false},   // 5
    {true, false, true},    // 6
    {true, true, true},     // 7
    {true, true, false},    // 8
};

// Of an upright picture: all channels of a row at a time, while it lies in the nearest cache.
template <int kChannels, class Src, class Dst, class Convert>
void deinterleave_rows(const Raster& raster, Dst* out, Convert convert) {
  const std::int64_t width = raster.width, plane = raster.height * width;
  const auto* in = reinterpret_cast<const Src*>(raster.samples.data());
  for (std::int64_t y = 0; y < raster.height; ++y, in += width * kChannels, out += width) {
    for (int c = 0; c < kChannels; ++c) {
      const Src* const from = in + c;
      Dst* const to = out + c * plane;
      for (std::int64_t x = 0; x < width; ++x) to[x] = convert(from[x * kChannels]);
    }
  }
}

template <class Src, class Dst, class Convert>
void deinterleave(const Raster& raster, Tensor& image, Convert convert) {
  const Turn turn = kTurns[raster.orientation];
  if (!turn.transpose && !turn.flip_rows && !turn.flip_columns) {
    Dst* const to = image.mutable_data<Dst>();
    if (raster.channels == 3) return deinterleave_rows<3, Src>(raster, to, convert);
    if (raster.channels == 1) return deinterleave_rows<1, Src>(raster, to, convert);
  }
  const std::int64_t height = image.size(1), width = image.size(2);
  // Steps in a plane for the next stored row and the next stored column.
  const std::int64_t down = turn.flip_rows ? -width : width, right = turn.flip_columns ? -1 : 1;
  const std::int64_t row_step = turn.transpose ? right : down, column_step = turn.transpose ? down : right;
  const std::int64_t start = (turn.flip_rows ? (height - 1) * width : 0) + (turn.flip_columns ? width - 1 : 0);
  Dst* out = image.mutable_data<Dst>();
  for (std::int64_t c = 0; c < raster.channels; ++c) {
    const auto* in = reinterpret_cast<const Src*>(raster.samples.data()) + c;
    for (std::int64_t y = 0; y < raster.height; ++y) {
      Dst* next = out + c * height * width + start + y * row_step;
      for (std::int64_t x = 0; x < raster.width; ++x, in += raster.channels) next[x * column_step] = convert(*in);
    }
  }
}

template <class Src, class Dst, class Convert>
void interleave(const Tensor& image, Raster& raster, Convert convert) {
  const std::int64_t plane = raster.height * raster.width;
  const Src* in = image.data<Src>();
  auto* out = reinterpret_cast<Dst*>(raster.samples.data());
  for (std::int64_t c = 0; c < raster.channels; ++c) {
    for (std::int64_t i = 0; i < plane; ++i) out[i * raster.channels + c] = convert(*in++);
  }
}

using U8 = std::uint8_t;
using U16 = std::uint16_t;

}  // namespace

Tensor to_tensor(const Raster& raster, DType dtype) {
  const bool transposed = kTurns[raster.orientation].transpose;
  Tensor image = Tensor::empty({raster.channels, transposed ? raster.width : raster.height,
                                transposed ? raster.height : raster.width},
                               {.dtype = dtype});
  const bool wide = raster.bit_depth == 16;
  if (dtype == kUInt8) {
    if (wide) {  // 65535 = 255 * 257
      deinterleave<U16, U8>(raster, image, [](U16 v) { return static_cast<U8>((v + 128U) / 257U); });
    } else {
      deinterleave<U8, U8>(raster, image, [](U8 v) { return v; });
    }
  } else if (wide) {
    deinterleave<U16, float>(raster, image, [](U16 v) { return static_cast<float>(v) / 65535.0F; });
  } else {
    deinterleave<U8, float>(raster, image, [](U8 v) { return static_cast<float>(v) / 255.0F; });
  }
  return image;
}

Raster to_raster(const Tensor& image, int bit_depth) {
  Raster raster;
  raster.channels = image.size(0);
  raster.height = image.size(1);
  raster.width = image.size(2);
  raster.bit_depth = bit_depth;
  raster.samples.resize(static_cast<std::size_t>(raster.height * raster.row_bytes()));
  if (image.dtype() == kUInt8) {
    if (bit_depth == 8) {
      interleave<U8, U8>(image, raster, [](U8 v) { return v; });
    } else {
      interleave<U8, U16>(image, raster, [](U8 v) { return static_cast<U16>(v * 257); });
    }
  } else if (bit_depth == 8) {
    interleave<float, U8>(image, raster, quantise<U8, 255>);
  } else {
    interleave<float, U16>(image, raster, quantise<U16, 65535>);
  }
  return raster;
}

}  // namespace adjoint::data
