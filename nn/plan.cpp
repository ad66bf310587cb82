#include <adjoint/nn/plan.h>

#include <adjoint/core/autograd/autocast.h>
#include <adjoint/core/autograd/node.h>
#include <adjoint/core/autograd/op_scope.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/base/cpu_backend.h>
#include <adjoint/core/memory/scratch.h>
#include <adjoint/core/tensor/copy.h>
#include <adjoint/nn/freeze.h>
#include <adjoint/nn/planned_network.h>
#include <adjoint/nn/traced.h>

#include <utility>

namespace adjoint::nn {
namespace {

using adjoint::detail::Scratch;
using adjoint::detail::ScratchScope;

// Loops run on this thread while it lives, as in a task of parallel_for.
class OnThisThread {
 public:
  explicit OnThisThread(bool alone)
      : before_(
            std::exchange(adjoint::detail::context().inside_task, alone || adjoint::detail::context().inside_task)) {}
  ~OnThisThread() { adjoint::detail::context().inside_task = before_; }
  OnThisThread(const OnThisThread&) = delete;
  OnThisThread& operator=(const OnThisThread&) = delete;

 private:
  bool before_;
};

}  // namespace

struct Plan::Impl {
  detail::PlannedNetwork network;
  std::size_t block_bytes = 0;
  Frozen frozen;
  Scratch scratch;
  CpuBackend backend = cpu_backend();
  bool alone;

  void run() {
    const adjoint::detail::HiddenTape unrecorded;
    const PauseAutocast as_planned;
    const CpuBackendGuard guard(backend);
    const OnThisThread threads(alone);
    const ScratchScope scope(&scratch);
    for (const auto& call : network.calls) {
      scratch.clear();  // also of a call that threw
      const OpScope named(call->name);
      call->run();
    }
    scratch.clear();
  }
};

Plan::Plan(std::function<std::vector<Tensor>(const std::vector<Tensor>&)> f, const std::vector<Tensor>& examples,
           const PlanOptions& options)
    : impl_(new Impl) {
  ADJOINT_CHECK(options.threads >= 1, "Plan: the number of threads must be positive; got {}", options.threads);
  detail::check_inputs("Plan", examples);
  impl_->alone = options.threads == 1;
  impl_->network = detail::record_calls(f, examples);
  impl_->block_bytes = detail::place_in_block(impl_->network);
  impl_->frozen = freeze(detail::constants_of(impl_->network));
  {
    const adjoint::detail::HiddenTape unrecorded;
    const CpuBackendGuard guard(impl_->backend);
    for (const auto& call : impl_->network.calls) call->prepare();
  }
  impl_->run();  // finds out how much temporary memory the operators need
}

Plan::Plan(Plan&&) noexcept = default;
Plan& Plan::operator=(Plan&&) noexcept = default;
Plan::~Plan() = default;

const std::vector<Tensor>& Plan::run(std::span<const Tensor> inputs) {
  std::vector<Tensor>& own = impl().network.inputs;
  ADJOINT_CHECK(inputs.size() == own.size(), "Plan: there must be {} inputs; got {}", own.size(), inputs.size());
  for (std::size_t i = 0; i < own.size(); ++i) {
    const Tensor& input = inputs[i];
    ADJOINT_CHECK(input.defined() && input.shape() == own[i].shape() && input.dtype() == own[i].dtype() &&
                      input.device().is_cpu(),
                  "Plan: inputs must be as planned; got {} as input {}, planned {} {}",
                  input.defined() ? fmt::format("{} {} on {}", input.dtype(), input.shape(), input.device())
                                  : "Tensor{}",
                  i, own[i].dtype(), own[i].shape());
  }
  {
    const OnThisThread threads(impl_->alone);
    for (std::size_t i = 0; i < own.size(); ++i) copy_into(inputs[i], own[i]);
  }
  return run();
}

const std::vector<Tensor>& Plan::run() {
  impl().run();
  return impl_->network.outputs;
}

const std::vector<Tensor>& Plan::inputs() const { return impl().network.inputs; }
const std::vector<Tensor>& Plan::outputs() const { return impl().network.outputs; }
std::size_t Plan::nbytes() const { return impl().block_bytes + impl().scratch.nbytes(); }
std::size_t Plan::size() const { return impl().network.calls.size(); }

Plan::Impl& Plan::impl() const {
  ADJOINT_CHECK(static_cast<bool>(impl_), "Plan: it must hold a network; got one that was moved from");
  return *impl_;
}

}  // namespace adjoint::nn
