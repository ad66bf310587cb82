#include <adjoint/nn/stream_window.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/graph/call_trace.h>
#include <adjoint/core/graph/planned_call.h>
#include <adjoint/core/tensor/copy.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

namespace adjoint::nn::detail {
namespace {

using adjoint::detail::CallTrace;
using adjoint::detail::OperatorCall;
using adjoint::detail::PlannedCall;

constexpr const char *kWindowName = "stream_window", *kStepName = "stream_step";

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

class PlannedStep final : public PlannedCall {
 public:
  PlannedStep(const Tensor& before, const Tensor& after, const WindowSpec& spec,
              std::shared_ptr<const StreamClock> clock, std::int64_t step)
      : PlannedCall(kStepName, {&before, 1}, {&after, 1}), spec_(spec), clock_(std::move(clock)), step_(step) {}
  void prepare() override {}
  void run() override {
    const std::int64_t first = clock_->position * spec_.up / spec_.down - spec_.delay;
    const bool is_inside = first + step_ >= 0 && step_ < clock_->samples * spec_.up / spec_.down;
    if (!is_inside) copy_into(in[0], out[0]);
  }

 private:
  const WindowSpec spec_;
  const std::shared_ptr<const StreamClock> clock_;
  const std::int64_t step_;
};

// A call that writes to a tensor, as traces see it.
class StateCall final : public OperatorCall {
 public:
  using Plan = std::function<std::unique_ptr<PlannedCall>()>;
  StateCall(const char* op, const Tensor& from, const Tensor& to, const Plan& plan)
      : OperatorCall(op, {&from, 1}, {&to, 1}, true), plan_(plan) {}
  bool has_rule() const override { return false; }
  const char* reason() const override { return nullptr; }
  OnnxValue translate(OnnxCall&) const override { fail("{}: it has no counterpart in ONNX", name); }
  std::unique_ptr<PlannedCall> planned() const override { return plan_(); }

 private:
  const Plan& plan_;
};

void add_state_call(const char* op, const Tensor& from, const Tensor& to, const StateCall::Plan& plan) {
  CallTrace* const trace = CallTrace::current();
  ADJOINT_ASSERT(trace != nullptr, "{}: there must be a trace", op);
  trace->called(StateCall(op, from, to, plan));
}

thread_local const StepKeeper* step_keeper = nullptr;

}  // namespace

void pass_window(const Tensor& x, const Tensor& window, const WindowSpec& spec,
                 const std::shared_ptr<const StreamClock>& clock) {
  add_state_call(kWindowName, x, window, [&] { return std::make_unique<PlannedWindow>(x, window, spec, clock); });
}

StepKeeper::StepKeeper(const WindowSpec& spec, std::shared_ptr<const StreamClock> clock)
    : spec_(spec), clock_(std::move(clock)), outer_(std::exchange(step_keeper, this)) {}
StepKeeper::~StepKeeper() { step_keeper = outer_; }
const StepKeeper* StepKeeper::current() { return step_keeper; }

void StepKeeper::keep(std::int64_t step, const Tensor& before, const Tensor& after) const {
  add_state_call(kStepName, before, after,
                 [&] { return std::make_unique<PlannedStep>(before, after, spec_, clock_, step); });
}

Inside inside_of(const WindowSpec& spec, const StreamClock& clock, std::int64_t extent) {
  const std::int64_t first = clock.position * spec.up / spec.down - spec.delay;
  const std::int64_t length = clock.lengths[spec.length];
  const std::int64_t begin = std::clamp<std::int64_t>(spec.first - first, 0, extent);
  if (length == StreamClock::kEndless) return {begin, extent};
  return {begin, std::clamp<std::int64_t>(length - spec.cut - first, begin, extent)};
}

}  // namespace adjoint::nn::detail
