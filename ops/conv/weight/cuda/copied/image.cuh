// Copies the image of conv_weight's wgmma kernel to shared memory: raw rows, split into planes by the stride.
#pragma once

#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/ops/conv/weight/cuda/block.cuh>
#include <adjoint/ops/conv/weight/cuda/common.cuh>

#include <cstdint>

namespace adjoint::cuda::weight {

inline constexpr int kItemImage = 20;  // first bit of an item's image in its word

/// All threads together: pack the items of a stage, once.
template <int kThreads>
__device__ __forceinline__ void fill_items(const WeightPlan& p, int vector, uint2* items) {
  const auto count = static_cast<unsigned>((p.image_stage() << p.log2_tile_n) / vector);
  for (unsigned i = threadIdx.x; i < count; i += kThreads) {
    const WeightItem item = weight_item(p, i, vector);
    items[i] = make_uint2(static_cast<unsigned>(item.h) << 16 | static_cast<unsigned>(item.w),
                          static_cast<unsigned>(item.n) << kItemImage | static_cast<unsigned>(item.element));
  }
}

/// Puts each of kVector halves, or zeros, into its plane: the element at position i belongs to plane i % kStride.
template <int kVector, int kStride>
__device__ __forceinline__ void sort_halves(unsigned char* to, std::uint32_t plane, const unsigned char* from,
                                            bool valid) {
  if constexpr (kVector == 2) {
    const std::uint32_t pair = valid ? __ldg(reinterpret_cast<const std::uint32_t*>(from)) : 0;
    *reinterpret_cast<std::uint16_t*>(to) = static_cast<std::uint16_t>(pair);
    *reinterpret_cast<std::uint16_t*>(to + plane) = static_cast<std::uint16_t>(pair >> 16);
  } else {
    const uint4 v = valid ? __ldg(reinterpret_cast<const uint4*>(from)) : make_uint4(0, 0, 0, 0);
    const std::uint32_t words[] = {v.x, v.y, v.z, v.w};
    constexpr std::uint32_t kLow = 0x5410, kHigh = 0x7632;  // selectors: both words' low halves, both high halves
#pragma unroll
    for (int k = 0; k < kStride; ++k) {
      const std::uint32_t selector = k % 2 == 0 ? kLow : kHigh;
      if constexpr (kStride == 2) {
        *reinterpret_cast<uint2*>(to + k * plane) =
            make_uint2(__byte_perm(words[0], words[1], selector), __byte_perm(words[2], words[3], selector));
      } else if constexpr (kStride == 4) {
        *reinterpret_cast<std::uint32_t*>(to + k * plane) = __byte_perm(words[k / 2], words[k / 2 + 2], selector);
      } else {
        *reinterpret_cast<std::uint16_t*>(to + k * plane) = static_cast<std::uint16_t>(words[k / 2] >> (k % 2 * 16));
      }
    }
  }
}

/// A loader's copies of some of a stage's items, each in every so-many-th channel.
struct ImageCopies {
  std::int64_t step;  // bytes from one of the loader's channels to its next
  std::uint32_t to, to_step;
  int count;
};

/// Copies kBytes of each channel, asynchronously; `to` is an address.
template <int kBytes>
__device__ __forceinline__ void copy_channels(ImageCopies copies, const unsigned char* from, std::int64_t step,
                                              bool valid) {
  // Separate address registers, because an asynchronous copy reads its registers late and holds up whoever writes them
  // next.
  constexpr int kInTurn = 4;
  if (copies.count >= 2 * kInTurn) {
    const unsigned char* froms[kInTurn];
    std::uint32_t tos[kInTurn];
#pragma unroll
    for (int i = 0; i < kInTurn; ++i) {
      froms[i] = from + i * step;
      tos[i] = copies.to + i * copies.to_step;
    }
#pragma unroll 2
    for (; copies.count >= kInTurn; copies.count -= kInTurn) {
#pragma unroll
      for (int i = 0; i < kInTurn; ++i) {
        ptx::cp_async_zfill<kBytes>(tos[i], froms[i], valid);
        froms[i] += kInTurn * step;
        tos[i] += kInTurn * copies.to_step;
      }
    }
    from = froms[0];
    copies.to = tos[0];
  }
#pragma unroll 4
  for (int c = 0; c < copies.count; ++c) {
    ptx::cp_async_zfill<kBytes>(copies.to, from, valid);
    from += step;
    copies.to += copies.to_step;
  }
}

/// Copies kVector elements of a row, or halves of `kStride` planes in turn, which are sorted in registers.
template <int kSize, int kVector, int kStride>
__device__ __forceinline__ void copy_image(const WeightPlan& p, const WgmmaBlock& block, ImageCopies copies,
                                           const unsigned char* source, bool valid, const void* anywhere) {
  const unsigned char* from = valid ? source : static_cast<const unsigned char*>(anywhere);
  const std::int64_t step = valid ? copies.step : 0;
  if constexpr (kVector * kSize >= 4 && kStride == 1) {
    copies.to += block.smem_base;
    copy_channels<kVector * kSize>(copies, from, step, valid);
  } else if constexpr (kStride == 1) {
#pragma unroll 8
    for (int c = 0; c < copies.count; ++c) {
      copy_or_zero<kVector * kSize>(block.smem, 0, copies.to, from, valid);
      from += step;
      copies.to += copies.to_step;
    }
  } else {
    const std::uint32_t plane = kSize * p.rows * p.cols;
#pragma unroll 8
    for (int c = 0; c < copies.count; ++c) {
      sort_halves<kVector, kStride>(block.smem + copies.to, plane, from, valid);
      from += step;
      copies.to += copies.to_step;
    }
  }
}

/// The part of the image that stages read.
template <int kSize>
struct ImageWindow {
  const unsigned char* origin;  // the block's first channel, of the first image
  const unsigned char* first;   // of the stage: its first image, row and column, which may be outside
  std::int64_t sample;          // from an image to the next, elements
  std::uint32_t plane;          // from a channel to the next, elements
  const uint2* items;           // (row, column) in 16 bits each; image above the place in the stage
  int base_h, base_w, first_h, first_w, images, channels;

  __device__ __forceinline__ ImageWindow(const WeightPlan& p, const WeightWork& work, const void* image,
                                         const uint2* stage_items)
      : items(stage_items) {
    const WeightTapBlock& taps = p.tap_block[work.tap_block];
    base_h = taps.h_base * p.stride_h + taps.first_plane_h;
    base_w = taps.w_base * p.stride_w + taps.first_plane_w;
    channels = min(p.block_channels, p.image_channels - work.first_channel);
    plane = static_cast<std::uint32_t>(p.image_h) * static_cast<std::uint32_t>(p.image_w);
    sample = static_cast<std::int64_t>(plane) * p.image_channels * p.groups;
    origin = static_cast<const unsigned char*>(image) +
             (static_cast<std::int64_t>(work.group) * p.image_channels + work.first_channel) * plane * kSize;
  }
  __device__ __forceinline__ void move(const WeightPlan& p, const WeightStage& at) {
    first_h = at.h * p.stride_h + base_h;
    first_w = at.w * p.stride_w + base_w;
    images = static_cast<int>(min(p.batch - at.n, static_cast<std::int64_t>(1) << p.log2_tile_n));
    first = origin + (at.n * sample + static_cast<std::int64_t>(first_h) * p.image_w + first_w) * kSize;
  }

  __device__ __forceinline__ bool inside(const WeightPlan& p, uint2 item) const {
    const unsigned h = static_cast<unsigned>(first_h) + (item.x >> 16);  // negative ones are large
    const unsigned w = static_cast<unsigned>(first_w) + (item.x & 0xffff);
    return static_cast<int>(item.y >> kItemImage) < images && h < static_cast<unsigned>(p.image_h) &&
           w < static_cast<unsigned>(p.image_w);
  }
  /// The source of channel c's item, if it is inside.
  __device__ __forceinline__ const unsigned char* source(const WeightPlan& p, uint2 item, int c) const {
    std::uint64_t element = static_cast<std::uint64_t>(item.x >> 16) * static_cast<unsigned>(p.image_w);
    element += item.x & 0xffff;
    element += static_cast<std::uint64_t>(static_cast<unsigned>(c)) * plane;
    element += (item.y >> kItemImage) * static_cast<std::uint64_t>(sample);
    return first + element * kSize;
  }

  /// Its byte offset in the stage.
  static __device__ __forceinline__ std::uint32_t destination(uint2 item) {
    return kSize * (item.y & ((1U << kItemImage) - 1));
  }
};

/// Single elements of few channels: several items' at a time.
template <int kSize>
__device__ __forceinline__ void copy_few_channels(const WeightPlan& p, const WgmmaBlock& block,
                                                  const ImageWindow<kSize>& window, std::uint32_t stage, int items,
                                                  const void* anywhere, int thread) {
  constexpr int kBatch = 8;
#pragma unroll 1
  for (int c = 0; c < window.channels; ++c, stage += kSize * p.image_pitch) {
#pragma unroll 1
    for (int begin = thread; begin < items; begin += kBatch * kLoaders) {
      std::uint32_t to[kBatch];
      std::uint16_t halves[kBatch];
#pragma unroll
      for (int k = 0; k < kBatch; ++k) {
        const int i = begin + k * kLoaders;
        const uint2 item = window.items[min(i, items - 1)];
        const unsigned char* from = window.source(p, item, c);
        const bool inside = window.inside(p, item);
        to[k] = stage + window.destination(item);
        if constexpr (kSize == 2) {
          halves[k] = inside ? __ldg(reinterpret_cast<const std::uint16_t*>(from)) : std::uint16_t{0};
        } else if (i < items) {
          ptx::cp_async_zfill<kSize>(block.smem_base + to[k], inside ? from : anywhere, inside);
        }
      }
      if constexpr (kSize == 2) {
#pragma unroll
        for (int k = 0; k < kBatch; ++k) *reinterpret_cast<std::uint16_t*>(block.smem + to[k]) = halves[k];
      }
    }
  }
}

template <int kSize, int kVector, int kStride>
__device__ __forceinline__ void load_wgmma_image(const WeightPlan& p, const WgmmaBlock& block,
                                                 const ImageWindow<kSize>& window, const void* image,
                                                 std::uint32_t stage, int thread) {
  const int items = (p.image_stage() << p.log2_tile_n) / kVector;
  if constexpr (kVector == 1) {
    if (window.channels <= 4 && items >= 4 * kLoaders) {
      copy_few_channels(p, block, window, stage, items, image, thread);
      return;
    }
  }
  // Handles so many items together (a power of two) that most loaders have one; the other loaders copy further
  // channels.
#pragma unroll 1
  for (int begin = 0, log2_width; begin < items; begin += 1 << log2_width) {
    log2_width = min(31 - __clz(items - begin), 7);
    if (log2_width < 7 && 2 * (items - begin) >= 3 << log2_width) ++log2_width;
    const int i = begin + (thread & ((1 << log2_width) - 1)), c = thread >> log2_width;
    if (i >= items || c >= window.channels) continue;
    const uint2 item = window.items[i];
    const int channel_step = kLoaders >> log2_width;
    ImageCopies copies;
    copies.step = (static_cast<std::int64_t>(window.plane) * kSize) << (7 - log2_width);
    copies.to = stage + kSize * c * p.image_pitch + window.destination(item);
    copies.to_step = kSize * channel_step * p.image_pitch;
    copies.count = (window.channels - c + channel_step - 1) >> (7 - log2_width);
    copy_image<kSize, kVector, kStride>(p, block, copies, window.source(p, item, c), window.inside(p, item), image);
  }
}

template <int kSize>
__device__ __forceinline__ void load_wgmma_image(const WeightPlan& p, const WgmmaBlock& block,
                                                 const ImageWindow<kSize>& window, const WeightOperands& operands,
                                                 std::uint32_t stage, int thread) {
  const void* image = operands.image;
  if (kSize == 2 && p.stride_w > 1 && operands.image_vector > 1) {
    if (operands.image_vector == 2) {
      load_wgmma_image<kSize, 2, 2>(p, block, window, image, stage, thread);
    } else if (p.stride_w == 2) {
      load_wgmma_image<kSize, 8, 2>(p, block, window, image, stage, thread);
    } else if (p.stride_w == 4) {
      load_wgmma_image<kSize, 8, 4>(p, block, window, image, stage, thread);
    } else {
      load_wgmma_image<kSize, 8, 8>(p, block, window, image, stage, thread);
    }
    return;
  }
  switch (operands.image_vector) {
    case 8: return load_wgmma_image < kSize, kSize == 2 ? 8 : 4, 1 > (p, block, window, image, stage, thread);
    case 4: return load_wgmma_image<kSize, 4, 1>(p, block, window, image, stage, thread);
    case 2: return load_wgmma_image<kSize, 2, 1>(p, block, window, image, stage, thread);
    default: return load_wgmma_image<kSize, 1, 1>(p, block, window, image, stage, thread);
  }
}

}  // namespace adjoint::cuda::weight
