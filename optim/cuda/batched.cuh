// One launch over many tensors: each block handles one chunk of one tensor. For .cu files of optim.
//
// A table of the tensors' addresses travels as the kernel's argument, so nothing is allocated or copied. Chunks depend
// on the sizes alone, never on the device.
#pragma once

#include <adjoint/core/cuda/launch.h>
#include <adjoint/core/cuda/pack.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace adjoint::optim::cuda {

inline constexpr int kThreads = 256;
inline constexpr std::int64_t kChunk = 4096;  // elements per block, by default
// Keeps a table of entries at a few KiB, of the 32 that a kernel's parameters may take.
inline constexpr int kMaxEntries = 64;

inline std::int64_t chunks_of(std::int64_t numel, std::int64_t chunk) { return (numel + chunk - 1) / chunk; }

/// Entry has a positive `numel`.
template <class Entry>
struct Table {
  std::int64_t elements = kChunk;  // per chunk
  int count = 0;
  std::int32_t first_chunk[kMaxEntries + 1] = {};  // of each entry; the last element is the number of all chunks
  Entry entries[kMaxEntries] = {};

  /// A block's entry, and the block's elements [begin, end) of it.
  __device__ const Entry& find(std::int64_t& begin, std::int64_t& end) const {
    const auto chunk = static_cast<std::int32_t>(blockIdx.x);
    int low = 0, high = count;  // first_chunk[low] <= chunk < first_chunk[high]
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (first_chunk[middle] <= chunk ? low : high) = middle;
    }
    begin = (chunk - first_chunk[low]) * elements;
    end = std::min(begin + elements, entries[low].numel);
    return entries[low];
  }
};

using adjoint::cuda::is_aligned;
using adjoint::cuda::Pack;

/// `count` elements from `data` on, in one load if they are a `whole` pack, aligned.
template <int V, class T>
__device__ Pack<T, V> load_pack(const T* data, int count, bool whole) {
  if (whole) return *reinterpret_cast<const Pack<T, V>*>(data);
  Pack<T, V> pack{};
#pragma unroll
  for (int k = 0; k < V; ++k) {
    if (k < count) pack.values[k] = data[k];
  }
  return pack;
}

template <int V, class T>
__device__ void store_pack(const Pack<T, V>& pack, T* data, int count, bool whole) {
  if (whole) {
    *reinterpret_cast<Pack<T, V>*>(data) = pack;
    return;
  }
#pragma unroll
  for (int k = 0; k < V; ++k) {
    if (k < count) data[k] = pack.values[k];
  }
}

/// Accepts every entry.
inline constexpr auto kEvery = [](const auto&) { return true; };

/// Calls run(table, geometry) for tables that hold the entries for which wanted(entry) is true, in order, in chunks of
/// this many elements. Allocates nothing.
template <class Entry, class Wanted, class Run>
void for_each_table(const std::vector<Entry>& entries, const Wanted& wanted, const Run& run,
                    std::int64_t elements = kChunk) {
  Table<Entry> table{.elements = elements};
  std::int64_t chunks = 0;
  const auto flush = [&] {
    table.first_chunk[table.count] = static_cast<std::int32_t>(chunks);
    if (table.count > 0) run(table, adjoint::cuda::LaunchGeometry{dim3(static_cast<unsigned>(chunks)), dim3(kThreads)});
    table.count = 0;
    chunks = 0;
  };
  for (const Entry& entry : entries) {
    if (!wanted(entry)) continue;
    table.entries[table.count] = entry;
    table.first_chunk[table.count++] = static_cast<std::int32_t>(chunks);
    chunks += chunks_of(entry.numel, elements);
    if (table.count == kMaxEntries) flush();
  }
  flush();
}

}  // namespace adjoint::optim::cuda
