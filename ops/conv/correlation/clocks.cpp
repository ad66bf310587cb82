// A model of the tensor-core kernels' clocks: the cost of a tile's products, input and stores, and the number of
// successive tiles. Its rates were fitted to measured times of some 6,600 plans of 193 random layers, such that the
// plan with the fewest clocks is on average within 3% of the fastest (bench/lab/LOG.md, 2026-11-22).
#include <adjoint/ops/conv/correlation/clocks.h>

#include <adjoint/ops/conv/base/machine.h>
#include <adjoint/ops/conv/base/numbers.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace adjoint::cuda {
namespace {

constexpr double kSectorBytes = 32;
// A multiprocessor's clocks for a sector that is written in part, and the share of the shorter of those and all other
// work that is not hidden: fitted to the times of 13 layers in TF32 and bfloat16, with rows of tiles of 8 to 256
// positions.
constexpr double kPartialSector = 6.5, kPartialOverlap = .1;
constexpr double kKeptBytes = 32 << 20;  // kept by the L2

/// Rates of a multiprocessor, in clocks unless stated otherwise.
struct Rates {
  double copy_4, copy_8, copy_16;    // a warp's copies of this many bytes per thread
  double copy_2 = 0;                 // a warp's 2-byte copies; not used in float32
  double gathered_copy;              // a warp's copies, for steps that gather
  double box = 0;                    // a box by the copy engine; not used for halves
  double box_row;                    // per row of a box
  double latency;                    // of a stage's input, divided by the stages in flight
  double bytes;                      // per clock, of input and filter from the L2
  double stored_bytes;               // per clock, of results
  double sector;                     // weight of the sectors that stores touch, beyond their bytes
  double singles;                    // factor for storing results one by one
  double singles_sharing = 1;        // clocks of two blocks with such stores, relative to other costs
  double slot;                       // a warp's waits for a slot, and its instructions other than reads
  double read;                       // a warp's read of a fragment in neighbouring positions
  double stage, tile;                // of a stage besides its products, and of a tile besides its bytes
  double narrow = 1;                 // factor for products in pairs of half a tile's columns
  double overlap;                    // share of the shorter of input and products that the longer does not hide
  double sharing;                    // of two blocks, relative to the multiprocessor's time for each
  double part_wave;                  // share of a full wave's extra time that a partial last wave of tiles costs
  double blocked, blocked_products;  // factors of a blocked plan's clocks, and of its products'
  double small_blocked = 1;          // further factor for tiles of 128 columns and positions
  double narrow_blocked = 1;         // further factor for tiles of 64 columns
  double copied_bytes, copy_launch;  // per clock, of all multiprocessors, for a blocked plan's copy; and its kernel
  double whole = 1;                  // factor of the total
};

constexpr Rates kTF32Rates{.copy_4 = 15.5,
                           .copy_8 = 26,
                           .copy_16 = 32.3,
                           .gathered_copy = 43,
                           .box = 46,
                           .box_row = .624,
                           .latency = 405,
                           .bytes = 64,
                           .stored_bytes = 37.2,
                           .sector = 2.46,
                           .singles = 4.6,
                           .singles_sharing = 1.5,
                           .slot = 238,
                           .read = 25.7,
                           .stage = 223,
                           .tile = 0,
                           .narrow = 1.23,
                           .overlap = .549,
                           .sharing = 1.496,
                           .part_wave = 1,
                           .blocked = .886,
                           .blocked_products = .97,
                           .small_blocked = 1.1,
                           .narrow_blocked = 1.22,
                           .copied_bytes = 2720,
                           .copy_launch = 500};
// The blocked rates come from the times of three layers, because the fitted ones had none, and `blocked` from some
// hundred.
constexpr Rates kSplitRates{.copy_4 = 14.5,
                            .copy_8 = 32.9,
                            .copy_16 = 50.7,
                            .gathered_copy = 108,
                            .box = 103,
                            .box_row = 1.53,
                            .latency = 911,
                            .bytes = 64,
                            .stored_bytes = 18.6,
                            .sector = .773,
                            .singles = 1.89,
                            .slot = 192,
                            .read = 49.5,
                            .stage = 32,
                            .tile = 1590,
                            .overlap = .369,
                            .sharing = 1.46,
                            .part_wave = .554,
                            .blocked = .9,
                            .blocked_products = 1.05,
                            .copied_bytes = 2720,
                            .copy_launch = 500};
constexpr Rates kHalfRates{.copy_4 = 28.3,
                           .copy_8 = 26.6,
                           .copy_16 = 47.9,
                           .copy_2 = 36,
                           .gathered_copy = 54.8,
                           .box_row = .094,
                           .latency = 1357,
                           .bytes = 34.7,
                           .stored_bytes = 13.3,
                           .sector = .063,
                           .singles = 4.08,
                           .slot = 0,
                           .read = 55.3,
                           .stage = 792,
                           .tile = 0,
                           .narrow = 1.645,
                           .overlap = .491,
                           .sharing = 1.614,
                           .part_wave = .906,
                           .blocked = .681,
                           .blocked_products = 1.356,
                           .narrow_blocked = 1.05,
                           .copied_bytes = 2080,
                           .copy_launch = 0};

/// For halves in pairs of columns: they are loaded like TF32, and stored as halves. The last two are from times of 60
/// layers.
constexpr Rates kPairRates = [] {
  Rates rates = kTF32Rates;
  rates.stored_bytes = kHalfRates.stored_bytes;
  rates.sector = kHalfRates.sector;
  rates.singles = kHalfRates.singles;
  rates.sharing = 1.9;
  rates.whole = 1.1;
  return rates;
}();

/// For two blocks on a multiprocessor whose stages consist of many boxes, relative to the rest of the model.
constexpr double kManyBoxes = 1.3;
constexpr int kFewBoxes = 3;

const Rates& rates_of(const CorrelationPlan& plan, bool split) {
  if (plan.unit_columns == 2) return kPairRates;
  return plan.unit_channels == 2 ? kHalfRates : split ? kSplitRates : kTF32Rates;
}

/// Bytes of a thread's copy, if the input begins at a multiple of 16.
std::int32_t copy_bytes(const CorrelationPlan& plan) {
  return correlation_load_bytes(plan, nullptr, plan.element_bytes());
}

double copy_clocks(const CorrelationPlan& plan, const Rates& rates) {
  if (plan.gathers) return rates.gathered_copy;
  switch (copy_bytes(plan)) {
    case 16: return rates.copy_16;
    case 8: return rates.copy_8;
    case 4: return rates.copy_4;
    default: return rates.copy_2;
  }
}

bool has_many_boxes(const CorrelationPlan& plan) {
  return plan.boxed && !plan.gathers && plan.blocks_per_sm == 2 && plan.boxes > kFewBoxes;
}

/// Returns true if results are stored one by one: they have phases, but not a power of two of them, a tile holds
/// several rows of phases, or a whole row of results is shorter than a tile's and ends within a vector.
bool stores_singles(const CorrelationPlan& plan) {
  constexpr std::int32_t kVectorBytes = 16;
  const bool several_rows = plan.phases_per_class > 1 && plan.out_w % (kVectorBytes / plan.element_bytes()) == 0;
  const bool short_rows =
      !plan.flat() && plan.q_w < 1 << plan.log2_tile_w && plan.q_w * plan.element_bytes() < kVectorBytes;
  return several_rows || short_rows || correlation_log2_interleave(plan.out_stride_w) < 0;
}

/// The clocks to bring a tile of a class its input and filter.
double input_clocks(const CorrelationPlan& plan, const CorrelationClass& c, const Rates& rates) {
  const double stages = static_cast<double>(c.passes) * plan.chunks;
  const double filter =
      plan.weights_resident ? 0 : c.halves / 2.0 * plan.chunks * plan.w_block_units * 4 / plan.cluster;
  double planes = 0;
  for (int i = c.first_pass; i < c.first_pass + c.passes; ++i) planes += plan.passes[i].planes;
  const double rows = static_cast<double>(plan.boxes * plan.rows << plan.log2_stage_n());
  const double units = planes * plan.chunks * plan.stage_units * rows * plan.cols;
  const double bytes = plan.blocked ? stages * plan.stage_size * 4 : units * 4;
  const double from_l2 = (bytes + filter) / rates.bytes, waits = rates.latency * stages / plan.x_stages;
  if (plan.blocked) return std::max({from_l2, waits, rates.box_row * stages * rows * plan.box_blocks});
  if (plan.boxed) {
    const double boxes = stages * (rates.box * plan.boxes + rates.box_row * rows * plan.stage_units);
    return std::max(waits, std::max(from_l2, boxes) * (has_many_boxes(plan) ? kManyBoxes : 1));
  }
  const double copies = units * 4 / copy_bytes(plan) / 32 * copy_clocks(plan, rates);
  return std::max(waits, plan.gathers ? copies : std::max(from_l2, copies));
}

/// The memory layout of a tile's results.
struct Stores {
  double size, run, bytes;  // in bytes: an element, a run of neighbouring pixels, all results
  bool whole_rows;          // rows of results are whole sectors
};

Stores stores_of(const CorrelationPlan& plan) {
  const double size = plan.element_bytes(), positions = 1 << plan.log2_tile_w;
  // A flat plan's runs end with rows, and with tiles, at any place.
  const double of_run = plan.flat() ? plan.q_w / (1 + plan.q_w / positions) : std::min<double>(positions, plan.q_w);
  return {.size = size,
          .run = size * plan.out_stride_w * of_run,
          .bytes = 64.0 * plan.m_tiles * plan.consumers * plan.tile_columns * size,
          .whole_rows = std::fmod(plan.out_w * size, kSectorBytes) == 0};
}

/// A tile's stores, more if its rows are short or begin within sectors.
double store_clocks(const CorrelationPlan& plan, const Rates& rates) {
  const Stores s = stores_of(plan);
  const double before = s.whole_rows ? 0 : kSectorBytes;
  const double sectors = std::max(s.run >= kSectorBytes ? (s.run + before) / s.run : kSectorBytes / s.run, 1.0);
  const double singles = stores_singles(plan) ? rates.singles : 1;
  return rates.tile + singles * s.bytes * (1 + rates.sector * (sectors - 1)) / rates.stored_bytes;
}

/// The least memory time for the sectors that a tile writes in part, if the results exceed the L2 cache's share: the
/// rest of each sector must be read. Runs of neighbouring pixels begin and end within sectors, on average anywhere,
/// unless rows are whole sectors.
double partial_sector_clocks(const CorrelationPlan& plan) {
  const Stores s = stores_of(plan);
  const double all = static_cast<double>(plan.batch) * plan.groups * plan.n_channels * plan.out_h * plan.out_w * s.size;
  if (all <= kKeptBytes || (s.whole_rows && s.run >= kSectorBytes)) return 0;
  const double partial = s.whole_rows ? 1 : std::min(1 + (s.run - s.size) / kSectorBytes, 2.0);  // per run
  return kPartialSector * (1 - kKeptBytes / all) * s.bytes / s.run * partial;
}

/// Clocks of a class's tile on a multiprocessor that processes blocks_per_sm concurrently.
double tile_clocks(const CorrelationPlan& plan, const CorrelationClass& c, bool split, const Rates& rates) {
  const double m_tiles = plan.m_tiles * plan.consumers, products = split ? 3 : 1;
  const double steps = static_cast<double>(c.steps) * plan.chunks, whole_steps = c.halves / 2.0 * plan.chunks;
  const double tensor = whole_steps * m_tiles * products * plan.tile_columns;
  // A blocked plan's products each read their positions.
  const double reads = plan.blocked ? products * steps : steps * correlation_bank_conflicts(plan, plan.stage_stride_w);
  const double shared = 2 * m_tiles * (16 * reads + whole_steps * products * plan.tile_columns / 4);
  double multiply = std::max(tensor * (plan.blocked ? rates.blocked_products : 1), shared);
  if (!plan.blocked) {
    const double fragment = rates.read * 2 * (plan.one_row() ? 1 : 2);
    multiply = std::max(multiply, rates.slot * c.slots * plan.chunks + steps * plan.m_tiles * fragment);
    if (c.halves != 2 * c.steps) multiply *= rates.narrow;
  }
  multiply += rates.stage * c.passes * plan.chunks;
  const double many = has_many_boxes(plan) ? kManyBoxes : 1, store = many * store_clocks(plan, rates);
  const double alone = many * multiply + store;
  const double busy = plan.blocks_per_sm == 1 ? alone : rates.sharing * std::max({tensor, shared, store, alone / 2});
  const double input = input_clocks(plan, c, rates);
  const double sharing = plan.blocks_per_sm == 2 && stores_singles(plan) ? rates.singles_sharing : 1;
  const double block = sharing * (std::max(busy, input) + rates.overlap * std::min(busy, input));
  const double partial = partial_sector_clocks(plan);
  return std::max(block, partial) + kPartialOverlap * std::min(block, partial);
}

}  // namespace

double correlation_bank_conflicts(const CorrelationPlan& plan, std::int32_t stride) {
  // Units are neighbouring columns if only a channel is gathered, else channels, 8 banks apart.
  return plan.stage_units == 1 ? static_cast<double>(ceil_div(stride, 4)) : std::gcd(stride, 8);
}

double correlation_clocks(const CorrelationPlan& plan, bool split, const Machine& machine) {
  const Rates& rates = rates_of(plan, split);
  double tile = 0;
  for (int i = 0; i < plan.classes; ++i) {
    tile += rates.whole * tile_clocks(plan, plan.class_list[i], split, rates) / plan.classes;
  }
  const auto tiles = static_cast<double>(plan.tiles());
  const double waves = tiles / (machine.multiprocessors * plan.blocks_per_sm);
  double clocks = tile * plan.blocks_per_sm * std::max(1.0, waves + rates.part_wave * (std::ceil(waves) - waves));
  // Blocks that do not all share a multiprocessor.
  if (plan.blocks_per_sm == 2 && waves <= 1) clocks = tile * (tiles <= machine.multiprocessors ? 1 : 1.5);
  if (!plan.blocked) return clocks;
  const double shape = plan.tile_columns == 64                         ? rates.narrow_blocked
                       : plan.tile_columns == 128 && plan.m_tiles == 1 ? rates.small_blocked
                                                                       : 1;
  return shape * rates.blocked * clocks + rates.copy_launch +
         2 * static_cast<double>(plan.copy().bytes()) / rates.copied_bytes;
}

}  // namespace adjoint::cuda
