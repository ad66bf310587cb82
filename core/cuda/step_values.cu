// They travel as a kernel's parameter: a copy would need page-locked memory that stays until the device has read it.

#include <adjoint/core/cuda/launch.h>
#include <adjoint/core/cuda/step_values.h>

#include <cstdint>
#include <cstring>

namespace adjoint::cuda {
namespace {

constexpr int kThreads = 128;

template <int kWords>
struct Words {
  std::uint32_t words[kWords];
};

template <int kWords>
__global__ void __launch_bounds__(kThreads) write_words(const __grid_constant__ Words<kWords> from, std::uint32_t* to) {
#pragma unroll
  for (int i = static_cast<int>(threadIdx.x); i < kWords; i += kThreads) to[i] = from.words[i];
}

template <int kWords>
void write(void* to, const std::byte* from, std::size_t nbytes, int device) {
  Words<kWords> words{};
  std::memcpy(words.words, from, nbytes);
  launch(write_words<kWords>, {dim3(1), dim3(kThreads)}, device, words, static_cast<std::uint32_t*>(to));
}

}  // namespace

// A block of values is 3072 bytes (StepValues::kBytes), so that writing more than was asked for stays within it.
void write_step_values(void* to, const std::byte* from, std::size_t nbytes, int device) {
  nbytes <= 256 ? write<64>(to, from, nbytes, device) : write<768>(to, from, nbytes, device);
}

}  // namespace adjoint::cuda
