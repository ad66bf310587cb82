#include <adjoint/core/cuda/launch.h>
#include <adjoint/ops/conv/base/numbers.h>
#include <adjoint/ops/conv/layouts/cuda/rearrange.h>
#include <adjoint/ops/conv/layouts/cuda/samples_last.cuh>
#include <adjoint/ops/conv/layouts/cuda/unshuffle.cuh>

#include <cstdint>

namespace adjoint::cuda {
namespace {

/// Calls move(value) with an unsigned integer of the elements' size.
template <class Move>
void with_element(std::int64_t element_size, const Move& move) {
  if (element_size == 2) return move(std::uint16_t{});
  move(std::uint32_t{});
}

template <bool kBack>
void run(const Unshuffle& how, std::int64_t element_size, const void* from, void* to, int device) {
  with_element(element_size, [&]<class T>(T) {
    launch(rearranged::unshuffle_kernel_of<T, kBack>(how),
           {dim3(static_cast<unsigned>(how.tiles())), dim3(rearranged::kThreads)}, device, how,
           static_cast<const T*>(from), static_cast<T*>(to));
  });
}

}  // namespace

void unshuffle(const Unshuffle& how, std::int64_t element_size, const void* from, void* to, int device) {
  run<false>(how, element_size, from, to, device);
}

void shuffle(const Unshuffle& how, std::int64_t element_size, const void* from, void* to, int device) {
  run<true>(how, element_size, from, to, device);
}

void put_samples_last(const SamplesLast& how, std::int64_t element_size, const void* from, void* to, int device) {
  with_element(element_size, [&]<class T>(T) {
    launch(rearranged::samples_last_kernel_of<T>(how),
           {dim3(static_cast<unsigned>(how.tiles())), dim3(rearranged::kSamplesThreads)}, device, how,
           static_cast<const T*>(from), static_cast<T*>(to));
  });
}

void repeat(std::int64_t count, std::int64_t times, std::int64_t element_size, const void* from, void* to, int device) {
  const auto blocks = static_cast<unsigned>(ceil_div(count * times, rearranged::kThreads));
  with_element(element_size, [&]<class T>(T) {
    launch(rearranged::repeat_kernel<T>, {dim3(blocks), dim3(rearranged::kThreads)}, device,
           static_cast<const T*>(from), static_cast<T*>(to), static_cast<int>(count),
           Divider(static_cast<std::uint32_t>(times)));
  });
}

}  // namespace adjoint::cuda
