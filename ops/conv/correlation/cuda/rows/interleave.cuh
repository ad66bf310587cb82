// Interleaves the halves of two channels into units of one position each, in place in shared memory.
#pragma once

#include <cstdint>

namespace adjoint::cuda::correlation {

/// Read and written by one instruction.
template <int kCount>
struct alignas(4 * kCount) Words {
  std::uint32_t word[kCount];
};

/// A run of a row of two channels: before, a word holds two neighbours of one channel; after, two channels of one
/// position. If the row is split by stride, every word's first half belongs to one plane and its second to another.
template <int kWords, bool kStrided>
class HalfPair {
  static constexpr bool kTogether = !kStrided && kWords < 4;  // one vector holds both rows' pieces
  Words<kWords> a_, b_;

 public:
  __device__ __forceinline__ void read(const std::uint32_t* a, const std::uint32_t* b) {
    if constexpr (kTogether) {
      const auto both = *reinterpret_cast<const Words<2 * kWords>*>(a);
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        a_.word[i] = both.word[i];
        b_.word[i] = both.word[kWords + i];
      }
    } else {
      a_ = *reinterpret_cast<const Words<kWords>*>(a);
      b_ = *reinterpret_cast<const Words<kWords>*>(b);
    }
  }

  /// Writes to the place of the read; `swapped`: b precedes a.
  __device__ __forceinline__ void write(std::uint32_t* a, std::uint32_t* b, bool swapped) const {
    Words<2 * kWords> units;
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      units.word[kStrided ? i : 2 * i] = __byte_perm(a_.word[i], b_.word[i], 0x5410);
      units.word[kStrided ? kWords + i : 2 * i + 1] = __byte_perm(a_.word[i], b_.word[i], 0x7632);
    }
    if constexpr (kTogether) {
      *reinterpret_cast<Words<2 * kWords>*>(a) = units;
    } else {
      Words<kWords> first, second;
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        first.word[i] = swapped ? units.word[kWords + i] : units.word[i];
        second.word[i] = swapped ? units.word[i] : units.word[kWords + i];
      }
      *reinterpret_cast<Words<kWords>*>(a) = first;
      *reinterpret_cast<Words<kWords>*>(b) = second;
    }
  }
};

}  // namespace adjoint::cuda::correlation
