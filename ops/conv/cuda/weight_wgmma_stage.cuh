// How conv_weight's wgmma kernel fills shared memory: a warpgroup of its own copies the image as raw rows, and the
// feature to the places that wgmma's swizzle gives it. Stages are a ring with a full and an empty mbarrier each.
//
// wgmma would truncate float32 to tf32, so those features pass through registers, rounded or split on the way, a queue
// of them always under way; everything else comes by cp.async.
#pragma once

#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/ops/conv/cuda/weight_common.cuh>

#include <cstdint>
#include <type_traits>

namespace adjoint::cuda::weight {

inline constexpr int kLoaders = 128;   // threads
inline constexpr int kHalfLag = 2;     // stages of halves under way before the first is waited for
inline constexpr int kItemImage = 20;  // where an item's image is in its word

struct WgmmaRing {
  int slot = 0;
  std::uint32_t parity = 0;
  __device__ __forceinline__ void advance(int slots) {
    if (++slot == slots) {
      slot = 0;
      parity ^= 1;
    }
  }
};

/// Of a block: its part of the product, its stages, and where they lie in shared memory.
struct WgmmaBlock {
  WeightWork work;
  std::int64_t first_stage, end_stage;
  unsigned char* smem;
  std::uint32_t smem_base;    // the same as an address
  std::uint32_t full, empty;  // mbarriers
  std::uint32_t stage_bytes, feature_bytes;
  const uint2* items;  // (row, column) in 16 bits each; image above the place in the stage
};

/// All threads together: the items of a stage, packed once.
template <int kThreads>
__device__ __forceinline__ void fill_items(const WeightPlan& p, int vector, uint2* items) {
  const auto count = static_cast<unsigned>((p.image_stage() << p.log2_tile_n) / vector);
  for (unsigned i = threadIdx.x; i < count; i += kThreads) {
    const WeightItem item = weight_item(p, i, vector);
    items[i] = make_uint2(static_cast<unsigned>(item.h) << 16 | static_cast<unsigned>(item.w),
                          static_cast<unsigned>(item.n) << kItemImage | static_cast<unsigned>(item.element));
  }
}

/// A loader's share of every stage of the image: its first item, and every so-many-th channel from its first on.
struct ImageLanes {
  int count, item, channel, channel_step;
};

__device__ __forceinline__ ImageLanes image_lanes(const WeightPlan& p, int vector, int thread) {
  const int count = (p.image_stage() << p.log2_tile_n) / vector;
  const int lanes = min(count, kLoaders), step = kLoaders / lanes, channel = thread / lanes;
  return {count, channel < step ? thread - channel * lanes : count, channel, step};
}

template <int kSize, int kVector>
__device__ __forceinline__ void load_wgmma_image(const WeightPlan& p, const WgmmaBlock& block, const ImageLanes& lanes,
                                                 const WeightStage& at, const unsigned char* image,
                                                 std::uint32_t stage) {
  const WeightTapBlock& taps = p.tap_block[block.work.tap_block];
  const int first_h = (at.h + taps.h_base) * p.stride_h + taps.first_plane_h;
  const int first_w = (at.w + taps.w_base) * p.stride_w + taps.first_plane_w;
  const int images = static_cast<int>(min(p.batch - at.n, static_cast<std::int64_t>(1) << p.log2_tile_n));
  const std::int64_t plane = static_cast<std::int64_t>(p.image_h) * p.image_w * kSize;
  const std::int64_t sample = plane * p.image_channels * p.groups;
  const int channels = min(p.block_channels, p.image_channels - block.work.first_channel);
  const std::int64_t channel = block.work.group * p.image_channels + block.work.first_channel + lanes.channel;
  const unsigned char* first = image + at.n * sample + channel * plane;
  const std::int64_t step = lanes.channel_step * plane;
  const std::uint32_t to_step = kSize * lanes.channel_step * p.image_pitch;
#pragma unroll 1
  for (int i = lanes.item; i < lanes.count; i += kLoaders) {
    const uint2 item = block.items[i];
    const int h = first_h + static_cast<int>(item.x >> 16), w = first_w + static_cast<int>(item.x & 0xffff);
    const int n = static_cast<int>(item.y >> kItemImage);
    const bool valid = n < images && h >= 0 && h < p.image_h && w >= 0 && w < p.image_w;
    const unsigned char* source =
        valid ? first + n * sample + (static_cast<std::int64_t>(h) * p.image_w + w) * kSize : image;
    const std::int64_t source_step = valid ? step : 0;
    std::uint32_t to =
        stage + kSize * (lanes.channel * p.image_pitch + static_cast<int>(item.y & ((1U << kItemImage) - 1)));
#pragma unroll 4
    for (int c = lanes.channel; c < channels; c += lanes.channel_step) {
      copy_or_zero<kVector * kSize>(block.smem, block.smem_base, to, source, valid);
      source += source_step;
      to += to_step;
    }
  }
}

template <int kSize>
__device__ __forceinline__ void load_wgmma_image(const WeightPlan& p, const WgmmaBlock& block, const ImageLanes& lanes,
                                                 const WeightStage& at, const WeightOperands& operands,
                                                 std::uint32_t stage) {
  const auto* image = static_cast<const unsigned char*>(operands.image);
  constexpr int kWide = 16 / kSize;
  if (operands.image_vector == kWide) {
    load_wgmma_image<kSize, kWide>(p, block, lanes, at, image, stage);
  } else if (operands.image_vector == 2) {
    load_wgmma_image<kSize, 2>(p, block, lanes, at, image, stage);
  } else {
    load_wgmma_image<kSize, 1>(p, block, lanes, at, image, stage);
  }
}

/// A loader's share of a stage of the feature: one place, in every so-many-th channel.
template <int kSize, int kVector>
struct FeatureLanes {
  int position, first_column, column_step;
  std::uint32_t row, within;  // bytes: the place is row + column * 128 + (within ^ column % 8 * 16)

  __device__ __forceinline__ FeatureLanes(const WeightPlan& p, int thread) {
    const int vectors = (1 << p.log2_positions()) / kVector;  // at most kLoaders
    position = thread % vectors * kVector;
    first_column = thread / vectors;
    column_step = kLoaders / vectors;
    const int byte = position * kSize;
    row = static_cast<std::uint32_t>(byte / 128 * p.tile_columns * 128);
    within = static_cast<std::uint32_t>(byte % 128);
  }
  __device__ __forceinline__ std::uint32_t place(int column) const {
    return row + column * 128 + (within ^ static_cast<std::uint32_t>((column & 7) << 4));
  }
};

/// Where a loader reads a stage's feature; no channels outside the feature's positions.
struct FeatureSource {
  const unsigned char* first;
  std::int64_t step;  // from one of its channels to the next, bytes
  int channels;       // of the block's columns

  template <class Lanes>
  __device__ __forceinline__ FeatureSource(const WeightPlan& p, const WeightWork& work, const Lanes& lanes,
                                           const WeightStage& at, const void* feature, int size) {
    const int w = at.w + (lanes.position & ((1 << p.log2_tile_w) - 1));
    const int h = at.h + (lanes.position >> p.log2_tile_w & ((1 << p.log2_tile_h) - 1));
    const std::int64_t n = at.n + (lanes.position >> (p.log2_tile_w + p.log2_tile_h));
    const std::int64_t plane = static_cast<std::int64_t>(p.feature_h) * p.feature_w * size;
    const bool inside = n < p.batch && h < p.feature_h && w < p.feature_w;
    const std::int64_t channel =
        (n * p.groups + work.group) * p.feature_channels + work.first_column + lanes.first_column;
    first = static_cast<const unsigned char*>(feature) + channel * plane +
            (static_cast<std::int64_t>(h) * p.feature_w + w) * size;
    step = lanes.column_step * plane;
    channels = inside ? p.feature_channels - work.first_column : 0;
  }
};

template <int kVector>
using Words = std::conditional_t<kVector == 4, uint4, std::conditional_t<kVector == 2, uint2, std::uint32_t>>;

template <int kVector>
__device__ __forceinline__ void store_words(unsigned char* to, const std::uint32_t (&words)[kVector]) {
  if constexpr (kVector == 4) {
    *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
  } else if constexpr (kVector == 2) {
    *reinterpret_cast<uint2*>(to) = make_uint2(words[0], words[1]);
  } else {
    *reinterpret_cast<std::uint32_t*>(to) = words[0];
  }
}

/// Rounds kVector float32 to tf32, or splits them, on their way to shared memory; tails lie `tail` bytes further.
template <int kVector, bool kSplit>
__device__ __forceinline__ void store_rounded(unsigned char* to, int tail, const Words<kVector>& value) {
  std::uint32_t words[kVector], tails[kVector];
  if constexpr (kVector == 4) {
    words[0] = value.x, words[1] = value.y, words[2] = value.z, words[3] = value.w;
  } else if constexpr (kVector == 2) {
    words[0] = value.x, words[1] = value.y;
  } else {
    words[0] = value;
  }
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    const float word = __uint_as_float(words[i]);
    if constexpr (kSplit) {
      split_tf32(word, words[i], tails[i]);
    } else {
      words[i] = ptx::round_to_tf32(word);
    }
  }
  store_words<kVector>(to, words);
  if constexpr (kSplit) store_words<kVector>(to + tail, tails);
}

/// All stages of a block, float32. A stage is full once every loader has arrived twice: by its copies and by its
/// stores.
template <int kColumns, bool kSplit, int kWords, int kVector>
__device__ __forceinline__ void load_words(const WeightPlan& p, const WeightOperands& operands, const WgmmaBlock& block,
                                           int thread) {
  constexpr int kQueue = (kColumns >= 32 ? kWords : 16) / kVector;  // a thread has 16 words of 16 columns
  const FeatureLanes<4, kVector> lanes(p, thread);
  const ImageLanes image = image_lanes(p, operands.image_vector, thread);
  const int batch_columns = kQueue * lanes.column_step;
  const int tail = static_cast<int>(block.feature_bytes / 2);
  Words<kVector> queue[kQueue];
  FeatureSource source(p, block.work, lanes, weight_stage(p, block.first_stage), operands.feature, 4);
  int next_column = lanes.first_column;
  const auto load = [&](int j) {
    const bool valid = next_column < source.channels;
    queue[j] = valid ? __ldg(reinterpret_cast<const Words<kVector>*>(source.first)) : Words<kVector>{};
    source.first += source.step;
    next_column += lanes.column_step;
  };
#pragma unroll
  for (int j = 0; j < kQueue; ++j) load(j);

  WgmmaRing ring;
#pragma unroll 1
  for (std::int64_t s = block.first_stage; s < block.end_stage; ++s) {
    ptx::mbarrier_wait(block.empty + 8 * ring.slot, ring.parity ^ 1);
    const std::uint32_t stage = ring.slot * block.stage_bytes, full = block.full + 8 * ring.slot;
    load_wgmma_image<4>(p, block, image, weight_stage(p, s), operands, stage + block.feature_bytes);
    ptx::mbarrier_arrive_after_cp_async(full);
#pragma unroll 1
    for (int batch = 0; batch < kColumns; batch += batch_columns) {
      if (batch + batch_columns == kColumns) {
        // The next stage's loads start as this one's values leave their registers.
        if (s + 1 < block.end_stage) {
          source = FeatureSource(p, block.work, lanes, weight_stage(p, s + 1), operands.feature, 4);
        } else {
          source.channels = 0;
        }
        next_column = lanes.first_column;
      }
#pragma unroll
      for (int j = 0; j < kQueue; ++j) {
        const int column = batch + j * lanes.column_step + lanes.first_column;
        store_rounded<kVector, kSplit>(block.smem + stage + lanes.place(column), tail, queue[j]);
        load(j);
      }
    }
    ptx::fence_async_proxy();
    ptx::mbarrier_arrive(full);
    ring.advance(p.smem_stages);
  }
}

/// All stages of a block, halves. A thread arrives once, some stages later: its copies must be complete before the
/// fence that lets wgmma read them.
template <int kColumns, int kVector>
__device__ __forceinline__ void load_halves(const WeightPlan& p, const WeightOperands& operands,
                                            const WgmmaBlock& block, int thread) {
  const FeatureLanes<2, kVector> lanes(p, thread);
  const ImageLanes image = image_lanes(p, operands.image_vector, thread);
  WgmmaRing ring, arrived;
  const auto arrive = [&] {
    ptx::fence_async_proxy();
    ptx::mbarrier_arrive(block.full + 8 * arrived.slot);
    arrived.advance(p.smem_stages);
  };
  int open = 0;
#pragma unroll 1
  for (std::int64_t s = block.first_stage; s < block.end_stage; ++s) {
    ptx::mbarrier_wait(block.empty + 8 * ring.slot, ring.parity ^ 1);
    const std::uint32_t stage = ring.slot * block.stage_bytes;
    const WeightStage at = weight_stage(p, s);
    load_wgmma_image<2>(p, block, image, at, operands, stage + block.feature_bytes);
    FeatureSource source(p, block.work, lanes, at, operands.feature, 2);
#pragma unroll 8
    for (int column = lanes.first_column; column < kColumns; column += lanes.column_step) {
      const bool valid = column < source.channels;
      copy_or_zero<2 * kVector>(block.smem, block.smem_base, stage + lanes.place(column),
                                valid ? source.first : operands.feature, valid);
      source.first += source.step;
    }
    ptx::cp_async_commit();
    if (open == kHalfLag) {
      ptx::cp_async_wait<kHalfLag>();
      arrive();
    } else {
      ++open;
    }
    ring.advance(p.smem_stages);
  }
  ptx::cp_async_wait<0>();
  for (; open > 0; --open) arrive();
}

/// `kWords`: registers for features under way.
template <Arithmetic kArithmetic, int kColumns, int kWords>
__device__ __forceinline__ void load_stages(const WeightPlan& p, const WeightOperands& operands,
                                            const WgmmaBlock& block, int thread) {
  if constexpr (ArithmeticTraits<kArithmetic>::kHalf) {
    if (operands.feature_vector == 8) {
      load_halves<kColumns, 8>(p, operands, block, thread);
    } else if (operands.feature_vector == 2) {
      load_halves<kColumns, 2>(p, operands, block, thread);
    } else {
      load_halves<kColumns, 1>(p, operands, block, thread);
    }
  } else {
    constexpr bool kSplit = ArithmeticTraits<kArithmetic>::kSplit;
    if (operands.feature_vector == 4) {
      load_words<kColumns, kSplit, kWords, 4>(p, operands, block, thread);
    } else if (operands.feature_vector == 2) {
      load_words<kColumns, kSplit, kWords, 2>(p, operands, block, thread);
    } else {
      load_words<kColumns, kSplit, kWords, 1>(p, operands, block, thread);
    }
  }
}

}  // namespace adjoint::cuda::weight
