// Converts between a file's interleaved samples and pictures (C, H, W): planes, dtypes and EXIF's orientations.
#include <adjoint/core/base/check.h>
#include <adjoint/core/base/cpu_targets.h>
#include <adjoint/data/codec.h>

namespace adjoint::data {
namespace {

/// Turns a picture with an EXIF orientation upright: first transposed, then flipped.
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

/// Separates the three channels of `width` pixels, in one loop with pointers that share no memory, because compilers
/// vectorise nothing else.
template <int kPixelSamples, class Convert, class Src, class Dst>
inline void split(const Src* __restrict in, Dst* __restrict first, Dst* __restrict second, Dst* __restrict third,
                  std::int64_t width) {
  for (std::int64_t x = 0; x < width; ++x, in += kPixelSamples) {
    first[x] = Convert()(in[0]);
    second[x] = Convert()(in[1]);
    third[x] = Convert()(in[2]);
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

struct Same {
  U8 operator()(U8 v) const { return v; }
};
struct Rounded {  // 65535 = 255 * 257
  U8 operator()(U16 v) const { return static_cast<U8>((v + 128U) / 257U); }
};
template <int kTop>
struct Fraction {
  float operator()(int v) const { return static_cast<float>(v) / static_cast<float>(kTop); }
};

}  // namespace

template <class Src, class Dst, class Convert>
void PictureRows::put_row(PictureRows& rows, std::int64_t y, const std::uint8_t* row) {
  const auto* in = reinterpret_cast<const Src*>(row);
  Dst* const out = static_cast<Dst*>(rows.data_) + rows.start_ + y * rows.row_step_;
  const std::int64_t width = rows.part_.width, plane = rows.plane_;
  if (rows.column_step_ == 1) {
    if (rows.channels_ == 3 && rows.pixel_samples_ == 4)
      return run_for_isa([=] { split<4, Convert>(in, out, out + plane, out + 2 * plane, width); });
    if (rows.channels_ == 3)
      return run_for_isa([=] { split<3, Convert>(in, out, out + plane, out + 2 * plane, width); });
    if (rows.pixel_samples_ == 1) return run_for_isa([=] { std::transform(in, in + width, out, Convert()); });
  }
  for (std::int64_t c = 0; c < rows.channels_; ++c) {
    for (std::int64_t x = 0; x < width; ++x) {
      out[c * plane + x * rows.column_step_] = Convert()(in[x * rows.pixel_samples_ + c]);
    }
  }
}

Window stored_window(const Encoded& file, const Raster& layout) {
  const auto& [op, bytes, name, options] = file;
  if (!options.window) return {0, 0, layout.height, layout.width};
  const Turn turn = kTurns[layout.orientation];
  const std::int64_t height = turn.transpose ? layout.width : layout.height;
  const std::int64_t width = turn.transpose ? layout.height : layout.width;
  Window part = options.window(height, width);
  ADJOINT_CHECK(part.height >= 1 && part.width >= 1 && part.top >= 0 && part.left >= 0 && part.height <= height &&
                    part.width <= width && part.top <= height - part.height && part.left <= width - part.width,
                "{}: the window must be inside '{}' of {} x {}; got top {}, left {}, height {}, width {}", op, name,
                height, width, part.top, part.left, part.height, part.width);
  if (turn.flip_rows) part.top = height - part.top - part.height;
  if (turn.flip_columns) part.left = width - part.left - part.width;
  return turn.transpose ? Window{part.left, part.top, part.width, part.height} : part;
}

PictureRows::PictureRows(const Raster& layout, const Window& part, std::int64_t pixel_samples, DType dtype)
    : part_(part),
      channels_(layout.channels),
      pixel_samples_(pixel_samples),
      skipped_bytes_(part.left * pixel_samples * (layout.bit_depth / 8)) {
  const Turn turn = kTurns[layout.orientation];
  const std::int64_t height = turn.transpose ? part.width : part.height;
  const std::int64_t width = turn.transpose ? part.height : part.width;
  const std::int64_t down = turn.flip_rows ? -width : width, right = turn.flip_columns ? -1 : 1;
  plane_ = height * width;
  start_ = (turn.flip_rows ? (height - 1) * width : 0) + (turn.flip_columns ? width - 1 : 0);
  row_step_ = turn.transpose ? right : down;
  column_step_ = turn.transpose ? down : right;
  const bool wide = layout.bit_depth == 16;
  if (dtype == kUInt8) {
    put_ = wide ? put_row<U16, U8, Rounded> : put_row<U8, U8, Same>;
  } else {
    put_ = wide ? put_row<U16, float, Fraction<65535>> : put_row<U8, float, Fraction<255>>;
  }
  picture_ = Tensor::empty({layout.channels, height, width}, {.dtype = dtype});
  data_ = picture_.raw_mutable_data();
}

Tensor to_tensor(const Raster& raster, const Window& part, DType dtype) {
  PictureRows rows(raster, part, raster.channels, dtype);
  for (std::int64_t y = 0; y < raster.height; ++y) rows.put(y, raster.samples.data() + y * raster.row_bytes());
  return std::move(rows).picture();
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
