// Stages of conv_weight that the copy engine brings: the boxes that fit, their cost, and their tensor maps.
#include <adjoint/ops/conv/weight/boxes_plan.h>

#include <adjoint/ops/conv/weight/parts.h>

#include <algorithm>
#include <array>

namespace adjoint::cuda {
namespace weight_parts {
namespace {

constexpr int kLog2Piece = 4;  // units: shorter pieces than 64 bytes arrive at half the rate
// The rate of one multiprocessor from the L2 in pieces of 64 bytes when all ask (33 in longer ones), measured on an
// H200; the clocks of a box's piece or row, and the cost of one more box for the thread that asks for it.
constexpr double kBoxBytesPerClock = 28, kClocksPerRow = 2, kClocksPerBox = 150;

/// The number of neighbouring taps along the width that are neighbouring rows: enough to reach all elements between
/// positions, which are a stride apart, so that eight rows' values of four positions are in different banks.
std::int32_t row_taps(const WeightPlan& p, std::int32_t taps_per_block) {
  std::int32_t taps = std::min(p.stride_w & -p.stride_w, 8);
  while (p.kernel_w % taps != 0 || taps_per_block % taps != 0) taps /= 2;
  return taps;
}

/// At least `units`, a multiple of four, so that the channels of eight rows are in different banks.
std::int32_t pitch_units(const WeightPlan& p, std::int32_t units) {
  const std::int32_t period = std::min(8 * p.row_taps, 32);  // 4 row_taps modulo this
  units = (units + 3) / 4 * 4;
  if (p.block_channels == 1 || p.row_taps == 8) return units;
  while (units % period != period / 2) units += 4;
  return units;
}

/// The most different words that one bank must deliver when the first four units of eight rows are read.
int bank_conflicts(const WeightPlan& p) {
  std::array<std::array<std::int32_t, 32>, 32> words;  // no initial values: this runs for every plan
  std::array<int, 32> count{};
  int most = 1;
  for (std::int32_t row = 0; row < 8; ++row) {
    const WeightRow r = weight_row(p, {}, row);
    if (!r.valid) continue;
    for (std::int32_t t = 0; t < 4; ++t) {
      const std::int32_t element = weight_row_offset(p, {}, r) + weight_position_offset(p, t * p.unit_elements);
      const std::int32_t word = element / p.unit_elements;
      auto& bank = words[static_cast<std::size_t>(word % 32)];
      int& used = count[static_cast<std::size_t>(word % 32)];
      if (std::find(bank.begin(), bank.begin() + used, word) != bank.begin() + used) continue;
      bank[static_cast<std::size_t>(used++)] = word;
      most = std::max(most, used);
    }
  }
  return most;
}

}  // namespace

bool rows_take_boxes(WeightPlan& p) {
  const std::int64_t aligned = 4 * p.unit_elements;
  for (p.residues = 1; p.residues <= kMaxWeightResidues; p.residues *= 2) {
    if (std::int64_t{p.image_w} * p.residues % aligned != 0) continue;
    // A row that begins between two multiples of 16 bytes is preceded by its predecessor's last elements, not by zeros.
    return p.residues == 1 || (p.image_h == 1 && p.padding_w == 0 && p.image_channels % p.residues == 0);
  }
  return false;
}

bool tile_takes_boxes(const WeightPlan& p) {
  const std::int64_t aligned = 4 * p.unit_elements;
  if (!p.joins_rows()) return p.feature_w % aligned == 0;
  return p.feature_w == 1 << p.log2_tile_w && 1 << (p.log2_tile_w + p.log2_tile_h) >= p.line_positions() &&
         std::int64_t{p.feature_h} * p.feature_w % aligned == 0;
}

bool build_box_blocks(WeightPlan& p, std::int32_t taps_per_block, TapBlockSizes& sizes) {
  if (p.block_channels % p.residues != 0) return false;
  p.row_taps = row_taps(p, taps_per_block);
  const std::int64_t last_h = (std::int64_t{1} << p.log2_tile_h) - 1;  // of the tile's positions
  const std::int64_t last_w = (std::int64_t{1} << p.log2_tile_w) - 1;
  // Rows are whole if they fit a box, otherwise in pieces.
  for (const int log2_piece : {0, kLog2Piece + p.unit_elements - 1}) {
    p.log2_box_w = log2_piece;
    const std::int32_t piece = 1 << log2_piece, alignment = row_alignment(p);
    const TapBlocks& all = sizes.find(p, taps_per_block, alignment);
    if (!all.fits) return false;
    p.tap_blocks = all.count;
    p.tap_block[0] = all.first;
    const std::int64_t rows = all.span_h + last_h * p.stride_h + 1;
    std::int64_t cols = all.span_w + last_w * p.stride_w + 1;
    cols += p.unit_elements - 1;  // a half's odd offset reads one unit further
    if (p.residues > 1) cols += alignment - 1;
    if (rows > kMostOfTensorBox || p.block_channels / p.residues > kMostOfTensorBox) return false;
    const std::int64_t lines = rows * p.block_channels << p.log2_tile_n;
    if (lines * cols > kMostStageElements) return false;
    p.rows = static_cast<std::int32_t>(rows);
    if (log2_piece == 0) {
      if (cols > kMostOfTensorBox) continue;
      p.cols = p.unit_elements * pitch_units(p, static_cast<std::int32_t>(ceil_div(cols, p.unit_elements)));
      const std::int32_t box_bytes = p.box_elements() * (4 / p.unit_elements);
      if (p.cols <= kMostOfTensorBox) return p.residues == 1 || box_bytes % 128 == 0;
    } else {
      if (p.residues > 1 || p.image_w % piece != 0 || ((std::int64_t{p.stride_w} << p.log2_tile_w) % piece) != 0)
        return false;
      const std::int64_t pieces = ceil_div(cols, std::int64_t{piece});
      p.cols = static_cast<std::int32_t>(pieces * piece);
      return pieces <= kMostOfTensorBox;
    }
  }
  return false;
}

double box_stage_clocks(const WeightPlan& p, bool split) {
  const double positions = 1 << p.log2_positions(), products = split ? 3 : 1, size = 4.0 / p.unit_elements;
  const double tiles = positions / (8 * p.unit_elements) * (p.tile_rows / 64);  // wgmma's, of 64 rows, all columns
  const double matrix = tiles * products * p.tile_columns / 2;
  // Halves that are apart need two reads.
  const double reads = p.unit_elements == 1 ? 1 : p.stride_w > 1 ? 2 : 1.5;
  const double box = static_cast<double>(p.residues * p.box_elements()) * size,
               feature = p.tile_columns * positions * size;
  const double shared = tiles * (16 * reads * bank_conflicts(p) + products * p.tile_columns / 4) +
                        (box + feature * (split ? 4 : 1)) / 128;
  // Zeros outside the image are not read.
  const double inside =
      std::min(1.0, static_cast<double>(p.image_h) / p.rows) * std::min(1.0, static_cast<double>(p.image_w) / p.cols);
  const double memory = (box * inside + feature) / kBoxBytesPerClock;
  const double images = 1 << p.log2_tile_n, lines = positions / p.line_positions();
  const double pieces = p.log2_box_w == 0 ? 1 : p.cols >> p.log2_box_w;
  const double engine = kClocksPerRow * (images * p.rows * p.block_channels * pieces + lines * p.tile_columns) +
                        kClocksPerBox * (p.residues + lines);
  // Parts that wait for each other overlap partly.
  return std::max({matrix, shared, memory, engine}) + (matrix + shared) / 8 + 60;
}

}  // namespace weight_parts

TensorMapLayout weight_image_layout(const WeightPlan& p, const void* image, DType dtype, bool split,
                                    std::int32_t residue) {
  const std::int64_t width = p.image_w, plane = width * p.image_h, channels = std::int64_t{p.image_channels} * p.groups;
  const std::int32_t piece = p.log2_box_w == 0 ? p.cols : 1 << p.log2_box_w, shift = p.row_shift(residue);
  const std::int64_t row = p.log2_box_w == 0 ? width : piece;  // of a row's first axis
  const std::int64_t aligned_row = width * p.residues;         // a step on axes of one
  const auto* const first = static_cast<const unsigned char*>(image) + (residue * plane - shift) * element_size(dtype);
  return {.data = first,
          .dtype = dtype,
          .extents = {row + shift, width / row, channels / p.residues, p.image_h, p.batch},
          .strides = {1, p.log2_box_w == 0 ? aligned_row : piece, plane * p.residues, aligned_row, plane * channels},
          .box = {piece, p.cols / piece, p.block_channels / p.residues, p.rows, 1 << p.log2_tile_n},
          .rounds_to_tf32 = dtype == kFloat32 && !split};
}

TensorMapLayout weight_feature_layout(const WeightPlan& p, const void* feature, DType dtype, bool split) {
  const std::int64_t width = p.feature_w, plane = width * p.feature_h;
  const std::int64_t channels = std::int64_t{p.feature_channels} * p.groups, sample = plane * channels;
  TensorMapLayout layout{.data = feature,
                         .dtype = dtype,
                         .extents = {width, channels, p.feature_h, p.batch, 1},
                         .strides = {1, plane, width, sample, sample},
                         .box = {p.line_positions(), p.tile_columns, 1, 1, 1},
                         .rounds_to_tf32 = dtype == kFloat32 && !split,
                         .swizzled = true};
  if (p.joins_rows()) {  // a plane is one row, and images follow its channels
    layout.extents[0] = plane;
    layout.extents[2] = p.batch;
    layout.extents[3] = 1;
    layout.strides[2] = sample;
  }
  return layout;
}

}  // namespace adjoint::cuda
