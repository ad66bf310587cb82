#include <adjoint/ops/distributed/collectives.h>

#include <adjoint/core/autograd/op.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/distributed/engine.h>

#include <atomic>
#include <cstdint>
#include <string>

namespace adjoint::distributed {
namespace {

struct Attr {
  Kind kind;
  ReduceOp op = ReduceOp::kSum;
  int root = 0;
  std::uint64_t number =
      0;  // numbers the program's call (a gradient has its forward call's number); the same on every rank
  bool of_sweep = false;
};

// The attributes of a call from the program.
Attr numbered(Attr attr) {
  static std::atomic<std::uint64_t> calls{0};
  attr.number = ++calls;
  return attr;
}

TensorSpec infer(Operands in, const Attr& attr) {
  Shape shape = in[0].shape();
  if (attr.kind == Kind::kAllGather) shape[0] *= world_size();
  if (attr.kind == Kind::kReduceScatter) shape[0] /= world_size();
  return {shape, in[0].dtype()};
}

// Serves both devices: engines know where elements are. The ranks agree on the gradient's owner; a rank whose loss does
// not use the result does not take part.
void kernel(Operands in, Tensor& out, const Attr& attr) {
  const std::string caller = attr.of_sweep ? fmt::format("the gradient of collective {}", attr.number) : "";
  run({.kind = attr.kind, .op = attr.op, .root = attr.root, .caller = caller}, in[0], out);
}

Tensor gradient(const Ctx<Attr>& c);

constinit const OpDef<Attr> collective_op{.name = "collective",
                                          .infer = infer,
                                          .cpu = kernel,
                                          .cuda = ADJOINT_IF_CUDA(kernel),
                                          .onnx = "a file is run by one process",
                                          .vjp = {Vjp<Attr>{kSaveNone, gradient}}};

Tensor gradient(const Ctx<Attr>& c) {
  const Attr& attr = c.attr;
  ADJOINT_CHECK(attr.op == ReduceOp::kSum || attr.op == ReduceOp::kAvg,
                "{}: only kSum and kAvg have a gradient; got {}; detach() the operand", name_of(attr.kind),
                name_of(attr.op));
  const auto run = [&](Kind kind, ReduceOp op) {
    return apply(collective_op, {c.grad}, Attr{.kind = kind, .op = op, .number = attr.number, .of_sweep = true});
  };
  switch (attr.kind) {
    case Kind::kBroadcast: {
      const Tensor sum = run(Kind::kAllReduce, ReduceOp::kSum);
      return rank() == attr.root ? sum : zeros_like(sum);
    }
    case Kind::kAllGather: return run(Kind::kReduceScatter, ReduceOp::kSum);
    case Kind::kReduceScatter: {
      const Tensor all = run(Kind::kAllGather, ReduceOp::kSum);
      return attr.op == ReduceOp::kAvg ? all * (1.0 / world_size()) : all;
    }
    default: return run(attr.kind, attr.op);
  }
}

void check_op(const char* name, const Tensor& x, ReduceOp op) {
  check_enumerator(name, "ReduceOp", op, ReduceOp::kMax);
  check_defined(name, "x", x);
  ADJOINT_CHECK(op != ReduceOp::kAvg || is_floating_point(x.dtype()),
                "{}: kAvg needs a floating-point dtype; got {}; use kSum", name, x.dtype());
  ADJOINT_CHECK(x.dtype() != kBool || op == ReduceOp::kMin || op == ReduceOp::kMax,
                "{}: bool supports kMin (and) and kMax (or); got {}; convert with to(dtype)", name, name_of(op));
}

void check_root(const char* name, const Tensor& x, int src) {
  check_defined(name, "x", x);
  ADJOINT_CHECK(src >= 0 && src < world_size(), "{}: src must be a rank, 0 to {}; got {}", name, world_size() - 1, src);
}

void in_place(const char* name, Tensor& x, const Attr& attr) {
  check_writable(name, x);
  const PauseTape pause;
  Tensor packed = contiguous_copy(x);
  run({.kind = attr.kind, .op = attr.op, .root = attr.root}, packed, packed);
  if (packed.impl() != x.impl()) copy_into(packed, x);
}

}  // namespace

Tensor all_reduce(const Tensor& x, ReduceOp op) {
  const OpScope scope("all_reduce");
  check_op("all_reduce", x, op);
  return apply(collective_op, {x}, numbered({Kind::kAllReduce, op}));
}

Tensor broadcast(const Tensor& x, int src) {
  const OpScope scope("broadcast");
  check_root("broadcast", x, src);
  return apply(collective_op, {x}, numbered({Kind::kBroadcast, ReduceOp::kSum, src}));
}

Tensor all_gather(const Tensor& x) {
  const OpScope scope("all_gather");
  check_defined("all_gather", "x", x);
  ADJOINT_CHECK(x.dim() > 0, "all_gather: x must have an axis at least; got {}; use unsqueeze(0)", x.shape());
  return apply(collective_op, {x}, numbered({Kind::kAllGather}));
}

Tensor reduce_scatter(const Tensor& x, ReduceOp op) {
  const OpScope scope("reduce_scatter");
  check_op("reduce_scatter", x, op);
  ADJOINT_CHECK(x.dim() > 0 && x.size(0) % world_size() == 0,
                "reduce_scatter: the world's size, {}, must divide axis 0; got {}", world_size(), x.shape());
  return apply(collective_op, {x}, numbered({Kind::kReduceScatter, op}));
}

void all_reduce_(Tensor& x, ReduceOp op) {
  check_op("all_reduce_", x, op);
  in_place("all_reduce_", x, {Kind::kAllReduce, op});
}

void broadcast_(Tensor& x, int src) {
  check_root("broadcast_", x, src);
  in_place("broadcast_", x, {Kind::kBroadcast, ReduceOp::kSum, src});
}

void barrier() {
  Tensor none;
  run({.kind = Kind::kBarrier}, none, none);
}

}  // namespace adjoint::distributed
