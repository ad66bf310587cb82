// interpolate: a linear operator along both axes, with its transpose as gradient. An axis whose extent does not change
// is left alone. Volumes are images twice: of (H, W), and of depth and (H W).
#include <adjoint/ops/resample/resample.h>

#include <adjoint/core/autograd/op.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/graph/onnx_call.h>
#include <adjoint/core/tensor/copy.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/ops/elementwise/widened.h>
#include <adjoint/ops/pool/pool.h>
#include <adjoint/ops/resample/kernels.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

namespace adjoint {
namespace {

Tensor resample(const Tensor& image, const PlaneAttr& attr);
Tensor resample_adjoint(const Tensor& resampled, const PlaneAttr& attr);

bool stays(const ResampleAttr& attr) { return attr.out_extent == attr.in_extent; }

Shape with_extent(Shape shape, const ResampleAttr& attr, bool transposed) {
  // A signal's height does not change and is not a separate axis.
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
  if (attr.w.axis == -1 && cuda::resample_plane(in[0], out, attr, transposed)) return;
  along_axes(cuda::resample_axis, in[0], out, attr, transposed);
}
#endif

// Both axes are before the channels. On a GPU, both axes of 16 bits together, with copies around them, are faster than
// one axis after the other in float32.
std::optional<PlaneAttr> in_memory_order(Operands in, const PlaneAttr& attr) {
  if (in[0].device().is_cuda() && element_size(in[0].dtype()) == 2) return {};
  PlaneAttr own = attr;
  --own.h.axis, --own.w.axis;
  return own;
}

// ---- ONNX, whose Resize computes positions in float32.

float onnx_scale(const ResampleAttr& attr) {
  if (attr.scale > 0.0 && !stays(attr)) return static_cast<float>(attr.scale);
  return static_cast<float>(attr.out_extent) / static_cast<float>(attr.in_extent);
}

// Returns true if the factor gives the result's extent.
bool resizes_by_scale(const ResampleAttr& attr) {
  const float scaled = static_cast<float>(attr.in_extent) * onnx_scale(attr);
  return stays(attr) || (attr.scale > 0.0 && static_cast<std::int64_t>(scaled) == attr.out_extent);
}

// Returns true if Resize copies the same inputs. It may round a position that is a whole number down to the one before.
bool copies_alike(const ResampleAttr& attr) {
  const float scale = onnx_scale(attr);
  for (std::int64_t o = 0; o < attr.out_extent && !stays(attr); ++o) {
    const auto to = static_cast<float>(o);
    const float from =
        attr.filter == Filter::kNearest ? std::floor(to / scale) : std::round((to + 0.5F) / scale - 0.5F);
    if (band::clamped(static_cast<std::int64_t>(from), attr.in_extent) != band::run_of(attr, o).start) return false;
  }
  return true;
}

// One axis, by the inputs that it copies or by its matrix.
OnnxValue along_axis_onnx(OnnxCall& call, OnnxValue x, const ResampleAttr& attr) {
  if (stays(attr)) return x;
  const bool is_height = attr.axis == -2;
  std::vector<std::int64_t> inputs;
  std::vector<double> matrix(static_cast<std::size_t>(attr.in_extent * attr.out_extent)),
      weights(static_cast<std::size_t>(band::max_taps(attr)));
  for (std::int64_t o = 0; o < attr.out_extent; ++o) {
    const band::Run run = band::run_of(attr, o);
    inputs.push_back(run.start);
    band::weights_of(attr, o, weights.data());
    for (std::int64_t i = run.start; i < run.end; ++i) {
      const std::int64_t place = is_height ? o * attr.in_extent + i : i * attr.out_extent + o;
      matrix[static_cast<std::size_t>(place)] = weights[static_cast<std::size_t>(i - run.start)];
    }
  }
  if (band::copies(attr))
    return call.add("Gather", {x, call.integers(inputs)}, {{"axis", static_cast<std::int64_t>(attr.axis)}});
  const Shape shape = is_height ? Shape{attr.out_extent, attr.in_extent} : Shape{attr.in_extent, attr.out_extent};
  const OnnxValue factor = call.constant(Tensor::from_vector(matrix, shape, {.dtype = call.in[0].dtype()}));
  return is_height ? call.add("MatMul", {factor, x}) : call.add("MatMul", {x, factor});
}

OnnxValue resample_onnx(OnnxCall& call, const PlaneAttr& attr) {
  const ResampleAttr& changed = stays(attr.w) ? attr.h : attr.w;
  // Resize of operator set 17 does not antialias, which makes a difference where an image shrinks.
  const bool shrinks = attr.h.out_extent < attr.h.in_extent || attr.w.out_extent < attr.w.in_extent;
  if ((changed.antialias && shrinks) || (band::copies(changed) && !(copies_alike(attr.h) && copies_alike(attr.w))))
    return along_axis_onnx(call, along_axis_onnx(call, call.operand(0), attr.h), attr.w);
  OnnxAttributes attributes;
  const char *mode = "nearest", *positions = changed.align_corners ? "align_corners" : "half_pixel";
  switch (changed.filter) {
    case Filter::kNearest:
      positions = "asymmetric";
      attributes.emplace_back("nearest_mode", "floor");
      break;
    case Filter::kNearestExact: attributes.emplace_back("nearest_mode", "round_prefer_ceil"); break;
    case Filter::kLinear: mode = "linear"; break;
    case Filter::kCubic:
      mode = "cubic";
      if (!changed.antialias) break;
      attributes.emplace_back("cubic_coeff_a", -0.5);
      attributes.emplace_back("exclude_outside", true);
      break;
  }
  attributes.emplace_back("mode", mode);
  attributes.emplace_back("coordinate_transformation_mode", positions);
  OnnxValue x = call.operand(0);
  Shape from = call.in[0].shape(), to = call.out[0].shape();
  // ONNX Runtime has cubic filters for images of two or four axes, linear ones for up to four.
  const bool as_batch = from.size() > 4 ? !band::copies(changed) : from.size() == 3 && changed.filter == Filter::kCubic;
  if (as_batch) {
    for (Shape* const shape : {&from, &to}) {
      const std::int64_t height = (*shape)[shape->size() - 2], width = (*shape)[shape->size() - 1];
      *shape = {shape->numel() / (height * width), 1, height, width};
    }
    x = call.reshape(x, from);
  }
  if (resizes_by_scale(attr.h) && resizes_by_scale(attr.w)) {
    std::vector<float> scales(from.size(), 1.0F);
    if (!stays(attr.h)) scales[scales.size() - 2] = onnx_scale(attr.h);
    scales.back() = onnx_scale(attr.w);
    x = call.add("Resize", {x, {}, call.constant(Tensor::from_vector(scales, {std::ssize(scales)}))}, attributes);
  } else {
    x = call.add("Resize", {x, {}, {}, call.integers(to)}, attributes);
  }
  return as_batch ? call.reshape(x, call.out[0].shape()) : x;
}

constinit const OpDef<PlaneAttr> resample_op{
    .name = "resample",
    .infer = [](Operands in, const PlaneAttr& attr) { return with_extents(in[0], attr, false); },
    .cpu = on_cpu<false>,
    .cuda = ADJOINT_IF_CUDA(on_cuda<false>),
    .formats = Formats::kImages,
    .in_memory_order = in_memory_order,
    .onnx = resample_onnx,
    .vjp = {{{kSaveNone, [](const Ctx<PlaneAttr>& c) { return resample_adjoint(c.grad, c.attr); }}}}};

constinit const OpDef<PlaneAttr> resample_adjoint_op{
    .name = "resample_adjoint",
    .infer = [](Operands in, const PlaneAttr& attr) { return with_extents(in[0], attr, true); },
    .cpu = on_cpu<true>,
    .cuda = ADJOINT_IF_CUDA(on_cuda<true>),
    .formats = Formats::kImages,
    .in_memory_order = in_memory_order,
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
  constexpr Filter kFilters[] = {Filter::kNearest, Filter::kNearestExact, Filter::kLinear, Filter::kLinear,
                                 Filter::kLinear,  Filter::kCubic,        Filter::kLinear};
  attr.filter = kFilters[static_cast<std::size_t>(static_cast<Interpolation>(params.mode))];
  attr.align_corners = params.align_corners;
  attr.antialias = params.antialias;
  attr.scale = scale;
  return attr;
}

}  // namespace

namespace {
constexpr const char* kNames[] = {"nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic", "area"};
}  // namespace

Interpolation enumerator(std::string_view name, Interpolation) {
  return static_cast<Interpolation>(place_of("interpolate", name, kNames));
}

std::string to_string(Interpolation mode) {
  check_enumerator("to_string", "Interpolation", mode, Interpolation::kArea);
  return kNames[static_cast<std::size_t>(mode)];
}

namespace {

/// Modes of images with any leading axes; the others take signals, images or volumes, by the number of axes.
bool images_only(Interpolation mode) { return mode == Interpolation::kBilinear || mode == Interpolation::kBicubic; }

/// The axes that a mode resamples, and the form of its operands.
struct Form {
  std::size_t axes;  // 0: those behind N and C
  const char* text;
};
Form form_of(Interpolation mode) {
  switch (mode) {
    case Interpolation::kLinear: return {1, "(N, C, L)"};
    case Interpolation::kTrilinear: return {3, "(N, C, D, H, W)"};
    case Interpolation::kBilinear:
    case Interpolation::kBicubic: return {2, "(..., H, W)"};
    default: return {0, "(N, C, L), (N, C, H, W) or (N, C, D, H, W)"};
  }
}

std::size_t axes_of(const Tensor& input, Interpolation mode) {
  const Form form = form_of(mode);
  const auto rank = static_cast<std::size_t>(input.dim());
  const std::size_t axes = form.axes != 0 ? form.axes : rank - 2;
  const bool fits = images_only(mode) ? rank >= 2 : rank == axes + 2 && axes >= 1 && axes <= 3;
  ADJOINT_CHECK(fits, "interpolate: input must be {} for mode {}; got {}", form.text, to_string(mode), input.shape());
  return axes;
}

template <class Number>
std::string text(const OfAxes<Number>& of, std::size_t axes) {
  const bool has_depth = axes == 3 || (of.d != 0 && !(of.d == of.h && of.h == of.w));
  return has_depth ? fmt::format("({}, {}, {})", of.d, of.h, of.w) : fmt::format("({}, {})", of.h, of.w);
}

/// Of the numbers for depth, height and width, the last `axes` count.
template <class Number>
std::array<Number, 3> last_axes(const OfAxes<Number>& of, std::size_t axes) {
  return {axes < 3 ? of.w : of.d, axes < 2 ? of.w : of.h, of.w};
}

void check_sizes(const InterpolateParams& params, std::size_t axes) {
  const AxisSizes& size = params.size;
  const AxisScales& scale = params.scale_factor;
  const std::string both = fmt::format("size {}, scale_factor {}", text(size, axes), text(scale, axes));
  const bool has_size = !(size == AxisSizes{}), has_scale = !(scale == AxisScales{});
  ADJOINT_CHECK(has_size != has_scale, "interpolate: exactly one of size and scale_factor must be given; got {}", both);
  const auto fits = [&](const auto& of) {
    const bool is_one = of.d == of.h && of.h == of.w;
    return is_one || axes == 3 || (of.d == 0 && (axes == 2 || of.h == of.w));
  };
  ADJOINT_CHECK(fits(size) && fits(scale), "interpolate: size and scale_factor of {} must be one number{}; got {}",
                axes == 1 ? "(N, C, L)" : "an image", axes == 1 ? "" : " or {h, w}", both);
  for (const std::int64_t extent : last_axes(size, axes))
    ADJOINT_CHECK(!has_size || extent >= 1, "interpolate: size must be positive; got {}", text(size, axes));
  for (const double factor : last_axes(scale, axes)) {
    ADJOINT_CHECK(!has_scale || (factor > 0.0 && std::isfinite(factor)),
                  "interpolate: scale_factor must be positive and finite; got {}", text(scale, axes));
  }
}

/// Returns the number of axes that are resampled.
std::size_t check(const Tensor& input, const InterpolateParams& params) {
  check_defined("interpolate", "input", input);
  const Interpolation mode = params.mode;
  check_enumerator("interpolate", "Interpolation", mode, Interpolation::kArea);
  const std::size_t axes = axes_of(input, mode);
  ADJOINT_CHECK(is_floating_point(input.dtype()),
                "interpolate: input must be floating point; got {}; convert it with .to(kFloat32)", input.dtype());
  const Shape& shape = input.shape();
  ADJOINT_CHECK(std::all_of(shape.end() - axes, shape.end(), [](std::int64_t extent) { return extent >= 1; }),
                "interpolate: {}height and width must be positive; got input {}", axes == 3 ? "depth, " : "", shape);
  check_sizes(params, axes);
  ADJOINT_CHECK(!params.antialias || images_only(mode),
                "interpolate: antialias needs kBilinear or kBicubic; got mode {}", to_string(mode));
  const bool filters = form_of(mode).axes != 0;
  ADJOINT_CHECK(!params.align_corners || filters,
                "interpolate: align_corners needs kLinear, kBilinear, kTrilinear or kBicubic; got mode {}",
                to_string(mode));
  ADJOINT_CHECK(!params.antialias || !params.align_corners,
                "interpolate: antialias and align_corners exclude each other; got both");
  return axes;
}

/// Depth, height and width; those that are not axes of the input stay.
using AxisAttrs = std::array<ResampleAttr, 3>;

/// Throws Error if the result's bytes, in `computed`, exceed 63 bits.
void check_result(const Tensor& input, DType computed, const AxisAttrs& attrs, std::size_t axes) {
  Shape shape = input.shape();
  for (std::size_t i = 0; i < axes; ++i) shape[shape.size() - 1 - i] = attrs[attrs.size() - 1 - i].out_extent;
  std::int64_t bytes = input.numel() == 0 ? 0 : element_size(computed);
  bool overflows = false;
  for (const std::int64_t extent : shape) overflows |= __builtin_mul_overflow(bytes, extent, &bytes);
  ADJOINT_CHECK(!overflows, "interpolate: the result's bytes must fit in 63 bits; got input {}, result {}",
                input.shape(), shape);
}

/// The axis, or the identity if its extent does not change.
ResampleAttr copied(const ResampleAttr& attr) {
  const ResampleAttr identity{.axis = attr.axis,
                              .in_extent = attr.in_extent,
                              .out_extent = attr.in_extent,
                              .filter = Filter::kNearest};
  return stays(attr) ? identity : attr;
}

Tensor averaged(const Tensor& input, const AxisAttrs& attrs, std::size_t axes) {
  const std::int64_t d = attrs[0].out_extent, h = attrs[1].out_extent, w = attrs[2].out_extent;
  return axes == 1   ? adaptive_avg_pool1d(input, w)
         : axes == 2 ? adaptive_avg_pool2d(input, {h, w})
                     : adaptive_avg_pool3d(input, {d, h, w});
}

/// Volumes (N, C, D, H, W) along D, as images (N, C, D, H W).
Tensor resample_depth(const Tensor& volume, ResampleAttr attr) {
  Shape image = volume.shape(), result = image;
  image[3] *= image[4];
  image.erase(4);
  result[2] = attr.out_extent;
  attr.axis = -2;
  const ResampleAttr width{.axis = -1, .in_extent = image[3], .out_extent = image[3], .filter = Filter::kNearest};
  return resample(volume.reshape(image), {attr, width}).reshape(result);
}

}  // namespace

Tensor interpolate(const Tensor& input, const InterpolateParams& params) {
  const OpScope scope("interpolate");
  const std::size_t axes = check(input, params);
  AxisAttrs attrs;
  const std::array sizes = last_axes(params.size, axes);
  const std::array scales = last_axes(params.scale_factor, axes);
  for (std::size_t i = attrs.size(); i-- > 0;) {
    const int axis = static_cast<int>(i) - 3;
    const bool exists = i + axes >= attrs.size();
    attrs[i] = exists ? axis_attr(params, axis, input.size(axis), sizes[i], scales[i]) : ResampleAttr{.axis = axis};
  }
  const DType computed = element_size(input.dtype()) == 2 ? kFloat32 : input.dtype();
  check_result(input, computed, attrs, axes);
  const auto& [depth, height, width] = attrs;
  const bool plane_stays = stays(height) && stays(width);
  if (plane_stays && stays(depth)) return input.clone();
  if (params.mode == Interpolation::kArea) return averaged(input, attrs, axes);
  const PlaneAttr plane{copied(height), copied(width)};
  if (stays(depth)) return resample(input, plane);
  if (plane_stays) return resample_depth(input, depth);
  // The order that keeps the intermediate volume small.
  const bool depth_first = height.out_extent * width.out_extent >= height.in_extent * width.in_extent;
  const Tensor x = widened(input);
  const Tensor y = depth_first ? resample(resample_depth(x, depth), plane) : resample_depth(resample(x, plane), depth);
  return y.to(input.dtype());
}

}  // namespace adjoint
