#include <adjoint/core/convert.h>
#include <adjoint/optim/kernels.h>
#include <adjoint/optim/cuda/batched.cuh>

namespace adjoint::optim::cuda {
namespace {

using adjoint::cuda::launch;
using adjoint::cuda::LaunchGeometry;

template <class T, int kState>
struct Entry {
  T* parameter;
  const T* gradient;
  T* state[kState == 0 ? 1 : kState];
  std::int64_t numel;
};

template <class T, class Rule>
__global__ void __launch_bounds__(kThreads)
    update_kernel(const __grid_constant__ Table<Entry<T, Rule::kState>> table, Rule rule) {
  using C = compute_t<T>;
  std::int64_t begin, end;
  const auto& entry = table.find(begin, end);
#pragma unroll 4
  for (std::int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
    C parameter = convert<C>(entry.parameter[i]);
    C state[kMaxState];
#pragma unroll
    for (int n = 0; n < Rule::kState; ++n) state[n] = convert<C>(entry.state[n][i]);
    rule(parameter, convert<C>(entry.gradient[i]), state);
#pragma unroll
    for (int n = 0; n < Rule::kState; ++n) entry.state[n][i] = convert<T>(state[n]);
    entry.parameter[i] = convert<T>(parameter);
  }
}

template <class T, class Rule>
void update_all(const Batch& batch, const Rule& rule) {
  using E = Entry<T, Rule::kState>;
  std::vector<E> entries;
  for (const Item& item : batch.items) {
    E entry{static_cast<T*>(item.parameter), static_cast<const T*>(item.gradient), {}, item.numel};
    for (int n = 0; n < Rule::kState; ++n) entry.state[n] = static_cast<T*>(item.state[static_cast<std::size_t>(n)]);
    entries.push_back(entry);
  }
  for_each_table(entries, [&](const Table<E>& table, const LaunchGeometry& geometry) {
    launch(update_kernel<T, Rule>, geometry, batch.device.index, table, rule);
  });
}

}  // namespace

template <template <class> class Rule>
void update(const Batch& batch, const typename Rule<float>::Attr& attr) {
  visit_floating(batch.dtype, [&]<class T>() { update_all<T>(batch, Rule<compute_t<T>>(attr)); });
}

ADJOINT_INSTANTIATE_UPDATES

}  // namespace adjoint::optim::cuda
