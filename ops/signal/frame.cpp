#include <adjoint/ops/signal/frame.h>

#include <adjoint/core/autograd/op.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/graph/onnx_call.h>
#include <adjoint/ops/elementwise/widened.h>
#include <adjoint/ops/signal/kernels.h>
#include <adjoint/ops/view/view.h>

#include <numeric>
#include <vector>

namespace adjoint {
namespace {

Tensor frames_view(const Tensor& x, const FrameAttr& attr) {
  Shape shape = x.shape();
  Strides strides = x.strides();
  const std::size_t last = shape.size() - 1;
  shape[last] = attr.count();
  shape.push_back(attr.size);
  strides.push_back(strides[last]);
  strides[last] *= attr.hop;
  return x.view_as(shape, strides, x.storage_offset());
}

TensorSpec signal_spec(Operands in, const FrameAttr& attr) {
  Shape shape = in[0].shape();
  shape.erase(shape.size() - 1);
  shape[shape.size() - 1] = attr.length;
  return {shape, in[0].dtype()};
}

// x at the starts of frames, for any length, plus the places in a frame.
OnnxValue frame_onnx(OnnxCall& call, const FrameAttr& attr) {
  const OnnxValue x = call.operand(0), length = call.add("Shape", {x}, {{"start", std::int64_t{-1}}});
  const OnnxValue end = call.add("Squeeze", {call.add("Sub", {length, call.integers({attr.size - 1})})});
  const OnnxValue starts = call.add("Range", {call.number(0, kInt64), end, call.number(attr.hop, kInt64)});
  std::vector<std::int64_t> places(static_cast<std::size_t>(attr.size));
  std::iota(places.begin(), places.end(), std::int64_t{0});
  const OnnxValue column = call.add("Unsqueeze", {starts, call.integers({1})});
  return call.add("Gather", {x, call.add("Add", {column, call.integers(places)})}, {{"axis", std::int64_t{-1}}});
}

// Parts of `hop` elements, the same of each frame, are signals without overlap: (..., T, hop) -> (..., T hop). A sum
// adds them, each shifted by its place in the frame.
OnnxValue overlap_add_onnx(OnnxCall& call, const FrameAttr& attr) {
  const std::int64_t parts = (attr.size - 1) / attr.hop + 1, rank = call.in[0].dim();
  const auto pad_last = [&](OnnxValue x, std::int64_t axes, std::int64_t before, std::int64_t behind) {
    std::vector<std::int64_t> pads(static_cast<std::size_t>(2 * axes));
    pads[static_cast<std::size_t>(axes - 1)] = before;
    pads.back() = behind;
    return before == 0 && behind == 0 ? x : call.add("Pad", {x, call.integers(pads)});
  };
  const OnnxValue frames = pad_last(call.operand(0), rank, 0, parts * attr.hop - attr.size);
  Shape shape = call.out[0].shape();
  shape[shape.size() - 1] = call.in[0].size(-2) * attr.hop;
  std::vector<OnnxValue> signals;
  for (std::int64_t part = 0; part < parts; ++part) {
    OnnxValue own = frames;
    if (parts > 1)
      own = call.add("Slice", {frames, call.integers({part * attr.hop}), call.integers({(part + 1) * attr.hop}),
                               call.integers({-1})});
    signals.push_back(pad_last(call.reshape(own, shape), rank - 1, part * attr.hop, (parts - 1 - part) * attr.hop));
  }
  const OnnxValue sum = parts == 1 ? signals.front() : call.add_node("Sum", signals, {}, 1).front();
  return pad_last(sum, rank - 1, 0, attr.length - shape[shape.size() - 1] - (parts - 1) * attr.hop);
}

Tensor added(const Tensor& frames, const FrameAttr& attr);

constinit const OpDef<FrameAttr> frame_op{.name = "frame",
                                          .view = frames_view,
                                          .onnx = frame_onnx,
                                          .vjp = {{{.rule = [](const Ctx<FrameAttr>& c) {
                                            return added(c.grad, c.attr);
                                          }}}}};

constinit const OpDef<FrameAttr> overlap_add_op{.name = "overlap_add",
                                                .infer = signal_spec,
                                                .cpu = cpu::overlap_add,
                                                .cuda = ADJOINT_IF_CUDA(cuda::overlap_add),
                                                .onnx = overlap_add_onnx,
                                                .vjp = {{{.rule = [](const Ctx<FrameAttr>& c) {
                                                  return apply(frame_op, {c.grad}, c.attr);
                                                }}}}};

Tensor added(const Tensor& frames, const FrameAttr& attr) {
  return apply(overlap_add_op, {widened(frames)}, attr).to(frames.dtype());
}

}  // namespace

Tensor frame(const Tensor& x, std::int64_t size, std::int64_t hop) {
  const OpScope scope("frame");
  check_defined("frame", "x", x);
  ADJOINT_CHECK(x.dim() >= 1 && x.dim() < static_cast<std::int64_t>(kMaxRank),
                "frame: x must have 1 to {} axes; got {}", kMaxRank - 1, x.shape());
  ADJOINT_CHECK(size >= 1 && hop >= 1, "frame: size and hop must be at least 1; got size {}, hop {}", size, hop);
  ADJOINT_CHECK(x.size(-1) >= size, "frame: x must be as long as one frame; got x {}, size {}", x.shape(), size);
  return apply(frame_op, {x}, FrameAttr{size, hop, x.size(-1)});
}

Tensor overlap_add(const Tensor& frames, std::int64_t hop, std::int64_t length) {
  const OpScope scope("overlap_add");
  check_defined("overlap_add", "frames", frames);
  ADJOINT_CHECK(is_floating_point(frames.dtype()),
                "overlap_add: frames must be floating point; got {}; convert with to()", frames.dtype());
  ADJOINT_CHECK(frames.dim() >= 2 && frames.size(-2) >= 1 && frames.size(-1) >= 1,
                "overlap_add: frames must have the shape (..., T, size), with an element at least; got {}",
                frames.shape());
  ADJOINT_CHECK(hop >= 1, "overlap_add: hop must be at least 1; got {}", hop);
  const std::int64_t count = frames.size(-2), size = frames.size(-1);
  std::int64_t least = 0;
  const bool overflows = __builtin_mul_overflow(count - 1, hop, &least) || __builtin_add_overflow(least, size, &least);
  ADJOINT_CHECK(!overflows, "overlap_add: the length must fit in 63 bits; got frames {}, hop {}", frames.shape(), hop);
  ADJOINT_CHECK(length == 0 || length >= least,
                "overlap_add: length must be at least (T - 1) hop + size = {}; got {} for frames {}, hop {}", least,
                length, frames.shape(), hop);
  // A longer signal would hold more frames, so it is padded separately.
  const Tensor signal = added(frames, {size, hop, least});
  return length <= least ? signal : embed(signal, -1, 0, length);
}

}  // namespace adjoint
