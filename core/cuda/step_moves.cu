// Each launch costs the host some 5 us, as much as the graph's own. One launch therefore brings a step's inputs and the
// host's numbers, and the graph itself copies its outputs away. The numbers travel as the kernel's argument: a copy
// would need page-locked memory that stays until the device has read it.

#include <adjoint/core/cuda/launch.h>
#include <adjoint/core/cuda/pack.h>
#include <adjoint/core/cuda/step_moves.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace adjoint::cuda {
namespace {

constexpr int kThreads = 256, kMostMoves = 8;
constexpr std::size_t kBytesOfBlock = std::size_t{kThreads} * 16 * 4;

template <int kWords>
struct Feed {
  detail::StepMove moves[kMostMoves];
  int count;
  std::uint32_t* to;
  std::uint32_t words[kWords];
};

// Copied by all blocks along x.
template <class T>
__device__ void move(T* __restrict__ to, const T* __restrict__ from, std::size_t count) {
  const std::size_t step = std::size_t{gridDim.x} * kThreads;
  for (std::size_t i = std::size_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += step) to[i] = from[i];
}

__device__ void move_bytes(void* to, const void* from, std::size_t nbytes) {
  using Large = Pack<std::uint32_t, 4>;
  if (nbytes % 16 == 0 && is_aligned<std::uint32_t, 4>(to) && is_aligned<std::uint32_t, 4>(from)) {
    move(static_cast<Large*>(to), static_cast<const Large*>(from), nbytes / 16);
  } else if (nbytes % 4 == 0 && is_aligned<std::uint32_t, 1>(to) && is_aligned<std::uint32_t, 1>(from)) {
    move(static_cast<std::uint32_t*>(to), static_cast<const std::uint32_t*>(from), nbytes / 4);
  } else {
    move(static_cast<std::uint8_t*>(to), static_cast<const std::uint8_t*>(from), nbytes);
  }
}

template <int kWords>
__global__ void __launch_bounds__(kThreads) feed(const __grid_constant__ Feed<kWords> feed) {
  if (static_cast<int>(blockIdx.y) < feed.count) {
    const detail::StepMove& m = feed.moves[blockIdx.y];
    move_bytes(m.to, m.from, m.nbytes);
  } else if (blockIdx.x == 0) {
#pragma unroll
    for (int i = static_cast<int>(threadIdx.x); i < kWords; i += kThreads) feed.to[i] = feed.words[i];
  }
}

__global__ void __launch_bounds__(kThreads) deliver(const void* from, void* const* to, std::size_t nbytes) {
  move_bytes(*to, from, nbytes);
}

dim3 blocks_of(std::size_t nbytes, std::size_t moves, int device) {
  const auto most = static_cast<std::size_t>(4 * multiprocessor_count(device));
  return {static_cast<unsigned>(std::clamp<std::size_t>((nbytes + kBytesOfBlock - 1) / kBytesOfBlock, 1, most)),
          static_cast<unsigned>(moves)};
}

template <int kWords>
void run(std::span<const detail::StepMove> moves, void* to, const std::byte* from, std::size_t nbytes, int device) {
  Feed<kWords> parameter{.count = static_cast<int>(moves.size()), .to = static_cast<std::uint32_t*>(to)};
  std::copy(moves.begin(), moves.end(), parameter.moves);
  std::size_t largest = 0;
  for (const detail::StepMove& m : moves) largest = std::max(largest, m.nbytes);
  if (nbytes > 0) std::memcpy(parameter.words, from, nbytes);
  launch(feed<kWords>, {blocks_of(largest, moves.size() + (nbytes > 0 ? 1 : 0), device), dim3(kThreads)}, device,
         parameter);
}

}  // namespace

// A block of numbers is 3072 bytes (StepValues::kBytes), so writing more than requested stays within it.
void feed_step(std::span<const detail::StepMove> moves, void* to, const std::byte* from, std::size_t nbytes,
               int device) {
  while (moves.size() > kMostMoves) {
    run<64>(moves.first(kMostMoves), nullptr, nullptr, 0, device);
    moves = moves.subspan(kMostMoves);
  }
  nbytes <= 256 ? run<64>(moves, to, from, nbytes, device) : run<768>(moves, to, from, nbytes, device);
}

void deliver_step_output(const void* from, void* const* to, std::size_t nbytes, int device) {
  launch(deliver, {blocks_of(nbytes, 1, device), dim3(kThreads)}, device, from, to, nbytes);
}

}  // namespace adjoint::cuda
