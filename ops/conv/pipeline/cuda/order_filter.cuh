// Brings a filter, (Cf, Ci, taps) or in channels_last (Cf, taps, Ci), into the pipeline's order, (results, taps,
// channels). A block reorders some results of 64 channels in shared memory, of all taps or of one: it reads runs of
// neighbouring elements, and writes rows of channels.
#pragma once

#include <adjoint/core/base/divider.h>
#include <adjoint/core/cuda/pack.h>
#include <adjoint/core/cuda/ptx.cuh>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace adjoint::cuda::pipeline {

inline constexpr int kOrderThreads = 256, kOrderChannels = 64;
inline constexpr int kOrderAtOnce = 4;  // times that a thread reads before it uses an element
inline constexpr int kOrderVector = 4;  // neighbouring elements

struct FilterOrder {
  std::int64_t results, channels;                    // of the ordered filter
  std::int64_t given_results, given_channels;        // of the given one
  std::int64_t result_step, channel_step, tap_step;  // elements, from one to the next in the given filter
  std::int32_t block_results, channel_blocks, tap_blocks;
  Divider taps, block_results_divider;  // taps: of a block

  /// Taps of a channel follow each other, so a pitch that is odd in words spreads them over the banks.
  ADJOINT_HD static constexpr std::int32_t pitch(std::int32_t element_bytes) {
    return kOrderChannels + 4 / element_bytes;
  }
  std::int32_t smem_bytes(std::int32_t element_bytes) const {
    return block_results * static_cast<std::int32_t>(taps.divisor()) * pitch(element_bytes) * element_bytes;
  }
  /// For results that are the given filter's inner axis, and whole vectors.
  bool reads_vectors(const void* from, std::size_t element_bytes) const {
    return result_step == 1 && channel_step > 1 && given_results % kOrderVector == 0 &&
           channel_step % kOrderVector == 0 &&
           reinterpret_cast<std::uintptr_t>(from) % (kOrderVector * element_bytes) == 0;
  }
  std::int64_t blocks() const { return (results + block_results - 1) / block_results * channel_blocks * tap_blocks; }
};

/// The filter is (first, second, taps), and each of the first two becomes a multiple of `multiple`. transposed: of
/// conv_transpose, whose results are the filter's second axis; conv's are the first.
inline FilterOrder filter_order(std::int64_t first, std::int64_t second, std::int32_t taps, bool transposed,
                                bool is_channels_last, std::int64_t multiple) {
  constexpr std::int32_t kMostResults = 16, kInnerResults = 32;
  // If results are neighbours in memory, a block copies a run of them for one tap. Otherwise there are many blocks,
  // each with as many elements as its threads read together, so that waits for memory overlap.
  const bool results_are_inner = transposed && is_channels_last;
  const std::int32_t block_taps = results_are_inner ? 1 : taps;
  const std::int32_t results = kOrderAtOnce * kOrderThreads / (kOrderChannels * taps);
  const std::int64_t inner_step = is_channels_last ? 1 : taps;
  FilterOrder order{.results = {},
                    .channels = {},
                    .given_results = transposed ? second : first,
                    .given_channels = transposed ? first : second,
                    .result_step = transposed ? inner_step : second * taps,
                    .channel_step = transposed ? second * taps : inner_step,
                    .tap_step = is_channels_last ? second : 1,
                    .block_results = results_are_inner ? kInnerResults : std::clamp(results, 1, kMostResults),
                    .channel_blocks = {},
                    .tap_blocks = taps / block_taps,
                    .taps = Divider(static_cast<std::uint32_t>(block_taps)),
                    .block_results_divider = {}};
  order.results = (order.given_results + multiple - 1) / multiple * multiple;
  order.channels = (order.given_channels + multiple - 1) / multiple * multiple;
  order.channel_blocks = static_cast<std::int32_t>((order.channels + kOrderChannels - 1) / kOrderChannels);
  order.block_results_divider = Divider(static_cast<std::uint32_t>(order.block_results));
  return order;
}

/// Unit: an unsigned integer of an element's size. kVector: neighbouring results of one access, one unless results are
/// the given filter's inner axis.
template <class Unit, int kVector>
__global__ void __launch_bounds__(kOrderThreads)
    order_filter_kernel(const __grid_constant__ FilterOrder o, const Unit* from, Unit* to) {
  constexpr int kPitch = FilterOrder::pitch(sizeof(Unit));
  auto* const staged = reinterpret_cast<Unit*>(ptx::dynamic_smem());  // [result][tap][channel]
  const auto taps = static_cast<int>(o.taps.divisor());
  const int first_tap = static_cast<int>(blockIdx.x) % o.tap_blocks * taps, all_taps = o.tap_blocks * taps;
  const int block = static_cast<int>(blockIdx.x) / o.tap_blocks, thread = static_cast<int>(threadIdx.x);
  const std::int64_t first_result = static_cast<std::int64_t>(block / o.channel_blocks) * o.block_results;
  const int first_channel = block % o.channel_blocks * kOrderChannels;
  const auto results = static_cast<int>(min(o.results - first_result, static_cast<std::int64_t>(o.block_results)));
  const auto channels = static_cast<int>(min(o.channels - first_channel, static_cast<std::int64_t>(kOrderChannels)));
  const bool results_are_inner = o.result_step < o.channel_step;
  const std::int64_t given_results = o.given_results - first_result, given_channels = o.given_channels - first_channel;
  from += first_result * o.result_step + first_channel * o.channel_step + first_tap * o.tap_step;
  ptx::wait_for_earlier_kernels();
  using Read = Pack<Unit, kVector>;
  const int vectors = o.block_results * kOrderChannels * taps / kVector;
  for (int begin = thread; begin < vectors; begin += kOrderAtOnce * kOrderThreads) {
    Read values[kOrderAtOnce];
    int places[kOrderAtOnce];
#pragma unroll
    for (int i = 0; i < kOrderAtOnce; ++i) {
      int tap = min(begin + i * kOrderThreads, vectors - 1) * kVector, inner = o.taps.split(tap), outer;
      if (results_are_inner) {
        outer = o.block_results_divider.split(inner);
      } else {
        outer = inner / kOrderChannels;
        inner %= kOrderChannels;
      }
      const int result = results_are_inner ? inner : outer, channel = results_are_inner ? outer : inner;
      const bool is_given = result < given_results && channel < given_channels;
      values[i] = is_given ? *reinterpret_cast<const Read*>(from + result * o.result_step + channel * o.channel_step +
                                                            tap * o.tap_step)
                           : Read{};
      places[i] = (result * taps + tap) * kPitch + channel;
    }
#pragma unroll
    for (int i = 0; i < kOrderAtOnce; ++i) {
#pragma unroll
      for (int v = 0; v < kVector; ++v) staged[places[i] + v * taps * kPitch] = values[i].values[v];
    }
  }
  __syncthreads();
  to += (first_result * all_taps + first_tap) * o.channels + first_channel;
  // Channels are a multiple of 16 bytes.
  constexpr int kWritten = 4;
  for (int i = thread * kWritten; i < results * taps * kOrderChannels; i += kOrderThreads * kWritten) {
    const int row = i / kOrderChannels, channel = i % kOrderChannels;
    // A block's taps are one or all of them, so its rows are as far apart as results, or taps.
    const std::int64_t place = static_cast<std::int64_t>(row) * o.tap_blocks * o.channels + channel;
    if (channel >= channels) continue;
    Pack<Unit, kWritten> written;
#pragma unroll
    for (int v = 0; v < kWritten; ++v) written.values[v] = staged[row * kPitch + channel + v];
    *reinterpret_cast<Pack<Unit, kWritten>*>(to + place) = written;
  }
}

}  // namespace adjoint::cuda::pipeline
