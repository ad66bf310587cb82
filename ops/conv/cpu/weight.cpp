// conv_weight on the CPU: outer products, summed over positions.
//
//   filter[f, c, k] = sum over n and o of image[n, c, o * stride - padding + k * dilation] * feature[n, f, o]
//
// The operand with more channels a group is transposed to channels-last, a chunk of positions at a time, so that its
// channels fill vectors; the other is read as it lies, a scalar a channel. Each tap sums over just the positions whose
// image position exists. Chunks, and pieces of long rows, are summed in order; where a filter is too small to share
// out, shares of the chunks are summed apart and then added up in order. All of that depends on shapes and the
// instruction set, not on threads.

#include <adjoint/core/parallel.h>
#include <adjoint/ops/conv/cpu/backend.h>
#include <adjoint/ops/conv/cpu/dispatch.h>
#include <adjoint/ops/conv/cpu/weight_chunks.h>
#include <adjoint/ops/conv/cpu/weight_narrow.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

namespace adjoint::cpu {
namespace {

constexpr std::int64_t kPieceColumns = 512;

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Feature positions o, of one axis, whose image position for tap k exists, cut to `within`.
Range reached(const ConvGeometry& g, std::size_t axis, std::int64_t k, Range within) {
  const std::int64_t base = image_position(0, k, g.stride[axis], g.padding[axis], g.dilation[axis]);
  const std::int64_t first = base >= 0 ? 0 : ceil_div(-base, g.stride[axis]);
  const std::int64_t last = base >= g.image[axis] ? 0 : (g.image[axis] - 1 - base) / g.stride[axis] + 1;
  const std::int64_t begin = std::clamp(first, within.begin, within.end);
  return {begin, std::clamp(last, begin, std::max(begin, within.end))};
}

template <class T>
class WeightGradient {
 public:
  WeightGradient(const Tensor& image, const Tensor& feature, const ConvGeometry& geometry)
      : g_(geometry), kernel_(kernels<T>()), image_(image.data<T>()), feature_(feature.data<T>()) {
    const std::int64_t image_channels = g_.image_channels_per_group(),
                       feature_channels = g_.feature_channels_per_group();
    vectors_from_image_ = image_channels > feature_channels;
    vector_channels_ = std::max(image_channels, feature_channels);
    lane_channels_ = std::min(image_channels, feature_channels);
    const std::int64_t vectors = ceil_div(vector_channels_, kernel_.lanes);
    strips_ = ceil_div(vectors, lane_channels_ == 1 ? kMostLoneVectors : kernel_.panel_vectors);
    for (std::int64_t i = 0; i <= strips_; ++i) strip_begin_.push_back(i * vectors / strips_ * kernel_.lanes);
    lane_blocks_ = ceil_div(lane_channels_, kernel_.block);
  }

  void run(Tensor& filter) {
    constexpr std::int64_t kChunkElements = std::int64_t{1} << 19, kFewestPositions = 512;
    constexpr std::int64_t kEnough = 16;
    const std::int64_t padded = g_.groups * strip_begin_.back();
    const std::vector<Chunk> chunks = make_chunks(g_, std::max(kFewestPositions, kChunkElements / padded));
    const std::int64_t blocks = g_.groups * strips_ * g_.taps() * lane_blocks_;
    const std::int64_t count = static_cast<std::int64_t>(chunks.size());
    shares_ =
        std::clamp<std::int64_t>(kEnough / std::max<std::int64_t>(1, blocks), 1, std::max<std::int64_t>(1, count));
    share_elements_ = g_.taps() * lane_channels_ * padded;
    const std::int64_t bytes = shares_ * share_elements_ * static_cast<std::int64_t>(sizeof(T));
    sums_ = Buffer(bytes);
    if (bytes > 0) std::memset(sums_.template as<char>(), 0, static_cast<std::size_t>(bytes));
    for (std::int64_t first = 0; first < count; first += shares_) {
      const std::int64_t present = std::min(shares_, count - first);
      transpose({chunks.begin() + first, chunks.begin() + first + present});
      parallel_for(present * blocks, [&](std::int64_t task) {
        add_block(chunks[static_cast<std::size_t>(first + task / blocks)], task / blocks, task % blocks);
      });
    }
    write(filter.mutable_data<T>());
  }

 private:
  // What of the transposed operand a chunk reads.
  Chunk source_of(const Chunk& chunk) const {
    if (!vectors_from_image_) return chunk;
    const auto image_range = [&](std::size_t axis, Range o) {
      const std::int64_t first = image_position(o.begin, 0, g_.stride[axis], g_.padding[axis], g_.dilation[axis]);
      const std::int64_t last =
          image_position(o.end - 1, g_.kernel[axis] - 1, g_.stride[axis], g_.padding[axis], g_.dilation[axis]);
      const std::int64_t begin = std::clamp<std::int64_t>(first, 0, g_.image[axis]);
      return Range{begin, std::clamp<std::int64_t>(last + 1, begin, g_.image[axis])};
    };
    return {chunk.n, image_range(0, chunk.h), image_range(1, chunk.w)};
  }

  static std::int64_t positions(const Chunk& chunk) { return chunk.n.size() * chunk.h.size() * chunk.w.size(); }

  // Into transposed_[share]: for each group and strip of channels, (n, h, w, channels of the strip).
  void transpose(std::span<const Chunk> chunks) {
    share_offsets_.assign(1, 0);
    for (const Chunk& chunk : chunks) {
      share_offsets_.push_back(share_offsets_.back() + positions(source_of(chunk)) * g_.groups * strip_begin_.back());
    }
    const std::int64_t bytes = share_offsets_.back() * static_cast<std::int64_t>(sizeof(T));
    if (transposed_.bytes() < bytes) transposed_ = Buffer(bytes);
    const Extent2& extent = vectors_from_image_ ? g_.image : g_.feature;
    const T* from = vectors_from_image_ ? image_ : feature_;
    for (std::size_t share = 0; share < chunks.size(); ++share) {
      const Chunk source = source_of(chunks[share]);
      const std::int64_t rows = source.n.size() * source.h.size(), tasks = g_.groups * strips_ * rows;
      const std::int64_t grain = std::max<std::int64_t>(1, 4096 / std::max<std::int64_t>(1, source.w.size()));
      parallel_ranges(tasks, grain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t task = begin; task < end; ++task) {
          const std::int64_t row = task % rows, strip = task / rows % strips_, group = task / rows / strips_;
          const std::int64_t n = source.n.begin + row / source.h.size(), h = source.h.begin + row % source.h.size();
          const std::int64_t channel = strip_begin(strip), pitch = strip_begin(strip + 1) - channel;
          const std::int64_t plane = extent[0] * extent[1];
          kernel_.transpose(
              std::min(pitch, vector_channels_ - channel), source.w.size(),
              from + ((n * g_.groups + group) * vector_channels_ + channel) * plane + h * extent[1] + source.w.begin,
              plane, strip_data(static_cast<std::int64_t>(share), source, group, strip) + row * source.w.size() * pitch,
              pitch);
        }
      });
    }
  }

  std::int64_t strip_begin(std::int64_t strip) const { return strip_begin_[static_cast<std::size_t>(strip)]; }
  T* strip_data(std::int64_t share, const Chunk& source, std::int64_t group, std::int64_t strip) const {
    return transposed_.template as<T>() + share_offsets_[static_cast<std::size_t>(share)] +
           positions(source) * (group * strip_begin_.back() + strip_begin(strip));
  }
  // (taps, lane channels, padded vector channels) of a group.
  T* sums(std::int64_t share, std::int64_t group) const {
    return sums_.template as<T>() + share * share_elements_ + group * g_.taps() * lane_channels_ * strip_begin_.back();
  }

  // One tap, strip of channels and block of lanes; neighbouring tasks share a strip.
  void add_block(const Chunk& chunk, std::int64_t share, std::int64_t block) {
    const std::int64_t lane = block % lane_blocks_, tap = block / lane_blocks_ % g_.taps();
    const std::int64_t strip = block / lane_blocks_ / g_.taps() % strips_,
                       group = block / lane_blocks_ / g_.taps() / strips_;
    const std::int64_t kh = tap / g_.kernel[1], kw = tap % g_.kernel[1];
    const Range h = reached(g_, 0, kh, chunk.h), w = reached(g_, 1, kw, chunk.w);
    if (h.size() <= 0 || w.size() <= 0) return;
    const Chunk source = source_of(chunk);
    const std::int64_t pitch = strip_begin(strip + 1) - strip_begin(strip);
    const std::int64_t first_lane = lane * lane_channels_ / lane_blocks_;
    const std::int64_t lanes = (lane + 1) * lane_channels_ / lane_blocks_ - first_lane;
    const std::int64_t image_h = image_position(h.begin, kh, g_.stride[0], g_.padding[0], g_.dilation[0]);
    const std::int64_t image_w = image_position(w.begin, kw, g_.stride[1], g_.padding[1], g_.dilation[1]);
    const Extent2& scalar_extent = vectors_from_image_ ? g_.feature : g_.image;
    const std::int64_t plane = scalar_extent[0] * scalar_extent[1];
    const Extent2 vector_stride = vectors_from_image_ ? g_.stride : Extent2{1, 1};
    const Extent2 scalar_stride = vectors_from_image_ ? Extent2{1, 1} : g_.stride;
    OuterProduct product{.extent = {chunk.n.size(), h.size(), w.size()},
                         .vector_step = {source.h.size() * source.w.size() * pitch,
                                         vector_stride[0] * source.w.size() * pitch, vector_stride[1] * pitch},
                         .scalar_step = {g_.groups * lane_channels_ * plane, scalar_stride[0] * scalar_extent[1],
                                         scalar_stride[1]},
                         .lane_step = plane};
    const std::int64_t vector_h = vectors_from_image_ ? image_h : h.begin,
                       vector_w = vectors_from_image_ ? image_w : w.begin;
    const std::int64_t scalar_h = vectors_from_image_ ? h.begin : image_h,
                       scalar_w = vectors_from_image_ ? w.begin : image_w;
    const T* vectors = strip_data(share, source, group, strip) +
                       ((vector_h - source.h.begin) * source.w.size() + vector_w - source.w.begin) * pitch;
    const T* scalars = (vectors_from_image_ ? feature_ : image_) +
                       ((chunk.n.begin * g_.groups + group) * lane_channels_ + first_lane) * plane +
                       scalar_h * scalar_extent[1] + scalar_w;
    T* to = sums(share, group) + (tap * lane_channels_ + first_lane) * strip_begin_.back() + strip_begin(strip);
    // Long rows in pieces, which are summed apart.
    for (std::int64_t at = 0; at < w.size(); at += kPieceColumns) {
      product.extent[2] = std::min(kPieceColumns, w.size() - at);
      kernel_.outer_product(product, static_cast<int>(pitch / kernel_.lanes), static_cast<int>(lanes),
                            vectors + at * product.vector_step[2], scalars + at * product.scalar_step[2], to,
                            strip_begin_.back());
    }
  }

  // Adds up the shares, in order, and puts the filter's axes in their order: a strip of vector channels and taps at a
  // time, which stays in the first-level cache.
  void write(T* filter) const {
    constexpr std::int64_t kChannels = 16, kTaps = 32;
    const std::int64_t taps = g_.taps(), strips = ceil_div(vector_channels_, kChannels);
    const std::int64_t lane_step = (vectors_from_image_ ? g_.image_channels_per_group() : 1) * taps;
    const std::int64_t channel_step = (vectors_from_image_ ? 1 : g_.image_channels_per_group()) * taps;
    const std::int64_t tasks = g_.groups * lane_channels_ * strips;
    parallel_ranges(tasks, std::max<std::int64_t>(1, 1024 / taps), [&](std::int64_t begin, std::int64_t end) {
      std::array<T, kChannels * kTaps> strip;
      for (std::int64_t task = begin; task < end; ++task) {
        const std::int64_t first = task % strips * kChannels, lane = task / strips % lane_channels_;
        const std::int64_t group = task / strips / lane_channels_;
        const std::int64_t channels = std::min(kChannels, vector_channels_ - first);
        T* to = filter + group * vector_channels_ * lane_channels_ * taps + lane * lane_step + first * channel_step;
        for (std::int64_t first_tap = 0; first_tap < taps; first_tap += kTaps) {
          const std::int64_t count = std::min(kTaps, taps - first_tap);
          for (std::int64_t tap = 0; tap < count; ++tap) {
            const std::int64_t at = ((first_tap + tap) * lane_channels_ + lane) * strip_begin_.back() + first;
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

  const ConvGeometry& g_;
  const Kernels<T>& kernel_;
  const T* image_;
  const T* feature_;
  bool vectors_from_image_;
  std::int64_t vector_channels_, lane_channels_;  // of one group
  std::int64_t strips_, lane_blocks_;
  std::vector<std::int64_t> strip_begin_;  // channels, in whole vectors
  std::int64_t shares_ = 1, share_elements_ = 0;
  std::vector<std::int64_t> share_offsets_;
  Buffer transposed_, sums_;
};

}  // namespace

template <class T>
void vector_conv_weight(std::span<const Tensor> in, Tensor& out, const ConvGeometry& g) {
  if (is_narrow<T>(g)) {
    narrow_weight<T>(in[0], in[1], out, g);
  } else {
    WeightGradient<T>(in[0], in[1], g).run(out);
  }
}

template void vector_conv_weight<float>(std::span<const Tensor>, Tensor&, const ConvGeometry&);
template void vector_conv_weight<double>(std::span<const Tensor>, Tensor&, const ConvGeometry&);

}  // namespace adjoint::cpu
