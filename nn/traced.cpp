#include <adjoint/nn/traced.h>

#include <adjoint/core/autograd/module_calls.h>
#include <adjoint/core/autograd/op_scope.h>
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/graph/call_trace.h>
#include <adjoint/nn/module.h>

namespace adjoint::nn::detail {
namespace {

using adjoint::detail::ModuleCalls;
using adjoint::detail::ModuleWatcher;

// Modules' names for errors, as anomaly mode has them.
class NamedModules {
 public:
  NamedModules() { ModuleCalls::watch(ModuleWatcher::kAnomaly, true); }
  ~NamedModules() { ModuleCalls::watch(ModuleWatcher::kAnomaly, before_); }
  NamedModules(const NamedModules&) = delete;
  NamedModules& operator=(const NamedModules&) = delete;

 private:
  bool before_ = ModuleCalls::watched_by(ModuleWatcher::kAnomaly);
};

}  // namespace

void wrong_number_of_inputs(const char* op, std::size_t inputs) {
  fail("{}: there must be as many inputs as the network accepts, from 1 to 4; got {}", op, inputs);
}

void check_evaluated(const char* op, const Module& module) {
  for (const auto& [name, below] : module.named_modules()) {
    ADJOINT_CHECK(!below.training(), "{}: the network must be in eval mode; got '{}' in training mode; call eval()", op,
                  name);
  }
}

void check_inputs(const char* op, const std::vector<Tensor>& inputs) {
  ADJOINT_CHECK(!inputs.empty(), "{}: there must be an input; got {}", op, inputs.size());
  for (const Tensor& input : inputs) {
    ADJOINT_CHECK(input.defined(), "{}: inputs must be defined; got Tensor{{}} among {}", op, inputs.size());
  }
}

std::vector<Tensor> run_traced(adjoint::detail::CallTrace& trace, const TensorFunction& f,
                               const std::vector<Tensor>& inputs) {
  const PauseTape unrecorded;
  const NamedModules named;
  const adjoint::detail::TraceScope scope(&trace);
  return f(inputs);
}

const char* called_function() { return OpScope::op() != nullptr ? OpScope::op() : "a program"; }

}  // namespace adjoint::nn::detail
