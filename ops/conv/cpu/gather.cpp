// conv and conv_transpose on the CPU: plans, packed filters, and one task a tile.
//
// How work is cut depends on shapes and on the instruction set, never on the number of threads, and each output is
// summed by one task in a fixed order.

#include <adjoint/core/parallel.h>
#include <adjoint/ops/conv/cpu/dispatch.h>
#include <adjoint/ops/conv/cpu/gather_plan.h>
#include <adjoint/ops/conv/cpu/widen.h>
#include <adjoint/ops/conv/kernels.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <vector>

namespace adjoint::cpu {
namespace {

using PlanMaker = std::vector<OwnedGatherPlan> (*)(const ConvGeometry&, const PlanLimits&);

// The filter (Cf, Ci / groups, taps) as a plan's rows and inner channels step through it.
struct FilterLayout {
  std::int64_t group_step, row_step, inner_step;
};

template <class T>
bool is_finite(T value) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  constexpr Bits exponent = sizeof(T) == 4 ? Bits{0x7f800000} : static_cast<Bits>(0x7ff0000000000000);
  return (std::bit_cast<Bits>(value) & exponent) != exponent;
}

// Packs rows [begin, end) of one group: to[tap][inner channel][row]. Returns whether every value was finite.
template <class T>
bool pack_block(const OwnedGatherPlan& owned, std::int64_t begin, std::int64_t end, const FilterLayout& layout,
                const T* filter, T* to) {
  constexpr std::int64_t kStrip = 8;  // inner channels whose filters are read again for each tap: they stay in cache
  const GatherPlan& plan = owned.plan;
  const std::int64_t rows = end - begin;
  bool finite = true;
  for (std::int64_t first = 0; first < plan.in_channels; first += kStrip) {
    const std::int64_t last = std::min(first + kStrip, plan.in_channels);
    for (std::int64_t tap = 0; tap < plan.taps; ++tap) {
      T* target = to + (tap * plan.in_channels + first) * rows;
      std::int64_t slot = begin / plan.out_channels, channel = begin % plan.out_channels;
      for (std::int64_t i = 0; i < rows; ++i) {
        const T* from =
            filter + channel * layout.row_step + owned.kernel_taps[static_cast<std::size_t>(slot * plan.taps + tap)];
        for (std::int64_t c = first; c < last; ++c) {
          const T value = from[c * layout.inner_step];
          finite &= is_finite(value);
          target[(c - first) * rows + i] = value;
        }
        if (++channel == plan.out_channels) {
          channel = 0;
          ++slot;
        }
      }
    }
  }
  return finite;
}

struct Task {
  std::size_t plan;
  GatherTile tile;
};

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Tiles of about equal size: enough for any number of threads where there is so much work, positions cut before rows,
// because every tile gathers its own inputs.
void append_tiles(std::size_t index, const GatherPlan& plan, std::int64_t panel, std::vector<Task>& tasks) {
  constexpr std::int64_t kEnough = 16;
  if (plan.positions == 0 || plan.rows == 0) return;
  const std::int64_t panels = ceil_div(plan.positions, panel);
  std::int64_t row_tiles = ceil_div(plan.rows, kTileRows);
  const std::int64_t wanted = ceil_div(kEnough, plan.groups * row_tiles);
  const std::int64_t tiles = std::min(panels, std::max(ceil_div(plan.positions, kTilePositions), wanted));
  row_tiles = std::min(plan.blocks, std::max(row_tiles, ceil_div(kEnough, plan.groups * tiles) / 2));
  for (std::int64_t group = 0; group < plan.groups; ++group) {
    for (std::int64_t tile = 0; tile < tiles; ++tile) {
      const std::int64_t begin = tile * panels / tiles * panel;
      const std::int64_t end = std::min((tile + 1) * panels / tiles * panel, plan.positions);
      for (std::int64_t row_tile = 0; row_tile < row_tiles; ++row_tile) {
        tasks.push_back(
            {index, {group, begin, end, row_tile * plan.blocks / row_tiles, (row_tile + 1) * plan.blocks / row_tiles}});
      }
    }
  }
}

// Every group's packed filter, of every plan, one after another.
template <class T>
class PackedFilters {
 public:
  PackedFilters(const std::vector<OwnedGatherPlan>& plans, const FilterLayout& layout, const T* filter) {
    std::int64_t elements = 0;
    std::vector<std::int64_t> first_block = {0};
    for (const OwnedGatherPlan& owned : plans) {
      offsets_.push_back(elements);
      elements += owned.plan.groups * owned.plan.rows * owned.plan.inner;
      first_block.push_back(first_block.back() + owned.plan.groups * owned.plan.blocks);
    }
    buffer_ = Buffer(elements * static_cast<std::int64_t>(sizeof(T)));
    std::atomic<bool> finite{true};
    const std::int64_t blocks = first_block.back();
    parallel_ranges(blocks, std::max<std::int64_t>(1, blocks * (std::int64_t{1} << 14) / (elements + 1)),
                    [&](std::int64_t begin, std::int64_t end) {
                      std::size_t index = 0;
                      for (std::int64_t block = begin; block < end; ++block) {
                        while (block >= first_block[index + 1]) ++index;
                        const GatherPlan& plan = plans[index].plan;
                        const std::int64_t in_plan = block - first_block[index], group = in_plan / plan.blocks;
                        const std::int64_t row = in_plan % plan.blocks * plan.rows / plan.blocks;
                        const std::int64_t last = (in_plan % plan.blocks + 1) * plan.rows / plan.blocks;
                        T* to = group_data(index, plan, group) + row * plan.inner;
                        if (!pack_block(plans[index], row, last, layout, filter + group * layout.group_step, to))
                          finite = false;
                      }
                    });
    finite_ = finite;
  }

  bool finite() const { return finite_; }
  T* group_data(std::size_t index, const GatherPlan& plan, std::int64_t group) const {
    return buffer_.template as<T>() + offsets_[index] + group * plan.rows * plan.inner;
  }

 private:
  Buffer buffer_;
  std::vector<std::int64_t> offsets_;
  bool finite_ = true;
};

template <class T>
void run(std::span<const Tensor> in, Tensor& out, const ConvGeometry& geometry, PlanMaker make_plans,
         const FilterLayout& layout) {
  const Kernels<T>& kernel = kernels<T>();
  std::vector<OwnedGatherPlan> plans = make_plans(geometry, {.block = kernel.block});
  const T* filter = in[1].data<T>();
  PackedFilters<T> filters(plans, layout, filter);
  if (!filters.finite()) {  // no infinity may meet the zeros around an image
    plans = make_plans(geometry, {.block = kernel.block, .exact_taps = true});
    filters = PackedFilters<T>(plans, layout, filter);
  }
  std::vector<Task> tasks;
  for (std::size_t index = 0; index < plans.size(); ++index) {
    append_tiles(index, plans[index].plan, kernel.panel, tasks);
  }
  const T* source = in[0].data<T>();
  const T* bias = in.size() == 3 ? in[2].data<T>() : nullptr;
  T* result = out.mutable_data<T>();
  parallel_for(static_cast<std::int64_t>(tasks.size()), [&](std::int64_t i) {
    const Task& task = tasks[static_cast<std::size_t>(i)];
    const GatherPlan& plan = plans[task.plan].plan;
    const std::int64_t group = task.tile.group;
    kernel.gather_tile(plan, task.tile, source, filters.group_data(task.plan, plan, group),
                       bias == nullptr ? nullptr : bias + group * plan.out_channels, result,
                       thread_scratch<T>(kGatherScratch));
  });
}

}  // namespace

void conv(std::span<const Tensor> in, Tensor& out, const ConvGeometry& g) {
  const std::int64_t filters = g.image_channels_per_group() * g.taps();
  const FilterLayout layout{g.feature_channels_per_group() * filters, filters, g.taps()};
  in_compute_type(in, out, [&]<class T>(std::span<const Tensor> operands, Tensor& result) {
    run<T>(operands, result, g, conv_plans, layout);
  });
}

void conv_transpose(std::span<const Tensor> in, Tensor& out, const ConvGeometry& g) {
  const std::int64_t filters = g.image_channels_per_group() * g.taps();
  const FilterLayout layout{g.feature_channels_per_group() * filters, g.taps(), filters};
  in_compute_type(in, out, [&]<class T>(std::span<const Tensor> operands, Tensor& result) {
    run<T>(operands, result, g, conv_transpose_plans, layout);
  });
}

}  // namespace adjoint::cpu
