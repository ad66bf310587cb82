// split, chunk and unbind: views of all parts of an axis, as one call on the tape.
//
// A narrow() for each part would add up as many gradients of x's size, mostly zeros: the time of a loop over a
// sequence's steps would grow with the square of its length.
#include <adjoint/core/autograd/node.h>
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/graph/onnx_call.h>
#include <adjoint/core/profile/profiled_call.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/ops/join/join.h>
#include <adjoint/ops/view/view.h>

#include <algorithm>
#include <utility>

namespace adjoint {
namespace {

using Extents = std::vector<std::int64_t>;

// Each part needs a view, and an expanded axis can be longer than any memory.
void check_parts(const Tensor& x, std::size_t at, std::int64_t parts) {
  constexpr std::int64_t kMost = 1 << 20;
  ADJOINT_CHECK(parts <= kMost, "{}: there can be {} parts at most; got {} of axis {} of x {}", OpScope::op(), kMost,
                parts, at, x.shape());
}

// The gradient of all parts: they, one after the other.
class PartsNode final : public detail::Node {
 public:
  PartsNode(const char* name, std::size_t axis, Extents extents, bool drops_axis)
      : name_(name), axis_(static_cast<std::int64_t>(axis)), extents_(std::move(extents)), drops_axis_(drops_axis) {}
  const char* name() const override { return name_; }

  void backward(std::span<const Tensor> grads, const std::vector<bool>&, std::vector<Tensor>& operand_grads) override {
    const auto defined = [](const Tensor& grad) { return grad.defined(); };
    const auto first = static_cast<std::size_t>(std::find_if(grads.begin(), grads.end(), defined) - grads.begin());
    const auto part = [&](std::size_t i) { return drops_axis_ ? grads[i].unsqueeze(axis_) : grads[i]; };
    if (std::count_if(grads.begin(), grads.end(), defined) == 1) {
      std::int64_t start = 0, extent = 0;
      for (std::size_t i = 0; i < extents_.size(); ++i) {
        if (i < first) start += extents_[i];
        extent += extents_[i];
      }
      operand_grads[0] = embed(part(first), axis_, start, extent);
      return;
    }
    const Tensor nothing = Tensor::zeros({}, grads[first].options());
    Shape shape = part(first).shape();
    std::vector<Tensor> parts;
    parts.reserve(grads.size());
    for (std::size_t i = 0; i < grads.size(); ++i) {
      shape[static_cast<std::size_t>(axis_)] = extents_[i];
      parts.push_back(grads[i].defined() ? part(i) : nothing.expand(shape));
    }
    operand_grads[0] = cat(parts, axis_);
  }

 private:
  const char* name_;
  std::int64_t axis_;
  Extents extents_;  // along the axis, which they fill
  bool drops_axis_;
};

struct PartsAttr {
  std::int64_t axis;
  const Extents& extents;
  bool drops_axis;
};

OnnxValue parts_onnx(OnnxCall& call, const PartsAttr& attr) {
  const std::vector<OnnxValue> inputs{call.operand(0), call.integers(attr.extents)};
  std::vector<OnnxValue> all = call.add_node("Split", inputs, {{"axis", attr.axis}}, attr.extents.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (attr.drops_axis) all[i] = call.add("Squeeze", {all[i], call.integers({attr.axis})});
    call.set_result(i, all[i]);
  }
  return all.front();
}

// Views of the parts, of these extents along an axis, which they fill. drops_axis: they are 1, and the axis goes.
std::vector<Tensor> parts(const char* op, const Tensor& x, std::size_t at, Extents extents, bool drops_axis = false) {
  const std::span<const Tensor> operands(&x, 1);
  const detail::ProfiledCall profiled(op, operands);
  std::vector<Tensor> all;
  all.reserve(extents.size());
  Shape shape = x.shape();
  Strides strides = x.strides();
  if (drops_axis) {
    shape.erase(at);
    strides.erase(at);
  }
  std::int64_t offset = x.storage_offset();
  for (const std::int64_t extent : extents) {
    if (!drops_axis) shape[at] = extent;
    all.push_back(x.view_as(shape, strides, offset));
    offset += extent * x.strides()[at];
  }
  if (all.empty()) return all;
  if (detail::CallTrace* const trace = detail::CallTrace::current()) [[unlikely]] {
    const PartsAttr attr{static_cast<std::int64_t>(at), extents, drops_axis};
    trace->called(detail::OperatorCallOf<PartsAttr>(op, OnnxRule<PartsAttr>(parts_onnx), operands, all, attr, false));
  }
  if (Tape* const tape = Tape::current()) {
    detail::Recording recording(*tape, op, 1);
    recording.use(0, x);
    if (recording.needed()) {
      recording.commit(tape->impl().make_node<PartsNode>(op, at, std::move(extents), drops_axis), operands, all,
                       all.size(), 0);
      return all;
    }
  }
  for (const Tensor& part : all) detail::mark_view(x, part);
  return all;
}

// `size` elements each; the last part has the rest.
std::vector<Tensor> equal_parts(const char* op, const Tensor& x, std::size_t at, std::int64_t size) {
  const std::int64_t extent = x.shape()[at];
  if (extent == 0) return parts(op, x, at, {0});
  check_parts(x, at, (extent - 1) / size + 1);
  Extents extents;
  for (std::int64_t left = extent; left > 0; left -= extents.back()) extents.push_back(std::min(size, left));
  return parts(op, x, at, std::move(extents));
}

}  // namespace

std::vector<Tensor> split(const Tensor& x, std::int64_t split_size, std::int64_t axis) {
  const OpScope scope("split");
  check_defined("split", "x", x);
  const std::size_t at = resolve_axis("split", axis, x.shape().size());
  ADJOINT_CHECK(split_size > 0 || (split_size == 0 && x.shape()[at] == 0),
                "split: split_size must be positive, or 0 for an axis without elements; got {} for axis {} of x {}",
                split_size, axis, x.shape());
  return equal_parts("split", x, at, split_size);
}

std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& split_sizes, std::int64_t axis) {
  const OpScope scope("split");
  check_defined("split", "x", x);
  const std::size_t at = resolve_axis("split", axis, x.shape().size());
  std::int64_t left = x.shape()[at];
  bool fits = true;
  for (const std::int64_t size : split_sizes) {
    fits = fits && size >= 0 && size <= left;
    if (fits) left -= size;
  }
  ADJOINT_CHECK(fits && left == 0,
                "split: split_sizes must not be negative and must add up to the axis's extent; got {} of them for axis "
                "{} of x {}",
                split_sizes.size(), axis, x.shape());
  return parts("split", x, at, split_sizes);
}

std::vector<Tensor> chunk(const Tensor& x, std::int64_t chunks, std::int64_t axis) {
  const OpScope scope("chunk");
  check_defined("chunk", "x", x);
  const std::size_t at = resolve_axis("chunk", axis, x.shape().size());
  ADJOINT_CHECK(chunks >= 1, "chunk: chunks must be at least 1; got {} for axis {} of x {}", chunks, axis, x.shape());
  const std::int64_t extent = x.shape()[at];
  // PyTorch returns as many chunks as requested if all of them are empty.
  if (extent == 0) check_parts(x, at, chunks);
  if (extent == 0) return parts("chunk", x, at, Extents(static_cast<std::size_t>(chunks), 0));
  return equal_parts("chunk", x, at, (extent - 1) / chunks + 1);
}

std::vector<Tensor> unbind(const Tensor& x, std::int64_t axis) {
  const OpScope scope("unbind");
  check_defined("unbind", "x", x);
  const std::size_t at = resolve_axis("unbind", axis, x.shape().size());
  check_parts(x, at, x.shape()[at]);
  return parts("unbind", x, at, Extents(static_cast<std::size_t>(x.shape()[at]), 1), true);
}

}  // namespace adjoint
