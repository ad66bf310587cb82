// Sums of outer products: of two operands' channels, over positions that they share.
//
//   result[group][j][i][tap] = sum over the tap's positions of a[i][position of a] * b[j][position of b]
//
// A product whose second operand is transposed has this form; a convolution's weight gradient has it for each tap. The
// operand with more channels is transposed to channels-last, a chunk of positions at a time, so that its channels fill
// vectors; the other is read in place, one scalar per channel. Chunks, and pieces of long rows, are summed in order. If
// a result is too small to divide, parts of the chunks are summed separately and then added up in order. All of this
// depends on shapes and the instruction set, not on threads.
#pragma once

#include <adjoint/core/base/parallel.h>
#include <adjoint/core/base/quotients.h>
#include <adjoint/ops/matmul/cpu/dispatch.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace adjoint::cpu {

struct Range {
  std::int64_t begin, end;
  std::int64_t size() const { return end - begin; }
};

/// Positions of volumes.
struct VolumeBox {
  Range n, d, h, w;
  std::int64_t volume() const { return d.size() * h.size() * w.size(); }
  std::int64_t positions() const { return n.size() * volume(); }
};

/// (n, groups * channels, depth, height, width)
template <class T>
struct VolumeOperand {
  const T* data;
  std::int64_t channels;  // per group
  std::int64_t depth, height, width;
  std::int64_t volume() const { return depth * height * width; }
};

/// For each n, `depth` planes of `height` rows of `width` positions, and their places in either operand's volumes.
struct PairedPositions {
  struct Side {
    struct Axes {
      std::int64_t d, h, w;
    };
    Axes first, step;
  };
  Range n;
  std::int64_t depth, height, width;  // empty if one is not positive
  Side a, b;
};

template <class T>
class OuterSums {
 public:
  OuterSums(std::int64_t groups, std::int64_t taps, const VolumeOperand<T>& a, const VolumeOperand<T>& b)
      : groups_(groups),
        taps_(taps),
        vectors_from_a_(a.channels > b.channels),
        vectors_(vectors_from_a_ ? a : b),
        scalars_(vectors_from_a_ ? b : a),
        kernel_(product_kernels<T>()) {
    const std::int64_t count = ceil_div(vectors_.channels, kernel_.lanes);
    strips_ = ceil_div(count, scalars_.channels == 1 ? kMostLoneVectors : kernel_.panel_vectors);
    for (std::int64_t i = 0; i <= strips_; ++i) strip_begin_.push_back(i * count / strips_ * kernel_.lanes);
    lane_blocks_ = ceil_div(scalars_.channels, kernel_.block);
  }

  /// The approximate number of positions of a chunk.
  std::int64_t chunk_positions() const {
    constexpr std::int64_t kChunkElements = std::int64_t{1} << 19, kFewestPositions = 512;
    return std::max(kFewestPositions, kChunkElements / (groups_ * strip_begin_.back()));
  }

  /// Sums over all chunks of `b`. `part_of_a(chunk)` is the VolumeBox of `a` that a chunk meets, `positions_of(chunk,
  /// tap)` the PairedPositions that it adds to a tap's sums.
  template <class PartOfA, class PositionsOf>
  void add(std::span<const VolumeBox> chunks, PartOfA&& part_of_a, PositionsOf&& positions_of) {
    constexpr std::int64_t kEnough = 16;
    const std::int64_t blocks = groups_ * strips_ * taps_ * lane_blocks_;
    const auto count = static_cast<std::int64_t>(chunks.size());
    shares_ =
        std::clamp<std::int64_t>(kEnough / std::max<std::int64_t>(1, blocks), 1, std::max<std::int64_t>(1, count));
    share_elements_ = taps_ * scalars_.channels * groups_ * strip_begin_.back();
    const std::int64_t bytes = shares_ * share_elements_ * static_cast<std::int64_t>(sizeof(T));
    sums_ = Buffer(bytes);
    if (bytes > 0) std::memset(sums_.template as<char>(), 0, static_cast<std::size_t>(bytes));
    for (std::int64_t first = 0; first < count; first += shares_) {
      const std::int64_t present = std::min(shares_, count - first);
      parts_.clear();
      for (std::int64_t share = 0; share < present; ++share) {
        const VolumeBox& chunk = chunks[static_cast<std::size_t>(first + share)];
        parts_.push_back(vectors_from_a_ ? part_of_a(chunk) : chunk);
      }
      transpose();
      parallel_for(present * blocks, [&](std::int64_t task) {
        const std::int64_t share = task / blocks, block = task % blocks, tap = block / lane_blocks_ % taps_;
        add_block(positions_of(chunks[static_cast<std::size_t>(first + share)], tap), share, block);
      });
    }
  }

  /// Adds up the shares, in order, and reorders the result's axes, a strip of channels and taps at a time, which stays
  /// in the first-level cache.
  void write(T* result) const {
    constexpr std::int64_t kChannels = 16, kTaps = 32;
    const std::int64_t lane_step = (vectors_from_a_ ? vectors_.channels : 1) * taps_;
    const std::int64_t channel_step = (vectors_from_a_ ? 1 : scalars_.channels) * taps_;
    const std::int64_t strips = ceil_div(vectors_.channels, kChannels), tasks = groups_ * scalars_.channels * strips;
    parallel_ranges(tasks, std::max<std::int64_t>(1, 1024 / taps_), [&](std::int64_t begin, std::int64_t end) {
      std::array<T, kChannels * kTaps> strip;
      for (std::int64_t task = begin; task < end; ++task) {
        const std::int64_t first = task % strips * kChannels, lane = task / strips % scalars_.channels;
        const std::int64_t group = task / strips / scalars_.channels;
        const std::int64_t channels = std::min(kChannels, vectors_.channels - first);
        T* to =
            result + group * vectors_.channels * scalars_.channels * taps_ + lane * lane_step + first * channel_step;
        for (std::int64_t first_tap = 0; first_tap < taps_; first_tap += kTaps) {
          const std::int64_t count = std::min(kTaps, taps_ - first_tap);
          for (std::int64_t tap = 0; tap < count; ++tap) {
            const std::int64_t at = ((first_tap + tap) * scalars_.channels + lane) * strip_begin_.back() + first;
            for (std::int64_t c = 0; c < channels; ++c) {
              T sum = sums(0, group)[at + c];
              for (std::int64_t share = 1; share < shares_; ++share) sum += sums(share, group)[at + c];
              strip[static_cast<std::size_t>(c * kTaps + tap)] = sum;
            }
          }
          for (std::int64_t c = 0; c < channels; ++c) {
            T* target = to + c * channel_step + first_tap;
            for (std::int64_t tap = 0; tap < count; ++tap)
              target[tap] = strip[static_cast<std::size_t>(c * kTaps + tap)];
          }
        }
      }
    });
  }

 private:
  static constexpr std::int64_t kPieceColumns = 512;

  // The shares' parts: for each group and strip of channels, (n, d, h, w, channels of the strip).
  void transpose() {
    share_offsets_.assign(1, 0);
    for (const VolumeBox& part : parts_) {
      share_offsets_.push_back(share_offsets_.back() + part.positions() * groups_ * strip_begin_.back());
    }
    const std::int64_t bytes = share_offsets_.back() * static_cast<std::int64_t>(sizeof(T));
    if (transposed_.bytes() < bytes) transposed_ = Buffer(bytes);
    const std::int64_t volume = vectors_.volume();
    for (std::size_t share = 0; share < parts_.size(); ++share) {
      const VolumeBox part = parts_[share];
      const std::int64_t rows_of_n = part.d.size() * part.h.size(), rows = part.n.size() * rows_of_n,
                         tasks = groups_ * strips_ * rows;
      const std::int64_t grain = std::max<std::int64_t>(1, 4096 / std::max<std::int64_t>(1, part.w.size()));
      parallel_ranges(tasks, grain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t task = begin; task < end; ++task) {
          const std::int64_t row = task % rows, strip = task / rows % strips_, group = task / rows / strips_;
          const std::int64_t n = part.n.begin + row / rows_of_n;
          const std::int64_t d = part.d.begin + row / part.h.size() % part.d.size(),
                             h = part.h.begin + row % part.h.size();
          const std::int64_t channel = strip_begin(strip), pitch = strip_begin(strip + 1) - channel;
          kernel_.transpose(std::min(pitch, vectors_.channels - channel), part.w.size(),
                            vectors_.data + ((n * groups_ + group) * vectors_.channels + channel) * volume +
                                (d * vectors_.height + h) * vectors_.width + part.w.begin,
                            volume,
                            strip_data(static_cast<std::int64_t>(share), group, strip) + row * part.w.size() * pitch,
                            pitch);
        }
      });
    }
  }

  std::int64_t strip_begin(std::int64_t strip) const { return strip_begin_[static_cast<std::size_t>(strip)]; }
  T* strip_data(std::int64_t share, std::int64_t group, std::int64_t strip) const {
    return transposed_.template as<T>() + share_offsets_[static_cast<std::size_t>(share)] +
           parts_[static_cast<std::size_t>(share)].positions() * (group * strip_begin_.back() + strip_begin(strip));
  }
  // (taps, lanes, padded channels) of a group.
  T* sums(std::int64_t share, std::int64_t group) const {
    return sums_.template as<T>() + share * share_elements_ + group * taps_ * scalars_.channels * strip_begin_.back();
  }

  // One tap, strip of channels and block of lanes; neighbouring tasks share a strip.
  void add_block(const PairedPositions& positions, std::int64_t share, std::int64_t block) {
    if (positions.depth <= 0 || positions.height <= 0 || positions.width <= 0) return;
    const std::int64_t lane = block % lane_blocks_, tap = block / lane_blocks_ % taps_;
    const std::int64_t strip = block / lane_blocks_ / taps_ % strips_, group = block / lane_blocks_ / taps_ / strips_;
    const VolumeBox& part = parts_[static_cast<std::size_t>(share)];
    const std::int64_t pitch = strip_begin(strip + 1) - strip_begin(strip);
    const std::int64_t first_lane = lane * scalars_.channels / lane_blocks_;
    const std::int64_t lanes = (lane + 1) * scalars_.channels / lane_blocks_ - first_lane;
    const std::int64_t volume = scalars_.volume();
    const PairedPositions::Side& of_vectors = vectors_from_a_ ? positions.a : positions.b;
    const PairedPositions::Side& of_scalars = vectors_from_a_ ? positions.b : positions.a;
    const auto in_part = [&](const PairedPositions::Side::Axes& at) {
      return ((at.d * part.h.size() + at.h) * part.w.size() + at.w) * pitch;
    };
    const auto in_volume = [&](const PairedPositions::Side::Axes& at) {
      return (at.d * scalars_.height + at.h) * scalars_.width + at.w;
    };
    const auto &first = of_vectors.first, &step = of_vectors.step, &scalar_step = of_scalars.step;
    OuterProduct product{.extent = {positions.n.size(), positions.depth, positions.height, positions.width},
                         .vector_step = {part.volume() * pitch, in_part({step.d, 0, 0}), in_part({0, step.h, 0}),
                                         in_part({0, 0, step.w})},
                         .scalar_step = {groups_ * scalars_.channels * volume, in_volume({scalar_step.d, 0, 0}),
                                         in_volume({0, scalar_step.h, 0}), in_volume({0, 0, scalar_step.w})},
                         .lane_step = volume};
    const T* vectors = strip_data(share, group, strip) +
                       in_part({first.d - part.d.begin, first.h - part.h.begin, first.w - part.w.begin});
    const T* scalars = scalars_.data +
                       ((positions.n.begin * groups_ + group) * scalars_.channels + first_lane) * volume +
                       in_volume(of_scalars.first);
    T* to = sums(share, group) + (tap * scalars_.channels + first_lane) * strip_begin_.back() + strip_begin(strip);
    // Long rows are split into pieces, which are summed separately.
    for (std::int64_t at = 0; at < positions.width; at += kPieceColumns) {
      product.extent[3] = std::min(kPieceColumns, positions.width - at);
      kernel_.outer_product(product, static_cast<int>(pitch / kernel_.lanes), static_cast<int>(lanes),
                            vectors + at * product.vector_step[3], scalars + at * product.scalar_step[3], to,
                            strip_begin_.back());
    }
  }

  std::int64_t groups_, taps_;
  bool vectors_from_a_;
  VolumeOperand<T> vectors_, scalars_;
  const ProductKernels<T>& kernel_;
  std::int64_t strips_, lane_blocks_;
  std::vector<std::int64_t> strip_begin_;  // channels, in whole vectors
  std::int64_t shares_ = 1, share_elements_ = 0;
  std::vector<VolumeBox> parts_;  // one per share
  std::vector<std::int64_t> share_offsets_;
  Buffer transposed_, sums_;
};

}  // namespace adjoint::cpu
