// grid_sample: one kernel forward. Its gradients are sums over taps of the elements that take and accumulate select,
// with weights that are polynomials of each position's fraction, which carry the second derivatives.
#include <adjoint/ops/grid/grid.h>

#include <adjoint/core/autograd/op.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/graph/onnx_call.h>
#include <adjoint/ops/elementwise/widened.h>
#include <adjoint/ops/grid/kernels.h>
#include <adjoint/ops/index/pick.h>
#include <adjoint/ops/join/join.h>

#include <algorithm>
#include <array>
#include <vector>

namespace adjoint {
namespace {

std::int64_t taps_of_point(const GridAttr& attr) {
  const std::int64_t taps = attr.taps();
  return attr.axes == 3 ? taps * taps * taps : taps * taps;
}

// The axes of the result's points.
Shape points_shape(const GridAttr& attr) {
  return attr.axes == 3 ? Shape{attr.layers, attr.rows, attr.columns} : Shape{attr.rows, attr.columns};
}

// grid (N, H', W', 2) -> fraction, slope (N, axes, points), index.
Specs infer_taps(Operands in, const GridAttr& attr) {
  const Shape axes{attr.batch, attr.axes, attr.points()};
  return {.specs = {TensorSpec{axes, in[0].dtype()}, TensorSpec{axes, in[0].dtype()},
                    TensorSpec{{attr.batch, taps_of_point(attr), attr.points()}, kInt64}},
          .results = 3};
}

// From (N, axes, points) to the grid's shape.
Tensor as_grid(const Tensor& axes, const GridAttr& attr) {
  Shape shape = points_shape(attr);
  shape.insert(0, attr.batch);
  shape.push_back(attr.axes);
  return axes.transpose(1, 2).reshape(shape);
}

// The slope is constant between kinks, so only the fraction has a gradient.
constinit const OpDef<GridAttr> taps_op{.name = "grid_taps",
                                        .infer = infer_taps,
                                        .cpu = cpu::grid_taps,
                                        .cuda = ADJOINT_IF_CUDA(cuda::grid_taps),
                                        .vjp = {{{kSaveOut1, [](const Ctx<GridAttr>& c) {
                                                    return c.grad.defined() ? as_grid(c.grad * c.outs[1], c.attr)
                                                                            : Tensor();
                                                  }}}}};

// Weights of one axis's taps, or their derivatives in the fraction.
std::array<Tensor, kMostTaps> weights(const GridAttr& attr, const Tensor& fraction, bool derivative) {
  std::array<Tensor, kMostTaps> all;
  for (int t = 0; t < attr.taps(); ++t) {
    const grid::Polynomial<double> p = grid::weight_of<double>(attr.mode, t);
    Tensor& sum = all[static_cast<std::size_t>(t)];
    sum = Tensor::zeros(fraction.shape(), fraction.options());
    for (int d = grid::kDegrees - 1; d >= (derivative ? 1 : 0); --d) {
      sum = sum * fraction + p.of[d] * (derivative ? d : 1);
    }
  }
  return all;
}

void grid_sample_gradients(const Ctx<GridAttr>& c, Needs needs, Results grads) {
  const GridAttr& attr = c.attr;
  const Tensor image = widened(c.in[0]), grid = widened(c.in[1]);
  const Shape planes{attr.batch, attr.channels, attr.points()};
  const Tensor g = widened(c.grad).reshape(planes);
  const std::array<Tensor, kMaxResults> found = apply_all(taps_op, {grid}, attr);
  const Tensor fraction = found[0], slope = found[1].detach(), index = found[2];
  const auto axes = static_cast<std::size_t>(attr.axes), taps = static_cast<std::size_t>(attr.taps());
  std::vector<std::array<Tensor, kMostTaps>> of, slopes;  // weights of each axis, x first, and their derivatives
  for (std::size_t axis = 0; axis < axes; ++axis) {
    const Tensor along = fraction.select(1, static_cast<std::int64_t>(axis));
    of.push_back(weights(attr, along, false));
    slopes.push_back(weights(attr, along, true));
  }
  const IndexAttr picks{{attr.batch * attr.channels, attr.pixels(), 1, attr.points(),
                         std::max<std::int64_t>(1, attr.channels), false},
                        image.shape(),
                        planes};
  const bool moves = needs[1] && attr.mode != GridSampleMode::kNearest;
  Tensor to_image;
  std::vector<Tensor> moved(axes);  // gradients of the fractions
  const auto add = [](Tensor& sum, const Tensor& part) { sum = sum.defined() ? sum + part : part; };
  for (std::int64_t t = 0; t < taps_of_point(attr); ++t) {
    std::vector<std::size_t> tap;  // of each axis
    for (auto rest = static_cast<std::size_t>(t); tap.size() < axes; rest /= taps) tap.push_back(rest % taps);
    // The product of the axes' weights, the last axis first, with the derivative along `derived`.
    const auto weight = [&](Tensor product, std::size_t derived) {
      for (std::size_t axis = axes; axis-- > 0;) {
        const Tensor& factor = (axis == derived ? slopes : of)[axis][tap[axis]];
        product = product.defined() ? product * factor : factor;
      }
      return product;
    };
    const Tensor pixels = index.select(1, t);
    if (needs[0]) to_image = accumulate(g * weight({}, axes).unsqueeze(1), pixels, to_image, picks);
    if (!moves) continue;
    const Tensor along = (g * take(image, pixels, picks)).sum(1);
    for (std::size_t axis = 0; axis < axes; ++axis) add(moved[axis], weight(along, axis));
  }
  if (needs[0]) grads[0] = to_image.to(c.in[0].dtype());
  if (needs[1]) {
    const Tensor along = moves ? stack(moved, 1) * slope : Tensor::zeros(slope.shape(), slope.options());
    grads[1] = as_grid(along, attr).to(c.in[1].dtype());
  }
}

constexpr std::array<const char*, 3> kModes{"bilinear", "nearest", "bicubic"};
constexpr std::array<const char*, 3> kPaddings{"zeros", "border", "reflection"};

OnnxValue grid_sample_onnx(OnnxCall& call, const GridAttr& attr) {
  if (attr.axes == 3) call.refuse("GridSample of operator set 17 accepts images, not volumes");
  return call.add("GridSample", {call.operand(0), call.operand(1)},
                  {{"mode", kModes[static_cast<std::size_t>(attr.mode)]},
                   {"padding_mode", kPaddings[static_cast<std::size_t>(attr.padding)]},
                   {"align_corners", attr.align_corners}});
}

constinit const OpDef<GridAttr> grid_sample_op{
    .name = "grid_sample",
    .infer =
        [](Operands in, const GridAttr& attr) {
          Shape shape = points_shape(attr);
          shape.insert(0, attr.channels);
          shape.insert(0, attr.batch);
          return TensorSpec{shape, in[0].dtype()};
        },
    .cpu = cpu::grid_sample,
    .cuda = ADJOINT_IF_CUDA(cuda::grid_sample),
    .formats = Formats::kImages,
    .onnx = grid_sample_onnx,
    .joint_vjp = {.saves = [](const GridAttr&, Needs) { return kSaveIn0 | kSaveIn1; }, .rule = grid_sample_gradients}};

}  // namespace

GridSampleMode enumerator(std::string_view name, GridSampleMode) {
  return static_cast<GridSampleMode>(place_of("grid_sample", name, kModes));
}

GridSamplePadding enumerator(std::string_view name, GridSamplePadding) {
  return static_cast<GridSamplePadding>(place_of("grid_sample", name, kPaddings));
}

Tensor grid_sample(const Tensor& input, const Tensor& grid, const GridSampleParams& params) {
  const OpScope scope("grid_sample");
  check_defined("grid_sample", "input", input);
  check_defined("grid_sample", "grid", grid);
  if (const detail::AutocastCall cast(MixedPrecision::kWidest, {input, grid}); cast) {
    return grid_sample(cast[0], cast[1], params);
  }
  check_floating("grid_sample", input.dtype());
  ADJOINT_CHECK(grid.dtype() == input.dtype(),
                "grid_sample: input and grid must share a dtype; got {} and {}; convert one with to()", input.dtype(),
                grid.dtype());
  const std::int64_t rank = input.dim(), axes = rank - 2;
  ADJOINT_CHECK(
      (rank == 4 || rank == 5) && grid.dim() == rank && grid.size(rank - 1) == axes && grid.size(0) == input.size(0),
      "grid_sample: input must be (N, C, H, W) and grid (N, H', W', 2), or input (N, C, D, H, W) and grid (N, "
      "D', H', W', 3); got {} and {}",
      input.shape(), grid.shape());
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  for (std::int64_t axis = 2; axis < rank; ++axis) {
    ADJOINT_CHECK(input.size(axis) >= 1 && input.size(axis) <= kMost,
                  "grid_sample: input's {}height and width must be from 1 to 2^30; got {}", axes == 3 ? "depth, " : "",
                  input.shape());
  }
  check_enumerator("grid_sample", "GridSampleMode", params.mode, GridSampleMode::kBicubic);
  check_enumerator("grid_sample", "GridSamplePadding", params.padding_mode, GridSamplePadding::kReflection);
  ADJOINT_CHECK(axes == 2 || params.mode != GridSampleMode::kBicubic,
                "grid_sample: kBicubic needs an image (N, C, H, W); got {}", input.shape());
  // Throws if the product exceeds 63 bits.
  static_cast<void>(Shape(grid.shape().begin() + 1, grid.shape().end() - 1).numel());
  const GridAttr attr{.mode = params.mode,
                      .padding = params.padding_mode,
                      .align_corners = params.align_corners,
                      .axes = static_cast<int>(axes),
                      .batch = input.size(0),
                      .channels = input.size(1),
                      .depth = axes == 3 ? input.size(2) : 1,
                      .height = input.size(-2),
                      .width = input.size(-1),
                      .layers = axes == 3 ? grid.size(1) : 1,
                      .rows = grid.size(-3),
                      .columns = grid.size(-2)};
  return apply(grid_sample_op, {input, grid}, attr);
}

}  // namespace adjoint
