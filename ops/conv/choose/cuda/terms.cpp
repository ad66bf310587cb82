#include <adjoint/ops/conv/choose/cuda/terms.h>

#include <adjoint/ops/conv/base/cuda/arithmetic.h>
#include <adjoint/ops/conv/base/machine.h>
#include <adjoint/ops/conv/base/numbers.h>
#include <adjoint/ops/conv/channelwise/cuda/channelwise.h>
#include <adjoint/ops/conv/channelwise/cuda/weight_plan.h>
#include <adjoint/ops/conv/correlation/clocks.h>
#include <adjoint/ops/conv/correlation/cuda/blocks/blocked.h>
#include <adjoint/ops/conv/correlation/cuda/correlation.h>
#include <adjoint/ops/conv/correlation/cuda/mma/plan.h>
#include <adjoint/ops/conv/correlation/cuda/sliced.h>
#include <adjoint/ops/conv/correlation/slices.h>
#include <adjoint/ops/conv/few_results/cuda/few_results.h>
#include <adjoint/ops/conv/line/col2im/cuda/col2im.h>
#include <adjoint/ops/conv/line/narrow/cuda/narrow.h>
#include <adjoint/ops/conv/line/packed/cuda/packed.h>
#include <adjoint/ops/conv/plain/plan.h>
#include <adjoint/ops/conv/product/cuda/product.h>
#include <adjoint/ops/conv/product/cuda/tapwise.h>
#include <adjoint/ops/conv/short_sums/cuda/short_sums.h>
#include <adjoint/ops/conv/weight/cuda/blocks/blocked.h>
#include <adjoint/ops/conv/weight/cuda/mma_plan.h>
#include <adjoint/ops/conv/weight/cuda/weight.h>
#include <adjoint/ops/conv/weight/parts.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

namespace adjoint::cuda {
namespace {

constexpr double kMillion = 1e-6;          // per counted item
constexpr double kSmemBytes = 228 << 10;   // per multiprocessor
constexpr double kResidentThreads = 2048;  // per multiprocessor
constexpr double kResidentBlocks = 32;     // per multiprocessor
constexpr std::int64_t kVectorBytes = 16;  // of the widest copy

double number(std::int64_t value) { return static_cast<double>(value); }
double megabytes(double bytes) { return bytes / kBytesPerMicrosecond; }

/// A problem's operands by role: the sources of conv are the image, those of conv_transpose the feature.
struct Sides {
  std::int64_t sources, results;  // channels per group
  std::int64_t plane, taps;       // positions of the result; the most taps that one of them sums
  std::int64_t source_row;        // bytes

  explicit Sides(const ConvProblem& problem) {
    const ConvGeometry& g = problem.geometry;
    const bool transposed = problem.role == ConvRole::kImage;
    sources = transposed ? g.feature_channels_per_group() : g.image_channels_per_group();
    results = transposed ? g.image_channels_per_group() : g.feature_channels_per_group();
    plane = transposed ? g.image_plane() : g.feature_plane();
    taps = transposed ? ceil_div(g.kernel.h, g.stride.h) * ceil_div(g.kernel.w, g.stride.w) : g.taps();
    source_row = (transposed ? g.feature.w : g.image.w) * element_size(problem.dtype);
  }
};

/// Successive waves of blocks on all multiprocessors, with `resident` blocks on each.
double waves_of(const ConvProblem& problem, double blocks, double resident) {
  return std::ceil(std::max(1.0, blocks / (problem.machine.multiprocessors * std::max(1.0, std::floor(resident)))));
}

double resident_blocks(double threads, double smem_bytes) {
  constexpr double kReserved = 1024;  // shared memory per block
  return std::min({std::floor(kResidentThreads / threads), kSmemBytes / (smem_bytes + kReserved), kResidentBlocks});
}

/// The width in bytes of the widest copy that rows of this size allow.
std::int64_t row_alignment(std::int64_t bytes) { return std::gcd(bytes, kVectorBytes); }

double result_megabytes(const ConvProblem& problem) {
  const ConvGeometry& g = problem.geometry;
  const std::int64_t numel = problem.role == ConvRole::kImage ? g.image_numel() : g.feature_numel();
  return megabytes(number(numel * element_size(problem.dtype)));
}

double filter_megabytes(const ConvProblem& problem) {
  return megabytes(number(problem.geometry.filter_numel() * element_size(problem.dtype)));
}

/// The model's clocks, more if rows are copied in small pieces; the filter's packing; results; and steps, each of which
/// waits for the previous one's copies.
Terms tensor_core_terms(const ConvProblem& problem, const CorrelationPlan& p, double clocks) {
  const std::int64_t alignment = row_alignment(Sides(problem).source_row);
  const double model = clocks_as_microseconds(clocks);
  const double steps = p.blocked ? 0 : p.class_list[0].steps * static_cast<double>(p.chunks);
  return {problem,
          {model, megabytes(4.0 * number(p.filter_units())), result_megabytes(problem), alignment == 2 ? model : 0,
           alignment == 4 ? model : 0, .01 * steps}};
}

/// The model's clocks; and, for rows that do not begin at whole vectors, which threads read element by element, the
/// elements of the source that a multiprocessor's tiles read one after another. The rows' length decides, not the
/// tensor's address, because an address must not affect the bits.
Terms line_terms(const ConvProblem& problem, const LinePlan& p, double clocks, double tiles, double tile_elements) {
  const bool is_odd = p.w.source % p.vector != 0;
  const double model = clocks_as_microseconds(clocks), read = 1e-3 * waves_of(problem, tiles, 1) * tile_elements;
  return {problem, {model, is_odd ? model : 0, is_odd ? read : 0}};
}

}  // namespace

Terms::Terms(const ConvProblem& problem, std::initializer_list<double> of_kernel) : count_(2 + of_kernel.size()) {
  values_[0] = 1;
  values_[1] = memory_microseconds(problem);
  std::copy(of_kernel.begin(), of_kernel.end(), values_.begin() + 2);
}

double memory_microseconds(const ConvProblem& problem) {
  const ConvGeometry& g = problem.geometry;
  const double elements = number(g.image_numel()) + number(g.feature_numel()) + number(g.filter_numel());
  return megabytes(elements * number(element_size(problem.dtype)));
}

double clocks_as_microseconds(double clocks) { return clocks / kClocksPerMicrosecond; }

/// A thread's sum, whose loads wait for each other, in successive waves of threads; and all products.
Terms plain_terms(const ConvProblem& problem) {
  const ConvGeometry& g = problem.geometry;
  const Sides s(problem);
  const std::int64_t channels = s.results == 1 ? 1 : kPlainChannels;  // per thread
  const double blocks = number(ceil_div(g.batch * s.plane, kPlainThreads) * g.groups * ceil_div(s.results, channels));
  const double waves = waves_of(problem, blocks, 4);
  const double terms = number(s.sources * s.taps), sources = number(s.sources);
  const double products = kMillion * blocks * kPlainThreads * terms;
  return {problem, {terms, waves * terms, sources, waves * sources, waves, products, products * number(channels)}};
}

/// Parts of the sum, a thread's terms, and those of all tiles.
Terms plain_weight_terms(const ConvProblem& problem) {
  const ConvGeometry& g = problem.geometry;
  const bool is_thin = g.image_channels_per_group() == 1 && g.feature_channels_per_group() == 1;
  const std::int64_t tiles = plain_weight_tiles(g, is_thin ? 1 : 4), parts = plain_weight_parts(g, tiles);
  const std::int64_t terms = g.batch * g.feature_plane();
  const double of_thread = number(ceil_div(ceil_div(terms, parts), kPlainWeightThreads));
  const double waves = waves_of(problem, number(tiles * parts), 4);
  return {problem,
          {number(parts), of_thread, waves * of_thread, waves,
           1e-3 * number(tiles * ceil_div(terms, kPlainWeightThreads))}};
}

/// A thread's sum, and those of all results.
Terms few_results_terms(const ConvProblem& problem) {
  const FewResultsPlan& p = *find_few_results_plan(problem);
  const Sides s(problem);
  const double of_thread = number(ceil_div(ceil_div(s.sources, p.slices), p.channel_lanes) * s.taps);
  const double blocks = number(std::int64_t{p.tiles} * p.slices * p.groups), threads = p.lanes * p.channel_lanes;
  const double waves = waves_of(problem, blocks, std::min(16.0, 1024 / threads));
  return {problem,
          {clocks_as_microseconds(few_results_clocks(p, problem.machine)), p.slices > 1 ? 1.0 : 0.0, of_thread,
           waves * of_thread, kMillion * blocks * threads * of_thread * number(s.results), waves}};
}

Terms few_weight_terms(const ConvProblem& problem) {
  const FewWeightPlan& p = *find_few_weight_plan(problem);
  const double of_warp = .01 * number(ceil_div(ceil_div(p.total, 32), p.slices));
  const double few = std::min({p.image_channels, p.feature_channels, 4});
  return {problem,
          {clocks_as_microseconds(few_weight_clocks(p, arithmetic_of(problem), problem.machine)),
           p.slices > 1 ? 1.0 : 0.0, of_warp * std::min(p.taps, 4), of_warp * few, of_warp}};
}

/// A thread's sums, in successive waves of blocks; loads of all threads, vectors and single ones; products; and
/// results.
Terms short_sums_terms(const ConvProblem& problem) {
  const ShortSumsPlan& p = *find_short_sums_plan(problem);
  const double blocks = number(p.blocks()), terms = p.terms;
  const double waves = waves_of(problem, blocks, 8), loads = kMillion * blocks * kShortThreads * terms;
  const double products = loads * p.positions * p.channel_block;
  return {problem,
          {.01 * waves * terms, waves, p.packed != 0 ? loads : 0, p.packed != 0 ? 0 : loads, products,
           result_megabytes(problem)}};
}

/// A thread's walks, in successive waves of blocks, and those of all threads, separately for kernels compiled for their
/// taps and for the one for any number; and the staged elements.
Terms channelwise_terms(const ConvProblem& problem) {
  const ChannelwisePlan& p = *find_channelwise_plan(problem);
  const double walks = number(kChannelwiseWalk *
                              ceil_div(std::int64_t{p.channel_blocks} * p.h.phases * p.chunks * p.tile_units, p.lines));
  const bool any = p.taps_h == 0;
  const double taps =
      any ? p.h.most_taps * static_cast<double>(p.w.most_taps) : p.taps_h * static_cast<double>(p.taps_w);
  const double sum = taps * p.source_channels, tiles = number(p.tiles());
  const double serial = .01 * walks * waves_of(problem, tiles, resident_blocks(p.threads, number(p.smem_bytes())));
  const double work = 1e-4 * tiles * p.threads / 32 * walks;
  return {problem,
          {serial, any ? serial * sum : 0, any ? 0 : serial * sum, any ? work * sum * p.channel_block : 0,
           p.channel_blocks > 1 ? result_megabytes(problem) : 0, any ? 0 : work * sum * p.channel_block,
           work * p.channel_block, kMillion * tiles * p.stage_floats * p.source_channels}};
}

/// Products of all threads, the staged elements, and the sums of parts.
Terms channelwise_weight_terms(const ConvProblem& problem) {
  const ChannelwiseWeightPlan& plan = *find_channelwise_weight_plan(problem);
  const ChannelwisePlan& p = plan.walk;
  const double blocks = number(plan.pairs * plan.tap_row_blocks * plan.tap_column_blocks * plan.splits);
  const double tiles = number(plan.tiles_per_split);
  const double walks = tiles * number(kChannelwiseWalk * ceil_div(std::int64_t{p.tile_units} * p.chunks, p.lines));
  const double work = 1e-4 * blocks * p.threads / 32 * walks;
  const double waves = waves_of(problem, blocks, resident_blocks(p.threads, number(2 * p.smem_bytes())));
  return {problem,
          {waves, waves * tiles, work * p.taps_h * p.taps_w, kMillion * blocks * tiles * p.stage_floats,
           static_cast<double>(plan.splits), 1e-3 * blocks}};
}

/// The model's clocks; factors that are copied first; and results whose rows are not whole vectors.
Terms product_terms(const ConvProblem& problem) {
  const ProductPlan& p = *find_product_plan(problem);
  const std::int64_t copied = product_copy_bytes(p);
  if (copied > kMostCopyBytes) return {};
  const bool whole_rows = product_is_aligned(p.result, p.element_bytes, nullptr);
  return {problem,
          {clocks_as_microseconds(product_clocks(p, problem.machine)), copied > 0 ? 1.0 : 0.0,
           megabytes(number(copied)),
           whole_rows ? 0 : megabytes(number(p.result.lines * p.result.width * p.element_bytes))}};
}

Terms tapwise_terms(const ConvProblem& problem) {
  return {problem, {clocks_as_microseconds(tapwise_clocks(*find_tapwise_plan(problem), problem.machine))}};
}

Terms correlation_terms(const ConvProblem& problem) {
  const CorrelationPlan& p = *find_correlation_plan(problem);
  return tensor_core_terms(problem, p, correlation_clocks(p, is_split(problem), problem.machine));
}

Terms blocked_terms(const ConvProblem& problem) {
  const CorrelationPlan& p = *find_blocked_plan(problem);
  return tensor_core_terms(problem, p, correlation_clocks(p, is_split(problem), problem.machine));
}

Terms sliced_terms(const ConvProblem& problem) {
  const CorrelationPlan& p = *find_sliced_plan(problem);
  return tensor_core_terms(problem, p, slices_clocks(p, is_split(problem), problem.machine));
}

Terms mma_terms(const ConvProblem& problem) {
  const CorrelationPlan& p = *find_mma_plan(problem);
  return tensor_core_terms(problem, p, correlation_clocks(p, is_split(problem), problem.machine));
}

Terms narrow_terms(const ConvProblem& problem) {
  const NarrowPlan& p = *find_narrow_plan(problem);
  return {problem, {clocks_as_microseconds(narrow_clocks(p, arithmetic_of(problem), problem.machine))}};
}

Terms packed_terms(const ConvProblem& problem) {
  const PackedPlan& p = *find_packed_plan(problem);
  return line_terms(problem, p, packed_clocks(p, problem.machine), number(p.blocks()),
                    number(p.length) * p.source_channels);
}

Terms col2im_terms(const ConvProblem& problem) {
  const Col2imPlan& p = *find_col2im_plan(problem);
  return line_terms(problem, p, col2im_clocks(p, problem.machine), number(p.batch * p.row_tiles * p.column_tiles),
                    number(p.rows + p.h.span()) * (p.tile_columns + p.w.span()) * p.source_channels);
}

/// The model's clocks, more for rows no longer than a vector; and the sums of splits.
Terms boxes_terms(const ConvProblem& problem) {
  const WeightPlan& p = *find_boxes_weight_plan(problem);
  const double model = clocks_as_microseconds(weight_parts::wgmma_weight_clocks(p, is_split(problem), problem.machine));
  const bool short_rows = p.feature_w * element_size(problem.dtype) <= kVectorBytes;
  return {problem, {model, p.splits > 1 ? 1.0 : 0.0, short_rows ? model : 0, p.splits * filter_megabytes(problem)}};
}

namespace {

/// Copies of a multiprocessor's threads to shared memory, one after another, in hundreds of thousands: single halves,
/// and larger ones.
struct WeightCopies {
  double halves = 0, others = 0;
};

WeightCopies copies_of(const ConvProblem& problem, const WeightPlan& p) {
  const std::int64_t size = element_size(problem.dtype);
  const double stages = 1e-5 * std::ceil(number(p.blocks_per_split() * p.splits) / problem.machine.multiprocessors) *
                        number(p.stages_per_split);
  WeightCopies copies;
  const auto add = [&](std::int64_t elements, std::int64_t bytes_at_once) {
    (bytes_at_once == 2 ? copies.halves : copies.others) +=
        stages * number(elements) * number(size) / number(bytes_at_once);
  };
  // With a stride, neighbours in a row belong to different planes.
  add((std::int64_t{p.block_channels} * p.image_stage()) << p.log2_tile_n,
      p.stride_w > 1 ? size : row_alignment(p.image_w * size));
  add(std::int64_t{p.tile_columns} << p.log2_positions(), row_alignment(p.feature_w * size));
  return copies;
}

}  // namespace

/// The terms of `boxes`, plus the threads' copies.
Terms wgmma_weight_terms(const ConvProblem& problem) {
  const WeightPlan& p = *find_wgmma_weight_plan(problem);
  const double model = clocks_as_microseconds(weight_parts::wgmma_weight_clocks(p, is_split(problem), problem.machine));
  const bool short_rows = p.feature_w * element_size(problem.dtype) <= kVectorBytes;
  const WeightCopies copies = copies_of(problem, p);
  return {problem,
          {short_rows ? 0 : model, p.splits > 1 ? 1.0 : 0.0, short_rows ? model : 0,
           p.splits * filter_megabytes(problem), copies.halves, copies.others}};
}

Terms blocked_weight_terms(const ConvProblem& problem) {
  const BlockedWeightPlan& p = *find_blocked_weight_plan(problem);
  return {problem,
          {clocks_as_microseconds(blocked_weight_clocks(p, problem.machine)),
           megabytes(number(p.image.bytes() + p.feature.bytes()))}};
}

/// Successive stages, their products and copies, and the sums of splits.
Terms tensor_core_weight_terms(const ConvProblem& problem) {
  const WeightPlan& p = *find_mma_weight_plan(problem);
  const double positions = 1 << p.log2_positions();
  const double products = static_cast<double>(p.tile_rows) * p.tile_columns * positions / p.unit_elements / 512;
  const double stages =
      std::ceil(number(p.blocks_per_split() * p.splits) / problem.machine.multiprocessors) * number(p.stages_per_split);
  const WeightCopies copies = copies_of(problem, p);
  return {problem,
          {.1 * stages, 1e-3 * stages * products, p.splits > 1 ? 1.0 : 0.0, p.splits * filter_megabytes(problem),
           copies.halves, copies.others}};
}

}  // namespace adjoint::cuda
