#include <adjoint/nn/stream_window.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/graph/call_trace.h>
#include <adjoint/core/graph/planned_call.h>
#include <adjoint/core/tensor/copy.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace adjoint::nn::detail {
namespace {

using adjoint::detail::CallTrace;
using adjoint::detail::OperatorCall;
using adjoint::detail::PlannedCall;

constexpr const char* kWindowName = "stream_window";

class PlannedWindow final : public PlannedCall {
 public:
  PlannedWindow(const Tensor& x, const Tensor& window, const WindowSpec& spec, std::shared_ptr<const StreamClock> clock)
      : PlannedCall(kWindowName, {&x, 1}, {&window, 1}), spec_(spec), clock_(std::move(clock)) {}

  void prepare() override {
    const Shape& shape = in[0].shape();
    extent_ = shape[spec_.axis];
    element_ = element_size(in[0].dtype());
    const Shape before(shape.begin(), shape.begin() + spec_.axis), behind(shape.begin() + spec_.axis + 1, shape.end());
    rows_ = before.numel();
    inner_ = behind.numel();
    block_ = out[0].narrow(static_cast<std::int64_t>(spec_.axis), spec_.history, extent_);
  }

  void run() override {
    auto* const data = static_cast<std::byte*>(out[0].raw_mutable_data());
    const std::size_t sample = static_cast<std::size_t>(inner_) * element_;
    const std::size_t row = static_cast<std::size_t>(spec_.history + extent_) * sample;
    const std::size_t history = static_cast<std::size_t>(spec_.history) * sample;
    const std::size_t shift = static_cast<std::size_t>(clock_->advance * spec_.up / spec_.down) * sample;
    for (std::int64_t i = 0; i < rows_ && shift > 0; ++i) {
      std::byte* const to = data + static_cast<std::size_t>(i) * row;
      std::memmove(to, to + shift, history);
    }
    copy_block(data, row, history);
    const Inside inside = inside_of(spec_, *clock_, extent_);
    if (inside.begin == 0 && inside.end == extent_) return;
    for (std::int64_t i = 0; i < rows_; ++i) {
      std::byte* const block = data + static_cast<std::size_t>(i) * row + history;
      fill(block, inside.begin * inner_);
      fill(block + static_cast<std::size_t>(inside.end) * sample, (extent_ - inside.end) * inner_);
    }
  }

 private:
  void copy_block(std::byte* data, std::size_t row, std::size_t history) {
    if (!in[0].is_contiguous()) return copy_into(in[0], block_);
    const auto* from = static_cast<const std::byte*>(in[0].raw_data());
    const std::size_t bytes = row - history;
    for (std::int64_t i = 0; i < rows_; ++i, from += bytes) {
      std::memcpy(data + static_cast<std::size_t>(i) * row + history, from, bytes);
    }
  }
  void fill(std::byte* to, std::int64_t elements) const {
    for (std::int64_t i = 0; i < elements; ++i, to += element_) std::memcpy(to, spec_.fill.data(), element_);
  }

  const WindowSpec spec_;
  const std::shared_ptr<const StreamClock> clock_;
  Tensor block_;  // the window's part that the block fills
  std::int64_t extent_ = 0, rows_ = 0, inner_ = 0;
  std::size_t element_ = 0;
};

// The call as traces see it.
class WindowCall final : public OperatorCall {
 public:
  WindowCall(const Tensor& x, const Tensor& window, const WindowSpec& spec,
             const std::shared_ptr<const StreamClock>& clock)
      : OperatorCall(kWindowName, {&x, 1}, {&window, 1}, true), spec_(spec), clock_(clock) {}
  bool has_rule() const override { return false; }
  const char* reason() const override { return nullptr; }
  OnnxValue translate(OnnxCall&) const override { fail("{}: it has no counterpart in ONNX", name); }
  std::unique_ptr<PlannedCall> planned() const override {
    return std::make_unique<PlannedWindow>(in[0], out[0], spec_, clock_);
  }

 private:
  const WindowSpec& spec_;
  const std::shared_ptr<const StreamClock>& clock_;
};

}  // namespace

void pass_window(const Tensor& x, const Tensor& window, const WindowSpec& spec,
                 const std::shared_ptr<const StreamClock>& clock) {
  CallTrace* const trace = CallTrace::current();
  ADJOINT_ASSERT(trace != nullptr, "stream_window: there must be a trace");
  trace->called(WindowCall(x, window, spec, clock));
}

Inside inside_of(const WindowSpec& spec, const StreamClock& clock, std::int64_t extent) {
  const std::int64_t first = clock.position * spec.up / spec.down - spec.delay;
  const std::int64_t length = clock.lengths[spec.length];
  const std::int64_t begin = std::clamp<std::int64_t>(spec.first - first, 0, extent);
  if (length == StreamClock::kEndless) return {begin, extent};
  return {begin, std::clamp<std::int64_t>(length - spec.cut - first, begin, extent)};
}

}  // namespace adjoint::nn::detail
