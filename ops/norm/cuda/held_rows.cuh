// Rows whose channels are their elements (layer_norm and similar functions) and which lanes can hold: the assignment of
// elements to threads, and copies of the next rows. For .cu files.
#pragma once

#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/ops/norm/cuda/rows.cuh>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

namespace adjoint::cuda::norm {

// The division of rows among blocks: a group of `lanes` threads handles one row at a time, in turn with the block's
// other groups.
struct HeldRows {
  std::int64_t rows = 1, length = 1, a_block = 1;
  int lanes = 1;

  std::int64_t blocks() const { return (rows + a_block - 1) / a_block; }
};

// At most 32 elements of a row per thread: a warp has 1,024, and computes its sums alone. Float32's copies need twice
// the shared memory, so smaller blocks fill a multiprocessor better.
template <class T>
inline constexpr int kHeldThreads = sizeof(T) == 2 ? 256 : 128;
template <class T>
inline constexpr int kMostHeldPacks = 32 / kPack<T>;

// A thread's part of a block's rows: kPacks packs of every row of its group. Neighbouring lanes of a warp have
// neighbouring packs, and a warp's packs are adjacent, so the distance between a thread's packs is known.
template <class T, int kPacks>
struct HeldPlace {
  static constexpr int kV = kPack<T>, kBlock = kHeldThreads<T>, kStep = 32 * kV;
  std::int64_t begin, end;  // the block's rows
  int length, lanes, lane, group, groups, column;

  __device__ explicit HeldPlace(const HeldRows& held)
      : begin(blockIdx.x * held.a_block),
        end(min(held.rows, begin + held.a_block)),
        length(static_cast<int>(held.length)),
        lanes(held.lanes) {
    const int thread = static_cast<int>(threadIdx.x), shift = 31 - __clz(lanes);
    lane = thread & (lanes - 1);
    group = thread >> shift;
    groups = kBlock >> shift;
    column = (lane / 32 * kPacks * 32 + lane % 32) * kV;
  }
  __device__ bool holds(int p) const { return column + p * kStep < length; }
};

// The sum over a row's lanes, in pairs, pairs of pairs and so on, with the same bits in each lane.
template <int kBlock, class V, class Add>
__device__ V add_held(V value, int lanes, const Add& add) {
  if (lanes != 32) return combine_lanes<kBlock>(value, lanes, add);
#pragma unroll
  for (int mask = 1; mask < 32; mask *= 2) value = add(value, shuffle_xor(value, mask));
  return value;
}

// Copies in shared memory of a thread's packs of kTensors tensors, for kStages rows. A thread reads only its own
// copies, so no thread waits for another.
template <class T, int kTensors, int kPacks, int kStages>
class HeldCopies {
 public:
  static constexpr int kBlock = kHeldThreads<T>;
  static constexpr int kStageBytes = kBlock * 16 * kPacks * kTensors, kBytes = kStageBytes * kStages;
  using Held = HeldPlace<T, kPacks>;
  using Loaded = Pack<T, kPack<T>>;

  // Starts copying the first kStages - 1 rows.
  __device__ HeldCopies(const Held& place, const T* const (&from)[kTensors])
      : place_(place), mine_(ptx::dynamic_smem() + threadIdx.x * 16), row_(place.begin + place.group) {
#pragma unroll
    for (int t = 0; t < kTensors; ++t) next_[t] = from[t] + row_ * place.length + place.column;
#pragma unroll
    for (int s = 0; s < kStages - 1; ++s) fetch();
  }

  // Waits for the next row, which read() then returns.
  __device__ void wait() { ptx::cp_async_wait<kStages - 2>(); }
  __device__ Loaded read(int tensor, int p) const {
    return *reinterpret_cast<const Loaded*>(mine_ + at_ * kStageBytes + (tensor * kPacks + p) * (kBlock * 16));
  }
  // Starts copying another row, or zeros if there is no other row, and zeros past its end.
  __device__ void fetch() {
    const std::uint32_t to = ptx::shared_address(mine_ + into_ * kStageBytes);
#pragma unroll
    for (int t = 0; t < kTensors; ++t) {
#pragma unroll
      for (int p = 0; p < kPacks; ++p) {
        ptx::cp_async_zfill<16>(to + (t * kPacks + p) * (kBlock * 16), next_[t] + p * Held::kStep,
                                row_ < place_.end && place_.holds(p));
      }
      next_[t] += std::int64_t{place_.groups} * place_.length;
    }
    ptx::cp_async_commit();
    row_ += place_.groups;
    into_ = after(into_);
  }
  // Marks the row that was waited for as read.
  __device__ void pop() { at_ = after(at_); }

 private:
  __device__ static int after(int stage) { return stage + 1 == kStages ? 0 : stage + 1; }

  const Held& place_;
  const T* next_[kTensors];
  unsigned char* mine_;
  std::int64_t row_;
  int into_ = 0, at_ = 0;
};

// A row's weights or biases in shared memory, because all groups use the same ones and registers are scarce;
// `otherwise` if they are absent.
template <class T, int kPacks>
class HeldChannels {
 public:
  using Held = HeldPlace<T, kPacks>;
  using Loaded = Pack<T, kPack<T>>;

  static constexpr int bytes(int lanes) { return lanes * kPacks * 16; }
  // The block must synchronise before it reads.
  __device__ HeldChannels(unsigned char* memory, const T* from, float otherwise, const Held& place)
      : mine_(reinterpret_cast<T*>(memory) + place.column) {
    if (place.group > 0) return;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      Loaded pack;
#pragma unroll
      for (T& each : pack.values) each = convert<T>(otherwise);
      if (from != nullptr && place.holds(p)) {
        pack = *reinterpret_cast<const Loaded*>(from + place.column + p * Held::kStep);
      }
      *reinterpret_cast<Loaded*>(mine_ + p * Held::kStep) = pack;
    }
  }
  __device__ Loaded read(int p) const { return *reinterpret_cast<const Loaded*>(mine_ + p * Held::kStep); }

 private:
  T* mine_;
};

// ---- On the host.

// The plan, and the number of packs of a row per thread: 0 if lanes cannot hold a row, and for float64, which is for
// checks. A thread has at most `rows_a_thread`.
template <class T>
int plan_held(const Norm<T>& norm, const NormAttr& attr, std::int64_t rows_a_thread, HeldRows& held) {
  constexpr std::int64_t kBlocks = 512;  // enough for a GPU
  const std::int64_t rows = attr.rows(), length = attr.row_length(), packs = length / kPack<T>;
  if (std::is_same_v<T, double> || attr.given || attr.across || !attr.activation.is_none()) return 0;
  if (attr.groups != 1 || attr.inner != 1 || attr.wide || !is_whole(norm, length)) return 0;
  if (packs > kMostHeldPacks<T> * kHeldThreads<T>) return 0;
  const auto wanted = std::bit_ceil(static_cast<std::uint64_t>((packs + 31) / 32));
  const auto packs_a_thread = std::min<std::int64_t>(static_cast<std::int64_t>(wanted), kMostHeldPacks<T>);
  held.rows = rows;
  held.length = length;
  held.lanes =
      static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>((packs + packs_a_thread - 1) / packs_a_thread)));
  const std::int64_t groups = kHeldThreads<T> / held.lanes;
  held.a_block = groups * std::min((rows + kBlocks * groups - 1) / (kBlocks * groups), rows_a_thread);
  return static_cast<int>(packs_a_thread);
}

// use.operator()<kPacks>()
template <class T, class Use>
void with_packs(int packs, const Use& use) {
  if (packs == 1) return use.template operator()<1>();
  if (packs == 2) return use.template operator()<2>();
  if (packs == 4) return use.template operator()<4>();
  if constexpr (kMostHeldPacks<T> == 8) use.template operator()<8>();
}

}  // namespace adjoint::cuda::norm
