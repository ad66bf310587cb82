// interpolate: a linear operator along both axes, with its transpose as gradient. An axis whose extent does not change
// is left alone.
#include <adjoint/ops/resample/resample.h>

#include <adjoint/core/autograd/op.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/copy.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/ops/pool/pool.h>
#include <adjoint/ops/resample/kernels.h>

#include <array>
#include <cmath>

namespace adjoint {
namespace {

Tensor resample(const Tensor& image, const PlaneAttr& attr);
Tensor resample_adjoint(const Tensor& resampled, const PlaneAttr& attr);

bool stays(const ResampleAttr& attr) { return attr.out_extent == attr.in_extent; }

Shape with_extent(Shape shape, const ResampleAttr& attr, bool transposed) {
  // A signal's height does not change and is not an axis of its own.
  const std::int64_t extent = transposed ? attr.in_extent : attr.out_extent;
  if (!stays(attr)) shape[shape.size() - static_cast<std::size_t>(-attr.axis)] = extent;
  return shape;
}
TensorSpec with_extents(const Tensor& in, const PlaneAttr& attr, bool transposed) {
  return {with_extent(with_extent(in.shape(), attr.h, transposed), attr.w, transposed), in.dtype()};
}

/// One axis after the other, through float32, so that the intermediate image is not rounded to 16 bits, in the order
/// that keeps it no larger than the larger of input and result.
template <class AlongAxis>
void along_axes(const AlongAxis& along, const Tensor& in, Tensor& out, const PlaneAttr& attr, bool transposed) {
  const bool reduced = element_size(in.dtype()) == 2;
  const DType computed = reduced ? kFloat32 : in.dtype();
  Tensor image = in;
  if (reduced) {
    image = make_tensor({in.shape(), computed}, in.device());
    copy_into(in, image);
  }
  const bool lower = attr.h.out_extent<attr.h.in_extent, wider = attr.w.out_extent> attr.w.in_extent;
  const bool height_first = (lower && wider) != transposed;
  const std::array order = height_first ? std::array{attr.h, attr.w} : std::array{attr.w, attr.h};
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (stays(order[i])) continue;
    const bool last = i == 1 || stays(order[1]);
    Tensor next =
        last && !reduced ? out : make_tensor({with_extent(image.shape(), order[i], transposed), computed}, in.device());
    along(image, next, order[i], transposed);
    image = next;
  }
  if (reduced) copy_into(image, out);
}

template <bool transposed>
void on_cpu(Operands in, Tensor& out, const PlaneAttr& attr) {
  along_axes(cpu::resample_axis, in[0], out, attr, transposed);
}

#if defined(ADJOINT_WITH_CUDA)
template <bool transposed>
void on_cuda(Operands in, Tensor& out, const PlaneAttr& attr) {
  if (cuda::resample_plane(in[0], out, attr, transposed)) return;
  along_axes(cuda::resample_axis, in[0], out, attr, transposed);
}
#endif

constinit const OpDef<PlaneAttr> resample_op{
    .name = "resample",
    .infer = [](Operands in, const PlaneAttr& attr) { return with_extents(in[0], attr, false); },
    .cpu = on_cpu<false>,
    .cuda = ADJOINT_IF_CUDA(on_cuda<false>),
    .vjp = {{{kSaveNone, [](const Ctx<PlaneAttr>& c) { return resample_adjoint(c.grad, c.attr); }}}}};

constinit const OpDef<PlaneAttr> resample_adjoint_op{
    .name = "resample_adjoint",
    .infer = [](Operands in, const PlaneAttr& attr) { return with_extents(in[0], attr, true); },
    .cpu = on_cpu<true>,
    .cuda = ADJOINT_IF_CUDA(on_cuda<true>),
    .vjp = {{{kSaveNone, [](const Ctx<PlaneAttr>& c) { return resample(c.grad, c.attr); }}}}};

Tensor resample(const Tensor& image, const PlaneAttr& attr) { return apply(resample_op, {image}, attr); }
Tensor resample_adjoint(const Tensor& resampled, const PlaneAttr& attr) {
  return apply(resample_adjoint_op, {resampled}, attr);
}

/// `size` and `scale` along one axis; one of them is 0.
ResampleAttr axis_attr(const InterpolateParams& params, int axis, std::int64_t extent, std::int64_t size,
                       double scale) {
  ResampleAttr attr{.axis = axis, .in_extent = extent, .out_extent = size};
  if (scale > 0.0) {
    const double scaled = std::floor(static_cast<double>(extent) * scale);
    ADJOINT_CHECK(scaled >= 1.0 && scaled < 0x1p62,
                  "interpolate: the result's extents must be from 1 to 2^62; got {} times {} along axis {}", extent,
                  scale, axis);
    attr.out_extent = static_cast<std::int64_t>(scaled);
  }
  if (params.align_corners) {
    const std::int64_t steps = attr.out_extent - 1;
    attr.ratio = steps > 0 ? static_cast<double>(extent - 1) / static_cast<double>(steps) : 0.0;
  } else {
    // As in PyTorch, a given scale is used directly, not as the quotient of the rounded extents.
    attr.ratio = scale > 0.0 ? 1.0 / scale : static_cast<double>(extent) / static_cast<double>(attr.out_extent);
  }
  constexpr Filter kFilters[] = {Filter::kNearest, Filter::kNearestExact, Filter::kLinear,
                                 Filter::kLinear,  Filter::kCubic,        Filter::kLinear};
  attr.filter = kFilters[static_cast<std::size_t>(static_cast<Interpolation>(params.mode))];
  attr.align_corners = params.align_corners;
  attr.antialias = params.antialias;
  return attr;
}

}  // namespace

namespace {
constexpr const char* kNames[] = {"nearest", "nearest-exact", "linear", "bilinear", "bicubic", "area"};
}  // namespace

Interpolation enumerator(std::string_view name, Interpolation) {
  return static_cast<Interpolation>(place_of("interpolate", name, kNames));
}

std::string to_string(Interpolation mode) {
  check_enumerator("to_string", "Interpolation", mode, Interpolation::kArea);
  return kNames[static_cast<std::size_t>(mode)];
}

namespace {

/// Modes of images with any leading axes; the others distinguish signals from images by the number of axes.
bool images_only(Interpolation mode) { return mode == Interpolation::kBilinear || mode == Interpolation::kBicubic; }

bool is_signal(const Tensor& input, Interpolation mode) { return !images_only(mode) && input.dim() == 3; }

void check_sizes(const InterpolateParams& params, bool signal) {
  const Size2& size = params.size;
  const Scale2& scale = params.scale_factor;
  const bool has_size = !(size == Size2{}), has_scale = scale.h != 0.0 || scale.w != 0.0;
  ADJOINT_CHECK(
      has_size != has_scale,
      "interpolate: exactly one of size and scale_factor must be given; got size ({}, {}), scale_factor ({}, {})",
      size.h, size.w, scale.h, scale.w);
  ADJOINT_CHECK(!has_size || (size.h >= 1 && size.w >= 1), "interpolate: size must be positive; got ({}, {})", size.h,
                size.w);
  ADJOINT_CHECK(!has_scale || (scale.h > 0.0 && scale.w > 0.0 && std::isfinite(scale.h + scale.w)),
                "interpolate: scale_factor must be positive and finite; got ({}, {})", scale.h, scale.w);
  ADJOINT_CHECK(!signal || (size.h == size.w && scale.h == scale.w),
                "interpolate: size and scale_factor of (N, C, L) must be one number; got size ({}, {}), scale_factor "
                "({}, {})",
                size.h, size.w, scale.h, scale.w);
}

void check(const Tensor& input, const InterpolateParams& params) {
  check_defined("interpolate", "input", input);
  const Interpolation mode = params.mode;
  check_enumerator("interpolate", "Interpolation", mode, Interpolation::kArea);
  const bool linear = mode == Interpolation::kLinear, signal = is_signal(input, mode);
  const bool fits = images_only(mode) ? input.dim() >= 2 : signal || (input.dim() == 4 && !linear);
  ADJOINT_CHECK(fits, "interpolate: input must be {} for mode {}; got {}",
                images_only(mode) ? "(..., H, W)"
                : linear          ? "(N, C, L)"
                                  : "(N, C, L) or (N, C, H, W)",
                to_string(mode), input.shape());
  ADJOINT_CHECK(is_floating_point(input.dtype()),
                "interpolate: input must be floating point; got {}; convert it with .to(kFloat32)", input.dtype());
  ADJOINT_CHECK((signal || input.size(-2) >= 1) && input.size(-1) >= 1,
                "interpolate: height and width must be positive; got input {}", input.shape());
  check_sizes(params, signal);
  ADJOINT_CHECK(!params.antialias || images_only(mode),
                "interpolate: antialias must stand beside kBilinear or kBicubic; got mode {}", to_string(mode));
  ADJOINT_CHECK(!params.align_corners || images_only(mode) || linear,
                "interpolate: align_corners must stand beside kLinear, kBilinear or kBicubic; got mode {}",
                to_string(mode));
  ADJOINT_CHECK(!params.antialias || !params.align_corners,
                "interpolate: antialias and align_corners exclude each other; got both");
}

/// Throws Error if the result's bytes, in `computed`, exceed 63 bits.
void check_result(const Tensor& input, DType computed, bool signal, std::int64_t height, std::int64_t width) {
  Shape shape = input.shape();
  if (!signal) shape[shape.size() - 2] = height;
  shape[shape.size() - 1] = width;
  std::int64_t bytes = input.numel() == 0 ? 0 : element_size(computed);
  bool overflows = false;
  for (const std::int64_t extent : shape) overflows |= __builtin_mul_overflow(bytes, extent, &bytes);
  ADJOINT_CHECK(!overflows, "interpolate: the result's bytes must fit in 63 bits; got input {}, size ({}, {})",
                input.shape(), height, width);
}

}  // namespace

Tensor interpolate(const Tensor& input, const InterpolateParams& params) {
  const OpScope scope("interpolate");
  check(input, params);
  const ResampleAttr along_width = axis_attr(params, -1, input.size(-1), params.size.w, params.scale_factor.w);
  const bool signal = is_signal(input, params.mode);
  const ResampleAttr along_height =
      signal ? ResampleAttr{.axis = -2} : axis_attr(params, -2, input.size(-2), params.size.h, params.scale_factor.h);
  const DType computed = element_size(input.dtype()) == 2 ? kFloat32 : input.dtype();
  check_result(input, computed, signal, along_height.out_extent, along_width.out_extent);
  if (stays(along_width) && stays(along_height)) return input.clone();
  if (params.mode == Interpolation::kArea) {
    return signal ? adaptive_avg_pool1d(input, along_width.out_extent)
                  : adaptive_avg_pool2d(input, {along_height.out_extent, along_width.out_extent});
  }
  const auto copied = [](const ResampleAttr& attr) {
    const ResampleAttr identity{.axis = attr.axis,
                                .in_extent = attr.in_extent,
                                .out_extent = attr.in_extent,
                                .filter = Filter::kNearest};
    return stays(attr) ? identity : attr;
  };
  return resample(input, {copied(along_height), copied(along_width)});
}

}  // namespace adjoint
