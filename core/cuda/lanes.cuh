// Combines several threads' values into one. For .cu files.
#pragma once

#include <cstdint>
#include <cstring>

namespace adjoint::cuda {

/// The value of another thread of the warp; shuffle(word) gets one word of it.
template <class V, class Shuffle>
__device__ V shuffle_words(const V& value, const Shuffle& shuffle) {
  std::uint32_t words[(sizeof(V) + 3) / 4] = {};
  std::memcpy(words, &value, sizeof(V));
#pragma unroll
  for (std::uint32_t& word : words) word = shuffle(word);
  V other;
  std::memcpy(&other, words, sizeof(V));
  return other;
}

/// The value of the thread whose number in the warp differs in the bits of `mask`.
template <class V>
__device__ V shuffle_xor(const V& value, int mask) {
  return shuffle_words(value, [mask](std::uint32_t word) { return __shfl_xor_sync(0xffffffffU, word, mask); });
}

/// The value of the thread whose number in the warp is higher by this distance; the thread's own value if there is
/// none.
template <class V>
__device__ V shuffle_down(const V& value, int distance) {
  return shuffle_words(value, [distance](std::uint32_t word) { return __shfl_down_sync(0xffffffffU, word, distance); });
}

/// The values of `lanes` neighbouring threads, a power of two up to the block's kThreads, combined in pairs, pairs of
/// pairs and so on, with the same bits in each thread. All threads of the block must call it together.
template <int kThreads, class V, class Combine>
__device__ V combine_lanes(V value, int lanes, const Combine& combine) {
  const int thread = static_cast<int>(threadIdx.x);
  const auto pairs = [&](int below) {
    for (int mask = 1; mask < below; mask *= 2) {
      const V other = shuffle_xor(value, mask);
      value = (thread & mask) != 0 ? combine(other, value) : combine(value, other);
    }
  };
  pairs(min(lanes, 32));
  if (lanes > 32) {
    __shared__ __align__(16) unsigned char storage[kThreads / 32 * sizeof(V)];
    V* const of_warps = reinterpret_cast<V*>(storage);
    const int warps = lanes / 32;
    __syncthreads();  // another thread may still read the previous call's values
    if (thread % 32 == 0) of_warps[thread / 32] = value;
    __syncthreads();
    value = of_warps[(thread / 32 & ~(warps - 1)) + (thread & (warps - 1))];
    pairs(warps);
  }
  return value;
}

}  // namespace adjoint::cuda
