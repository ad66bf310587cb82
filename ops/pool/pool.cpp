// Pooling: the windows' inputs and the results' places. Maxima are a gather by places, whose gradient is the sum over
// windows by the same places; an average and its adjoint are each other's gradient.
#include <adjoint/ops/pool/pool.h>

#include <adjoint/core/autograd/op.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/ops/pool/kernels.h>
#include <adjoint/ops/pool/onnx.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

namespace adjoint {
namespace {

constexpr std::int64_t kLimit = std::int64_t{1} << 30;

Shape with_extents(const Tensor& x, std::size_t axes, const Size3& extents) {
  Shape shape = x.shape();
  const std::array all{extents.w, extents.h, extents.d};
  for (std::size_t i = 0; i < axes; ++i) shape[shape.size() - 1 - i] = all[i];
  return shape;
}
Shape pooled_shape(const Tensor& x, const PoolAttr& attr) {
  return with_extents(x, attr.axes, {attr.d.out, attr.h.out, attr.w.out});
}
Shape input_shape(const Tensor& g, const PoolAttr& attr) {
  return with_extents(g, attr.axes, {attr.d.in, attr.h.in, attr.w.in});
}

// ---- Operators.

// Of batches alone: of one sample, such as (C, H, W), axis 1 is one of the pooled axes.
std::optional<PoolAttr> in_memory_order(Operands in, const PoolAttr& attr) {
  if (in[0].shape().size() != attr.axes + 2) return {};
  PoolAttr own = attr;
  own.channels = in[0].size(1);
  return own;
}

Tensor taken(const Tensor& x, const Tensor& places, const PoolAttr& attr);
Tensor exchanged(const Tensor& x, const Tensor& places, const Tensor& back, std::int64_t volumes);
Tensor max_adjoint(const Tensor& g, const Tensor& places, const PoolAttr& attr);
Tensor avg(const Tensor& x, const PoolAttr& attr);
Tensor avg_adjoint(const Tensor& g, const PoolAttr& attr);

constinit const OpDef<PoolAttr> max_op{.name = "max_pool",
                                       .infer =
                                           [](Operands in, const PoolAttr& attr) {
                                             const Shape shape = pooled_shape(in[0], attr);
                                             const bool narrow = !attr.with_indices && attr.in_volume() < INT32_MAX;
                                             Specs specs;
                                             specs.specs[0] = {shape, in[0].dtype()};
                                             specs.specs[1] = {shape, narrow ? kInt32 : kInt64};
                                             (attr.with_indices ? specs.results : specs.kept) += 1;
                                             return specs;
                                           },
                                       .cpu = cpu::max_pool,
                                       .cuda = ADJOINT_IF_CUDA(cuda::max_pool),
                                       .formats = Formats::kImages,
                                       .in_memory_order = in_memory_order,
                                       .onnx = max_pool_onnx,
                                       .vjp = {Vjp<PoolAttr>{kSaveOut1, [](const Ctx<PoolAttr>& c) {
                                                               return max_adjoint(c.grad, c.outs[1], c.attr);
                                                             }}}};

constinit const OpDef<PoolAttr> max_adjoint_op{.name = "max_pool_adjoint",
                                               .infer =
                                                   [](Operands in, const PoolAttr& attr) {
                                                     return TensorSpec{input_shape(in[0], attr), in[0].dtype()};
                                                   },
                                               .cpu = cpu::max_pool_adjoint,
                                               .cuda = ADJOINT_IF_CUDA(cuda::max_pool_adjoint),
                                               .formats = Formats::kImages,
                                               .in_memory_order = in_memory_order,
                                               .vjp = {Vjp<PoolAttr>{kSaveIn1, [](const Ctx<PoolAttr>& c) {
                                                                       return taken(c.grad, c.in[1], c.attr);
                                                                     }}}};

std::int64_t volumes_of(const Tensor& places, const PoolAttr& attr) { return places.numel() / attr.out_volume(); }

constinit const OpDef<PoolAttr> take_op{
    .name = "max_pool_take",
    .infer =
        [](Operands in, const PoolAttr&) {
          return TensorSpec{in[1].shape(), in[0].dtype()};
        },
    .cpu = [](Operands in, Tensor& out, const PoolAttr& attr) { cpu::take(in, out, volumes_of(in[1], attr)); },
    .cuda = ADJOINT_IF_CUDA(
        ([](Operands in, Tensor& out, const PoolAttr& attr) { cuda::take(in, out, volumes_of(in[1], attr)); })),
    .formats = Formats::kImages,
    .vjp = {Vjp<PoolAttr>{kSaveIn1, [](const Ctx<PoolAttr>& c) { return max_adjoint(c.grad, c.in[1], c.attr); }}}};

constinit const OpDef<PoolAttr> avg_op{.name = "avg_pool",
                                       .infer =
                                           [](Operands in, const PoolAttr& attr) {
                                             return TensorSpec{pooled_shape(in[0], attr), in[0].dtype()};
                                           },
                                       .cpu = cpu::avg_pool,
                                       .cuda = ADJOINT_IF_CUDA(cuda::avg_pool),
                                       .formats = Formats::kImages,
                                       .in_memory_order = in_memory_order,
                                       .onnx = avg_pool_onnx,
                                       .vjp = {Vjp<PoolAttr>{kSaveNone, [](const Ctx<PoolAttr>& c) {
                                                               return avg_adjoint(c.grad, c.attr);
                                                             }}}};

constinit const OpDef<PoolAttr> avg_adjoint_op{.name = "avg_pool_adjoint",
                                               .infer =
                                                   [](Operands in, const PoolAttr& attr) {
                                                     return TensorSpec{input_shape(in[0], attr), in[0].dtype()};
                                                   },
                                               .cpu = cpu::avg_pool_adjoint,
                                               .cuda = ADJOINT_IF_CUDA(cuda::avg_pool_adjoint),
                                               .formats = Formats::kImages,
                                               .in_memory_order = in_memory_order,
                                               .vjp = {Vjp<PoolAttr>{kSaveNone, [](const Ctx<PoolAttr>& c) {
                                                                       return avg(c.grad, c.attr);
                                                                     }}}};

// The mappings to and from places are inverses, so the gradient is the operator in the other direction.
constinit const OpDef<std::int64_t> exchange_op{
    .name = "max_unpool_take",
    .infer =
        [](Operands in, const std::int64_t&) {
          return TensorSpec{in[1].shape(), in[0].dtype()};
        },
    .cpu = [](Operands in, Tensor& out, const std::int64_t& volumes) { cpu::take(in, out, volumes); },
    .cuda =
        ADJOINT_IF_CUDA(([](Operands in, Tensor& out, const std::int64_t& volumes) { cuda::take(in, out, volumes); })),
    .formats = Formats::kImages,
    .onnx = max_unpool_take_onnx,
    .vjp = {Vjp<std::int64_t>{kSaveIn1 | kSaveIn2,
                              [](const Ctx<std::int64_t>& c) { return exchanged(c.grad, c.in[2], c.in[1], c.attr); }}}};

constinit const OpDef<UnpoolAttr> unpool_places_op{.name = "max_unpool_places",
                                                   .infer =
                                                       [](Operands in, const UnpoolAttr& attr) {
                                                         Specs specs;
                                                         specs.specs[0] = {attr.shape, kInt64};
                                                         specs.specs[1] = {in[0].shape(), kInt64};
                                                         specs.results = 2;
                                                         return specs;
                                                       },
                                                   .cpu = cpu::unpool_places,
                                                   .cuda = ADJOINT_IF_CUDA(cuda::unpool_places),
                                                   .onnx = max_unpool_places_onnx};

Tensor taken(const Tensor& x, const Tensor& places, const PoolAttr& attr) { return apply(take_op, {x, places}, attr); }
Tensor exchanged(const Tensor& x, const Tensor& places, const Tensor& back, std::int64_t volumes) {
  return apply(exchange_op, {x, places, back}, volumes);
}
Tensor max_adjoint(const Tensor& g, const Tensor& places, const PoolAttr& attr) {
  return apply(max_adjoint_op, {g, places}, attr);
}
Tensor avg(const Tensor& x, const PoolAttr& attr) { return apply(avg_op, {x}, attr); }
Tensor avg_adjoint(const Tensor& g, const PoolAttr& attr) { return apply(avg_adjoint_op, {g}, attr); }

// ---- Arguments. A 2-D problem is one of depth 1, a 1-D problem one of height 1, too.

struct Problem {
  const char* op;
  const Tensor& input;
  std::size_t axes;

  std::string text(const Size3& size) const {
    if (axes == 1) return std::to_string(size.w);
    return axes == 2 ? fmt::format("({}, {})", size.h, size.w) : fmt::format("({}, {}, {})", size.d, size.h, size.w);
  }
  Size3 extents() const { return {axes < 3 ? 1 : input.size(-3), axes < 2 ? 1 : input.size(-2), input.size(-1)}; }

  void check() const {
    check_defined(op, "input", input);
    const auto rank = static_cast<std::size_t>(input.dim());
    ADJOINT_CHECK(rank == axes + 1 || rank == axes + 2, "{}: input must be {}; got {}", op,
                  axes == 1   ? "(N, C, L) or (C, L)"
                  : axes == 2 ? "(N, C, H, W) or (C, H, W)"
                              : "(N, C, D, H, W) or (C, D, H, W)",
                  input.shape());
    check_floating(op, input.dtype());
    for (std::size_t axis = rank - axes - 1; axis < rank; ++axis) {
      ADJOINT_CHECK(input.shape()[axis] > 0 && input.shape()[axis] < kLimit,
                    "{}: extents other than the batch's must be from 1 to 2^30 - 1; got input {}", op, input.shape());
    }
    const Size3 in = extents();
    // Throws if the product exceeds 63 bits, which an empty batch allows.
    static_cast<void>(Shape{in.d, in.h, in.w}.numel());
  }
  void check_range(const char* option, const Size3& size, std::int64_t least) const {
    const std::array all{size.w, size.h, size.d};
    for (std::size_t i = 0; i < axes; ++i) {
      ADJOINT_CHECK(all[i] >= least && all[i] < kLimit, "{}: {} must be from {} to 2^30 - 1; got {}", op, option, least,
                    text(size));
    }
  }
};

// A problem of fewer axes has values of the others, too, which leave those axes as they are.
struct Window {
  Size3 kernel, stride, padding, dilation;
  bool ceil_mode;
};

PoolAxis pool_axis(const Problem& p, std::int64_t in, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                   std::int64_t dilation, bool ceil_mode, const Window& w) {
  const std::int64_t extent = dilation * (kernel - 1) + 1, room = in + 2 * padding - extent;
  ADJOINT_CHECK(extent < kLimit, "{}: a window's extent must be below 2^30; got kernel_size {}, dilation {}", p.op,
                p.text(w.kernel), p.text(w.dilation));
  ADJOINT_CHECK(padding <= extent / 2, "{}: padding must be at most half of a window's extent; got {}, kernel_size {}",
                p.op, p.text(w.padding), p.text(w.kernel));
  const std::int64_t last = room + (ceil_mode ? stride - 1 : 0);  // the last place where a window may begin
  std::int64_t out = last < 0 ? 0 : last / stride + 1;
  if (ceil_mode && (out - 1) * stride >= in + padding) --out;
  ADJOINT_CHECK(out >= 1, "{}: a window must fit; got input {}, kernel_size {}, padding {}, dilation {}", p.op,
                p.input.shape(), p.text(w.kernel), p.text(w.padding), p.text(w.dilation));
  const auto narrow = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
  return {narrow(in),
          narrow(out),
          narrow(kernel),
          narrow(stride),
          narrow(padding),
          narrow(dilation),
          Divider(static_cast<std::uint32_t>(stride))};
}

PoolAttr pool_attr(const Problem& p, const Window& w) {
  p.check();
  p.check_range("kernel_size", w.kernel, 1);
  p.check_range("stride", w.stride, 0);
  p.check_range("padding", w.padding, 0);
  p.check_range("dilation", w.dilation, 1);
  ADJOINT_CHECK(w.kernel.h * w.kernel.w < (std::int64_t{1} << 62) / w.kernel.d,
                "{}: a window must have fewer than 2^62 elements; got kernel_size {}", p.op, p.text(w.kernel));
  const Size3 in = p.extents();
  const auto axis = [&](std::int64_t Size3::*of) {
    const std::int64_t stride = w.stride.*of == 0 ? w.kernel.*of : w.stride.*of;
    return pool_axis(p, in.*of, w.kernel.*of, stride, w.padding.*of, w.dilation.*of, w.ceil_mode, w);
  };
  return {.axes = p.axes, .d = axis(&Size3::d), .h = axis(&Size3::h), .w = axis(&Size3::w), .ceil_mode = w.ceil_mode};
}

PoolAttr adaptive_attr(const Problem& p, const Size3& output_size) {
  p.check();
  p.check_range("output_size", output_size, 0);
  const auto axis = [&](std::int64_t in, std::int64_t out) {
    return PoolAxis{static_cast<std::int32_t>(in), static_cast<std::int32_t>(out == 0 ? in : out), 0};
  };
  const Size3 in = p.extents();
  return {.axes = p.axes,
          .d = axis(in.d, output_size.d),
          .h = axis(in.h, output_size.h),
          .w = axis(in.w, output_size.w)};
}

// Numbers of windows that leave the missing axes as they are.
Size3 adaptive1d(std::int64_t output_size) { return {0, 0, output_size}; }
Size3 adaptive2d(const Size2& output_size) { return {0, output_size.h, output_size.w}; }

Window window1d(std::int64_t kernel, const MaxPool1dParams& p) {
  return {{1, 1, kernel}, {1, 1, p.stride}, {0, 0, p.padding}, {1, 1, p.dilation}, p.ceil_mode};
}
Window window2d(const Size2& kernel, const MaxPool2dParams& p) {
  return {{1, kernel.h, kernel.w},
          {1, p.stride.h, p.stride.w},
          {0, p.padding.h, p.padding.w},
          {1, p.dilation.h, p.dilation.w},
          p.ceil_mode};
}
Window window3d(const Size3& kernel, const MaxPool3dParams& p) {
  return {kernel, p.stride, p.padding, p.dilation, p.ceil_mode};
}

Tensor maxima(const Tensor& input, const PoolAttr& attr) { return apply(max_op, {input}, attr); }

std::pair<Tensor, Tensor> maxima_with_indices(const Tensor& input, PoolAttr attr) {
  attr.with_indices = true;
  auto results = apply_all(max_op, {input}, attr);
  return {std::move(results[0]), std::move(results[1])};
}

Tensor adaptive_average(const Tensor& input, const PoolAttr& attr) {
  if (attr.out_volume() > 1) return avg(input, attr);
  Dims axes;
  for (std::size_t i = attr.axes; i > 0; --i) axes.push_back(-static_cast<std::int64_t>(i));
  return input.mean(axes, true);
}

// The extent of an unpooled axis, after checking that it is possible.
std::int64_t unpooled(const Problem& p, std::int64_t in, const Window& w, std::int64_t Size3::*axis,
                      const Size3& asked) {
  const std::int64_t stride = w.stride.*axis == 0 ? w.kernel.*axis : w.stride.*axis;
  const std::int64_t extent = (in - 1) * stride - 2 * (w.padding.*axis) + w.kernel.*axis;
  const std::int64_t size = asked.*axis == 0 ? extent : asked.*axis;
  ADJOINT_CHECK(size >= 1 && size > extent - stride && size < extent + stride,
                "{}: output_size must be positive and less than a stride from {}; got {}", p.op, extent, size);
  return size;
}

Tensor unpool(const Problem& p, const Tensor& indices, const Window& w, const Size3& output_size) {
  const OpScope scope(p.op);
  p.check();
  check_defined(p.op, "indices", indices);
  ADJOINT_CHECK(indices.dtype() == kInt64 && indices.shape() == p.input.shape(),
                "{}: indices must be int64 and of input's shape; got {} {}, input {}", p.op, indices.dtype(),
                indices.shape(), p.input.shape());
  p.check_range("kernel_size", w.kernel, 1);
  p.check_range("stride", w.stride, 0);
  p.check_range("padding", w.padding, 0);
  p.check_range("output_size", output_size, 0);
  const Size3 in = p.extents();
  const auto extent = [&](std::int64_t Size3::*of) { return unpooled(p, in.*of, w, of, output_size); };
  const Size3 out{extent(&Size3::d), extent(&Size3::h), extent(&Size3::w)};
  const UnpoolAttr attr{with_extents(p.input, p.axes, out), Shape{out.d, out.h, out.w}.numel()};
  const std::int64_t volumes = p.input.numel() / (in.d * in.h * in.w);
  const auto places = apply_all(unpool_places_op, {indices.detach()}, attr);
  return exchanged(p.input, places[0], places[1], volumes);
}

}  // namespace

Tensor max_pool1d(const Tensor& input, std::int64_t kernel_size, const MaxPool1dParams& params) {
  const OpScope scope("max_pool1d");
  return maxima(input, pool_attr({"max_pool1d", input, 1}, window1d(kernel_size, params)));
}
Tensor max_pool2d(const Tensor& input, Size2 kernel_size, const MaxPool2dParams& params) {
  const OpScope scope("max_pool2d");
  return maxima(input, pool_attr({"max_pool2d", input, 2}, window2d(kernel_size, params)));
}
Tensor max_pool3d(const Tensor& input, Size3 kernel_size, const MaxPool3dParams& params) {
  const OpScope scope("max_pool3d");
  return maxima(input, pool_attr({"max_pool3d", input, 3}, window3d(kernel_size, params)));
}
std::pair<Tensor, Tensor> max_pool1d_with_indices(const Tensor& input, std::int64_t kernel_size,
                                                  const MaxPool1dParams& params) {
  const OpScope scope("max_pool1d_with_indices");
  return maxima_with_indices(input, pool_attr({"max_pool1d_with_indices", input, 1}, window1d(kernel_size, params)));
}
std::pair<Tensor, Tensor> max_pool2d_with_indices(const Tensor& input, Size2 kernel_size,
                                                  const MaxPool2dParams& params) {
  const OpScope scope("max_pool2d_with_indices");
  return maxima_with_indices(input, pool_attr({"max_pool2d_with_indices", input, 2}, window2d(kernel_size, params)));
}
std::pair<Tensor, Tensor> max_pool3d_with_indices(const Tensor& input, Size3 kernel_size,
                                                  const MaxPool3dParams& params) {
  const OpScope scope("max_pool3d_with_indices");
  return maxima_with_indices(input, pool_attr({"max_pool3d_with_indices", input, 3}, window3d(kernel_size, params)));
}

Tensor avg_pool1d(const Tensor& input, std::int64_t kernel_size, const AvgPool1dParams& params) {
  const OpScope scope("avg_pool1d");
  PoolAttr attr = pool_attr({"avg_pool1d", input, 1},
                            window1d(kernel_size, {{}, params.stride, params.padding, 1, params.ceil_mode}));
  attr.counts_padding = params.count_include_pad;
  return avg(input, attr);
}
Tensor avg_pool2d(const Tensor& input, Size2 kernel_size, const AvgPool2dParams& params) {
  const OpScope scope("avg_pool2d");
  PoolAttr attr = pool_attr({"avg_pool2d", input, 2},
                            window2d(kernel_size, {{}, params.stride, params.padding, 1, params.ceil_mode}));
  attr.counts_padding = params.count_include_pad;
  attr.divisor = params.divisor_override;
  return avg(input, attr);
}
Tensor avg_pool3d(const Tensor& input, Size3 kernel_size, const AvgPool3dParams& params) {
  const OpScope scope("avg_pool3d");
  PoolAttr attr = pool_attr({"avg_pool3d", input, 3},
                            window3d(kernel_size, {{}, params.stride, params.padding, 1, params.ceil_mode}));
  attr.counts_padding = params.count_include_pad;
  attr.divisor = params.divisor_override;
  return avg(input, attr);
}

Tensor adaptive_avg_pool1d(const Tensor& input, std::int64_t output_size) {
  const OpScope scope("adaptive_avg_pool1d");
  return adaptive_average(input, adaptive_attr({"adaptive_avg_pool1d", input, 1}, adaptive1d(output_size)));
}
Tensor adaptive_avg_pool2d(const Tensor& input, Size2 output_size) {
  const OpScope scope("adaptive_avg_pool2d");
  return adaptive_average(input, adaptive_attr({"adaptive_avg_pool2d", input, 2}, adaptive2d(output_size)));
}
Tensor adaptive_avg_pool3d(const Tensor& input, Size3 output_size) {
  const OpScope scope("adaptive_avg_pool3d");
  return adaptive_average(input, adaptive_attr({"adaptive_avg_pool3d", input, 3}, output_size));
}
Tensor adaptive_max_pool1d(const Tensor& input, std::int64_t output_size) {
  const OpScope scope("adaptive_max_pool1d");
  return maxima(input, adaptive_attr({"adaptive_max_pool1d", input, 1}, adaptive1d(output_size)));
}
Tensor adaptive_max_pool2d(const Tensor& input, Size2 output_size) {
  const OpScope scope("adaptive_max_pool2d");
  return maxima(input, adaptive_attr({"adaptive_max_pool2d", input, 2}, adaptive2d(output_size)));
}
Tensor adaptive_max_pool3d(const Tensor& input, Size3 output_size) {
  const OpScope scope("adaptive_max_pool3d");
  return maxima(input, adaptive_attr({"adaptive_max_pool3d", input, 3}, output_size));
}
std::pair<Tensor, Tensor> adaptive_max_pool1d_with_indices(const Tensor& input, std::int64_t output_size) {
  const char* op = "adaptive_max_pool1d_with_indices";
  const OpScope scope(op);
  return maxima_with_indices(input, adaptive_attr({op, input, 1}, adaptive1d(output_size)));
}
std::pair<Tensor, Tensor> adaptive_max_pool2d_with_indices(const Tensor& input, Size2 output_size) {
  const char* op = "adaptive_max_pool2d_with_indices";
  const OpScope scope(op);
  return maxima_with_indices(input, adaptive_attr({op, input, 2}, adaptive2d(output_size)));
}
std::pair<Tensor, Tensor> adaptive_max_pool3d_with_indices(const Tensor& input, Size3 output_size) {
  const char* op = "adaptive_max_pool3d_with_indices";
  const OpScope scope(op);
  return maxima_with_indices(input, adaptive_attr({op, input, 3}, output_size));
}

Tensor max_unpool1d(const Tensor& input, const Tensor& indices, std::int64_t kernel_size,
                    const MaxUnpool1dParams& params) {
  return unpool({"max_unpool1d", input, 1}, indices,
                window1d(kernel_size, {{}, params.stride, params.padding, 1, false}), adaptive1d(params.output_size));
}
Tensor max_unpool2d(const Tensor& input, const Tensor& indices, Size2 kernel_size, const MaxUnpool2dParams& params) {
  return unpool({"max_unpool2d", input, 2}, indices,
                window2d(kernel_size, {{}, params.stride, params.padding, 1, false}), adaptive2d(params.output_size));
}
Tensor max_unpool3d(const Tensor& input, const Tensor& indices, Size3 kernel_size, const MaxUnpool3dParams& params) {
  return unpool({"max_unpool3d", input, 3}, indices,
                window3d(kernel_size, {{}, params.stride, params.padding, 1, false}), params.output_size);
}

}  // namespace adjoint
