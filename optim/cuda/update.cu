#include <adjoint/core/convert.h>
#include <adjoint/optim/kernels.h>
#include <adjoint/optim/cuda/batched.cuh>

namespace adjoint::optim::cuda {
namespace {

using adjoint::cuda::launch;
using adjoint::cuda::LaunchGeometry;

// A thread for each entry.
template <class Rule>
__global__ void decide_kernel(const __grid_constant__ Table<Item> table, typename Rule::Attr attr,
                              const typename Rule::Attr* captured, Gate gate) {
  const auto i = static_cast<int>(threadIdx.x);
  if (i < table.count) table.entries[i].gated->template decide<Rule>(captured != nullptr ? *captured : attr, gate);
}

template <class T, class Rule>
__global__ void __launch_bounds__(kThreads)
    update_kernel(const __grid_constant__ Table<Item> table, Rule rule, const Rule* captured) {
  using C = compute_t<T>;
  if (captured != nullptr) rule = *captured;
  std::int64_t begin, end;
  const Item& item = table.find(begin, end);
  C factor(1);
  if (item.gated != nullptr) {
    if (item.gated->skips != 0) return;
    rule = *reinterpret_cast<const Rule*>(item.gated->rule);
    factor = static_cast<C>(item.gated->factor);
  }
  T* const parameters = static_cast<T*>(item.parameter);
  const T* const gradients = static_cast<const T*>(item.gradient);
  C* const masters = static_cast<C*>(item.master);
  C* states[kMaxState];
#pragma unroll
  for (int n = 0; n < Rule::kState; ++n) states[n] = static_cast<C*>(item.state[n]);
#pragma unroll 4
  for (std::int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
    C parameter{};
    if (parameters != nullptr) parameter = convert<C>(parameters[i]);
    if (masters != nullptr) {
      const C master = masters[i];
      if (parameters == nullptr || convert<C>(convert<T>(master)) == parameter) parameter = master;
    }
    C state[kMaxState];
#pragma unroll
    for (int n = 0; n < Rule::kState; ++n) state[n] = states[n][i];
    const C gradient = convert<C>(gradients[i]);
    rule(parameter, factor == C(1) ? gradient : gradient * factor, state);
#pragma unroll
    for (int n = 0; n < Rule::kState; ++n) states[n][i] = state[n];
    if (masters != nullptr) masters[i] = parameter;
    if (parameters != nullptr) parameters[i] = convert<T>(parameter);
  }
}

}  // namespace

template <template <class> class Rule>
void update(const Batch& batch, const typename Rule<float>::Attr& attr) {
  visit_floating(batch.dtype, [&]<class T>() {
    using R = Rule<compute_t<T>>;
    for_each_table(batch.items, kEvery, [&](const Table<Item>& table, const LaunchGeometry& geometry) {
      const void* const captured = batch.rule.device;
      if (batch.gate) {
        launch(decide_kernel<R>, {dim3(1), dim3(kMaxEntries)}, batch.device.index, table, attr,
               static_cast<const typename R::Attr*>(captured), *batch.gate);
      }
      launch(update_kernel<T, R>, geometry, batch.device.index, table, R(attr),
             batch.gate ? nullptr : static_cast<const R*>(captured));
    });
  });
}

ADJOINT_INSTANTIATE_UPDATES

}  // namespace adjoint::optim::cuda
