#include <adjoint/nn/streaming.h>

#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/copy.h>
#include <adjoint/ops/join/join.h>

#include <algorithm>

namespace adjoint::nn {
namespace {

// The inputs from the first to the last that one output reads; for the transposed, the outputs that one input reaches.
template <class Options>
std::int64_t span(const Options& o) {
  return o.dilation * (o.kernel_size - 1) + 1;
}

Shape with_length(Shape shape, std::int64_t length) {
  shape[shape.size() - 1] = length;
  return shape;
}

TensorOptions place_of(const Tensor& x) { return {.dtype = x.dtype(), .device = x.device()}; }

// A result without elements for inputs like `window`.
Tensor nothing(const Tensor& window, std::int64_t channels) {
  Shape shape = with_length(window.shape(), 0);
  shape[shape.size() - 2] = channels;
  return Tensor::empty(shape, place_of(window));
}

// The place after the last output of a sequence that ends after `inputs`, relative to the first place that input 0
// reaches.
std::int64_t end_after(const ConvTranspose1dOptions& o, std::int64_t inputs) {
  return (inputs - 1) * o.stride + span(o) - o.padding + o.output_padding;
}

// The distance before `n stride` at which the known outputs end after n inputs.
std::int64_t withheld(const ConvTranspose1dOptions& o) { return std::max<std::int64_t>(0, -end_after(o, 0)); }

// The values around a sequence must not depend on its end.
template <class Layer>
const Layer& streamable(const char* op, const Layer& layer) {
  ADJOINT_CHECK(layer.options().padding >= 0 && layer.options().padding_mode == PadMode::kConstant,
                "{}: the layer must pad with zeros, by a number; got {}", op, to_string(layer));
  return layer;
}

}  // namespace

namespace detail {

Tensor StreamState::append(const char* op, const Tensor& chunk, const Tensor& weight, std::int64_t channels) const {
  ADJOINT_CHECK(chunk.defined(), "{}: chunk must be defined; got none", op);
  ADJOINT_CHECK((chunk.dim() == 2 || chunk.dim() == 3) && chunk.size(-2) == channels,
                "{}: chunk must have the shape (N, {}, L) or ({}, L); got {}", op, channels, channels, chunk.shape());
  ADJOINT_CHECK(chunk.dtype() == weight.dtype() && chunk.device() == weight.device(),
                "{}: chunk must have the layer's dtype and device; got {} on {}, layer {} on {}; convert with to()", op,
                chunk.dtype(), to_string(chunk.device()), weight.dtype(), to_string(weight.device()));
  const Tensor before = kept_.defined() ? kept_ : Tensor::zeros(with_length(chunk.shape(), -first_), place_of(chunk));
  ADJOINT_CHECK(with_length(chunk.shape(), 0) == with_length(before.shape(), 0) && chunk.dtype() == before.dtype() &&
                    chunk.device() == before.device(),
                "{}: chunks of a sequence must differ in length alone; got {} of {} on {} after {} of {} on {}; call "
                "flush() or reset() before another sequence",
                op, chunk.shape(), chunk.dtype(), to_string(chunk.device()), before.shape(), before.dtype(),
                to_string(before.device()));
  return before.size(-1) == 0 ? chunk : chunk.size(-1) == 0 ? before : cat({before, chunk}, -1);
}

void StreamState::advance(std::int64_t outputs, const Tensor& window, std::int64_t from) {
  const std::int64_t end = first_ + window.size(-1), begin = std::clamp(from, first_, end);
  // A copy, because the chunk belongs to the caller, who may overwrite it.
  Tensor kept = Tensor::empty(with_length(window.shape(), end - begin), place_of(window));
  copy_into(window.narrow(-1, begin - first_, end - begin), kept);
  kept_ = kept;
  first_ = begin;
  made_ += outputs;
}

Tensor StreamState::zeros(const char* op, std::int64_t length) const {
  ADJOINT_CHECK(kept_.defined(), "{}: flush() needs a sequence to end; got none since the start or the last flush()",
                op);
  return Tensor::zeros(with_length(kept_.shape(), length), place_of(kept_));
}

}  // namespace detail

// ---- Conv1d. Output r reads from place r stride - padding on; zeros in front of the sequence are kept like inputs.

StreamingConv1d::StreamingConv1d(const Conv1d& layer, const Activation& activation)
    : layer_(streamable("StreamingConv1d", layer)), activation_(activation), state_(layer.options().padding) {}

std::int64_t StreamingConv1d::latency() const {
  const Conv1dOptions& o = layer_.options();
  return span(o) - o.padding - o.stride;
}

Tensor StreamingConv1d::operator()(const Tensor& chunk) {
  const PauseTape pause;
  const Conv1dOptions& o = layer_.options();
  const Tensor weight = layer_.weight, bias = layer_.bias;
  const Tensor window = state_.append("StreamingConv1d", chunk, weight, weight.size(1) * o.groups);
  const std::int64_t from = state_.made() * o.stride - o.padding, skipped = from - state_.first();
  const std::int64_t length = window.size(-1) - skipped;
  Tensor out = nothing(window, weight.size(0));
  if (length >= span(o)) {
    out = conv1d(window.narrow(-1, skipped, length), weight, bias,
                 {.stride = o.stride, .dilation = o.dilation, .groups = o.groups, .activation = activation_});
  }
  state_.advance(out.size(-1), window, from + out.size(-1) * o.stride);
  return out;
}

Tensor StreamingConv1d::flush() {
  const Tensor rest = (*this)(state_.zeros("StreamingConv1d", layer_.options().padding));
  reset();
  return rest;
}

// ---- ConvTranspose1d. Input j reaches the places from j stride to j stride + span - 1, of which padding cuts the
// first.

StreamingConvTranspose1d::StreamingConvTranspose1d(const ConvTranspose1d& layer, const Activation& activation)
    : layer_(streamable("StreamingConvTranspose1d", layer)), activation_(activation), state_(0) {}

std::int64_t StreamingConvTranspose1d::latency() const { return layer_.options().padding + withheld(layer_.options()); }

Tensor StreamingConvTranspose1d::window(const Tensor& chunk) {
  const Tensor weight = layer_.weight;
  return state_.append("StreamingConvTranspose1d", chunk, weight, weight.size(0));
}

Tensor StreamingConvTranspose1d::operator()(const Tensor& chunk) {
  const PauseTape pause;
  const ConvTranspose1dOptions& o = layer_.options();
  const Tensor inputs = window(chunk);
  const std::int64_t seen = state_.first() + inputs.size(-1), held = withheld(o);
  const Tensor out = outputs_until(seen * o.stride - held, inputs);
  // The next outputs begin at seen stride - held. The kept inputs are those that reach it, and one that begins before
  // it.
  const std::int64_t kept = std::max<std::int64_t>(1, (held + std::max(span(o), o.stride) - 1) / o.stride);
  state_.advance(out.size(-1), inputs, seen - kept);
  return out;
}

Tensor StreamingConvTranspose1d::flush() {
  const PauseTape pause;
  const Tensor inputs = window(state_.zeros("StreamingConvTranspose1d", 0));
  const std::int64_t seen = state_.first() + inputs.size(-1);
  const Tensor rest = outputs_until(seen == 0 ? 0 : end_after(layer_.options(), seen), inputs);
  reset();
  return rest;
}

Tensor StreamingConvTranspose1d::outputs_until(std::int64_t end, const Tensor& window) const {
  const ConvTranspose1dOptions& o = layer_.options();
  const Tensor weight = layer_.weight, bias = layer_.bias;
  const std::int64_t begin = o.padding + state_.made(), length = end - begin;
  if (length <= 0) return nothing(window, weight.size(1) * o.groups);
  const std::int64_t origin = state_.first() * o.stride;  // the first place that the window reaches
  const std::int64_t reached = origin + (window.size(-1) - 1) * o.stride + span(o);
  const Tensor whole = conv_transpose1d(window, weight, bias,
                                        {.stride = o.stride,
                                         .output_padding = std::max<std::int64_t>(0, end - reached),
                                         .dilation = o.dilation,
                                         .groups = o.groups,
                                         .activation = activation_});
  return whole.narrow(-1, begin - origin, length);
}

}  // namespace adjoint::nn
