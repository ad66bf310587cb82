// argsort on CUDA by CUB's radix sort, which is stable: all elements by their keys, and then, if there are several
// rows, that order by rows.
#include <adjoint/core/cuda/launch.h>
#include <adjoint/ops/sort/kernels.h>

#include <cub/device/device_radix_sort.cuh>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace adjoint::cuda {
namespace {

constexpr int kThreads = 256;

LaunchGeometry one_each(std::int64_t count) {
  return {dim3(static_cast<unsigned>((count + kThreads - 1) / kThreads)), dim3(kThreads)};
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    make_keys(std::int64_t count, bool descending, const T* __restrict__ in, sorting::Key<T>* __restrict__ keys,
              std::int64_t* __restrict__ places) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= count) return;
  const sorting::Key<T> key = sorting::key(in[i]);
  keys[i] = descending ? static_cast<sorting::Key<T>>(~key) : key;
  places[i] = i;
}

__global__ void __launch_bounds__(kThreads)
    rows_of_places(std::int64_t count, std::int64_t extent, const std::int64_t* __restrict__ places,
                   std::uint64_t* __restrict__ rows) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < count) rows[i] = static_cast<std::uint64_t>(places[i] / extent);
}

__global__ void __launch_bounds__(kThreads)
    places_in_rows(std::int64_t count, std::int64_t extent, const std::int64_t* __restrict__ places,
                   std::int64_t* __restrict__ out) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < count) out[i] = places[i] % extent;
}

// `places` in the stable order of the first `bits` bits of `keys`; all four are arrays of `count`.
template <class K>
void sort_pairs(int device, std::int64_t count, int bits, const K* keys, K* sorted_keys, const std::int64_t* places,
                std::int64_t* sorted_places) {
  const DeviceGuard guard(device);
  std::size_t bytes = 0;
  const auto run = [&](void* memory) {
    ADJOINT_CUDA(cub::DeviceRadixSort::SortPairs(memory, bytes, keys, sorted_keys, places, sorted_places, count, 0,
                                                 bits, current_stream(device)));
  };
  run(nullptr);  // asks for `bytes`
  const Workspace memory(std::max<std::size_t>(bytes, 1), device);
  run(memory.data());
}

template <class T>
void sort_rows(const Tensor& in, Tensor& out, const SortAttr& attr) {
  using K = sorting::Key<T>;
  const int device = out.device().index;
  const std::int64_t count = out.numel(), rows = count / attr.extent;
  const auto bytes = static_cast<std::size_t>(count) * sizeof(std::uint64_t);
  // Keys, and behind the first sort the rows, which are wider.
  const Workspace keys(bytes, device), sorted_keys(bytes, device), places(bytes, device);
  auto* const from = static_cast<std::int64_t*>(places.data());
  auto* const to = out.mutable_data<std::int64_t>();
  launch(make_keys<T>, one_each(count), device, count, attr.descending, in.data<T>(), static_cast<K*>(keys.data()),
         from);
  sort_pairs(device, count, 8 * static_cast<int>(sizeof(K)), static_cast<const K*>(keys.data()),
             static_cast<K*>(sorted_keys.data()), from, to);
  if (rows == 1) return;
  auto* const row_of = static_cast<std::uint64_t*>(keys.data());
  launch(rows_of_places, one_each(count), device, count, attr.extent, to, row_of);
  sort_pairs(device, count, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(rows - 1))), row_of,
             static_cast<std::uint64_t*>(sorted_keys.data()), to, from);
  launch(places_in_rows, one_each(count), device, count, attr.extent, from, to);
}

}  // namespace

void argsort(std::span<const Tensor> in, Tensor& out, const SortAttr& attr) {
  visit(in[0].dtype(), [&]<class T>() { sort_rows<T>(in[0], out, attr); });
}

}  // namespace adjoint::cuda
