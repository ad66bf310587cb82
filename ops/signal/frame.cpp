#include <adjoint/ops/signal/frame.h>

#include <adjoint/core/autograd/op.h>
#include <adjoint/core/base/check.h>
#include <adjoint/ops/elementwise/widened.h>
#include <adjoint/ops/signal/kernels.h>
#include <adjoint/ops/view/view.h>

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

Tensor added(const Tensor& frames, const FrameAttr& attr);

constinit const OpDef<FrameAttr> frame_op{.name = "frame",
                                          .view = frames_view,
                                          .vjp = {{{.rule = [](const Ctx<FrameAttr>& c) {
                                            return added(c.grad, c.attr);
                                          }}}}};

constinit const OpDef<FrameAttr> overlap_add_op{.name = "overlap_add",
                                                .infer = signal_spec,
                                                .cpu = cpu::overlap_add,
                                                .cuda = ADJOINT_IF_CUDA(cuda::overlap_add),
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
