// Sums of outer products: of two operands' channels, over positions that they share.
//
//   result[group][j][i][tap] = sum over the tap's positions of a[i][position of a] * b[j][position of b]
//
// A product whose second operand is transposed has this form; a convolution's weight gradient has it for each tap. The
// operand with more channels is transposed to channels-last, a chunk of positions at a time, so that its channels fill
// vectors; the other is read in place, one scalar per channel. Chunks, and pieces of long rows, are summed in order. If
// a result is too small to share out, shares of the chunks are summed separately and then added up in order. All of
// this depends on shapes and the instruction set, not on threads.
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

/// Positions of planes.
struct PlaneBox {
  Range n, h, w;
  std::int64_t positions() const { return n.size() * h.size() * w.size(); }
};

/// (n, groups * channels, height, width)
template <class T>
struct PlaneOperand {
  const T* data;
  std::int64_t channels;  // per group
  std::int64_t height, width;
};

/// For each n, `height` rows of `width` positions, and their places in either operand's planes.
struct PairedPositions {
  struct Side {
    std::int64_t h, w;  // in the first operand
    std::int64_t step_h, step_w;
  };
  Range n;
  std::int64_t height, width;  // empty if either is not positive
  Side a, b;
};

template <class T>
class OuterSums {
 public:
  OuterSums(std::int64_t groups, std::int64_t taps, const PlaneOperand<T>& a, const PlaneOperand<T>& b)
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

  /// Sums over all chunks of `b`. `part_of_a(chunk)` is the PlaneBox of `a` that a chunk meets, `positions_of(chunk,
  /// tap)` the PairedPositions that it adds to a tap's sums.
  template <class PartOfA, class PositionsOf>
  void add(std::span<const PlaneBox> chunks, PartOfA&& part_of_a, PositionsOf&& positions_of) {
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
        const PlaneBox& chunk = chunks[static_cast<std::size_t>(first + share)];
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

  // The shares' parts: for each group and strip of channels, (n, h, w, channels of the strip).
  void transpose() {
    share_offsets_.assign(1, 0);
    for (const PlaneBox& part : parts_) {
      share_offsets_.push_back(share_offsets_.back() + part.positions() * groups_ * strip_begin_.back());
    }
    const std::int64_t bytes = share_offsets_.back() * static_cast<std::int64_t>(sizeof(T));
    if (transposed_.bytes() < bytes) transposed_ = Buffer(bytes);
    const std::int64_t plane = vectors_.height * vectors_.width;
    for (std::size_t share = 0; share < parts_.size(); ++share) {
      const PlaneBox part = parts_[share];
      const std::int64_t rows = part.n.size() * part.h.size(), tasks = groups_ * strips_ * rows;
      const std::int64_t grain = std::max<std::int64_t>(1, 4096 / std::max<std::int64_t>(1, part.w.size()));
      parallel_ranges(tasks, grain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t task = begin; task < end; ++task) {
          const std::int64_t row = task % rows, strip = task / rows % strips_, group = task / rows / strips_;
          const std::int64_t n = part.n.begin + row / part.h.size(), h = part.h.begin + row % part.h.size();
          const std::int64_t channel = strip_begin(strip), pitch = strip_begin(strip + 1) - channel;
          kernel_.transpose(std::min(pitch, vectors_.channels - channel), part.w.size(),
                            vectors_.data + ((n * groups_ + group) * vectors_.channels + channel) * plane +
                                h * vectors_.width + part.w.begin,
                            plane,
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
    if (positions.height <= 0 || positions.width <= 0) return;
    const std::int64_t lane = block % lane_blocks_, tap = block / lane_blocks_ % taps_;
    const std::int64_t strip = block / lane_blocks_ / taps_ % strips_, group = block / lane_blocks_ / taps_ / strips_;
    const PlaneBox& part = parts_[static_cast<std::size_t>(share)];
    const std::int64_t pitch = strip_begin(strip + 1) - strip_begin(strip);
    const std::int64_t first_lane = lane * scalars_.channels / lane_blocks_;
    const std::int64_t lanes = (lane + 1) * scalars_.channels / lane_blocks_ - first_lane;
    const std::int64_t plane = scalars_.height * scalars_.width;
    const PairedPositions::Side& of_vectors = vectors_from_a_ ? positions.a : positions.b;
    const PairedPositions::Side& of_scalars = vectors_from_a_ ? positions.b : positions.a;
    OuterProduct product{.extent = {positions.n.size(), positions.height, positions.width},
                         .vector_step = {part.h.size() * part.w.size() * pitch,
                                         of_vectors.step_h * part.w.size() * pitch, of_vectors.step_w * pitch},
                         .scalar_step = {groups_ * scalars_.channels * plane, of_scalars.step_h * scalars_.width,
                                         of_scalars.step_w},
                         .lane_step = plane};
    const T* vectors = strip_data(share, group, strip) +
                       ((of_vectors.h - part.h.begin) * part.w.size() + of_vectors.w - part.w.begin) * pitch;
    const T* scalars = scalars_.data +
                       ((positions.n.begin * groups_ + group) * scalars_.channels + first_lane) * plane +
                       of_scalars.h * scalars_.width + of_scalars.w;
    T* to = sums(share, group) + (tap * scalars_.channels + first_lane) * strip_begin_.back() + strip_begin(strip);
    // Long rows are split into pieces, which are summed separately.
    for (std::int64_t at = 0; at < positions.width; at += kPieceColumns) {
      product.extent[2] = std::min(kPieceColumns, positions.width - at);
      kernel_.outer_product(product, static_cast<int>(pitch / kernel_.lanes), static_cast<int>(lanes),
                            vectors + at * product.vector_step[2], scalars + at * product.scalar_step[2], to,
                            strip_begin_.back());
    }
  }

  std::int64_t groups_, taps_;
  bool vectors_from_a_;
  PlaneOperand<T> vectors_, scalars_;
  const ProductKernels<T>& kernel_;
  std::int64_t strips_, lane_blocks_;
  std::vector<std::int64_t> strip_begin_;  // channels, in whole vectors
  std::int64_t shares_ = 1, share_elements_ = 0;
  std::vector<PlaneBox> parts_;  // one per share
  std::vector<std::int64_t> share_offsets_;
  Buffer transposed_, sums_;
};

}  // namespace adjoint::cpu
