// conv and conv_transpose on the CPU: plans, packed filters, and one task per tile.
//
// Shapes and the instruction set determine how work is split, never the number of threads, and one task sums each
// output in a fixed order.

#include <adjoint/core/base/parallel.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/ops/conv/base/form_key.h>
#include <adjoint/ops/conv/cpu/backend.h>
#include <adjoint/ops/conv/cpu/dispatch.h>
#include <adjoint/ops/conv/cpu/gather_plan.h>
#include <adjoint/ops/matmul/cpu/product.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <functional>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

namespace adjoint::cpu {
namespace {

constexpr std::int64_t kStripChannels = 8;

using PlanMaker = std::vector<OwnedGatherPlan> (*)(const ConvGeometry&, const PlanLimits&);

// The filter (Cf, Ci / groups, taps) as a plan's rows and inner channels step through it.
struct FilterLayout {
  std::int64_t group_step, row_step, inner_step;
};

template <class T>
bool all_finite(const T* values, std::int64_t count) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  constexpr Bits exponent = std::bit_cast<Bits>(std::numeric_limits<T>::infinity());
  bool finite = true;
  for (std::int64_t i = 0; i < count; ++i) finite &= (std::bit_cast<Bits>(values[i]) & exponent) != exponent;
  return finite;
}

// Rows of the product, the same in every plan of a call; their filters are packed together.
struct RowBlock {
  std::int64_t begin, end;
  std::int64_t size() const { return end - begin; }
};

// Packs a strip of inner channels of one plan: to[tap][inner channel][row]. Returns true if every value was finite.
template <class T>
bool pack_strip(const OwnedGatherPlan& owned, RowBlock block, std::int64_t first, std::int64_t channels,
                const FilterLayout& layout, const T* filter, T* to) {
  // Transposed through a strip that stays in the first-level cache, because steps through `to` are large powers of two.
  constexpr std::int64_t kStripTaps = 16, kMostRows = 8;
  std::array<T, kStripChannels * kStripTaps * kMostRows> strip;
  const GatherPlan& plan = owned.plan;
  bool finite = true;
  for (std::int64_t first_tap = 0; first_tap < plan.taps; first_tap += kStripTaps) {
    const std::int64_t taps = std::min(kStripTaps, plan.taps - first_tap);
    for (std::int64_t i = 0; i < block.size(); ++i) {
      const std::int64_t channel = (block.begin + i) / plan.slots, slot = (block.begin + i) % plan.slots;
      const std::int64_t* tap = owned.kernel_taps.data() + slot * plan.taps + first_tap;
      for (std::int64_t c = 0; c < channels; ++c) {
        const T* from = filter + channel * layout.row_step + (first + c) * layout.inner_step;
        T* target = strip.data() + c * block.size() + i;
        for (std::int64_t t = 0; t < taps; ++t) target[t * kStripChannels * block.size()] = from[tap[t]];
      }
    }
    for (std::int64_t t = 0; t < taps; ++t) {
      const T* from = strip.data() + t * kStripChannels * block.size();
      finite &= all_finite(from, channels * block.size());
      const std::int64_t channel_step = owned.by_shifts ? plan.taps : 1,
                         tap_step = owned.by_shifts ? 1 : plan.in_channels;
      for (std::int64_t c = 0; c < channels; ++c) {
        T* target = to + ((first_tap + t) * tap_step + (first + c) * channel_step) * block.size();
        for (std::int64_t i = 0; i < block.size(); ++i) target[i] = from[c * block.size() + i];
      }
    }
  }
  return finite;
}

struct Task {
  std::size_t plan;
  ProductTile tile;
  ShiftTile shift_tile;  // in place of tile if the plan is by shifts
};

void append_shift_tiles(std::size_t index, const OwnedGatherPlan& owned, std::vector<Task>& tasks) {
  const GatherPlan& plan = owned.plan;
  const Place grid = plan.grid_extent, whole = owned.shift_tile;
  for (std::int64_t n = 0; n < plan.batch; ++n) {
    for (std::int64_t group = 0; group < plan.groups; ++group) {
      for (std::int64_t d = 0; d < grid.d; d += whole.d) {
        for (std::int64_t h = 0; h < grid.h; h += whole.h) {
          for (std::int64_t w = 0; w < grid.w; w += whole.w) {
            const Place extent{std::min(whole.d, grid.d - d), std::min(whole.h, grid.h - h),
                               std::min(whole.w, grid.w - w)};
            tasks.push_back({index, {}, {group, n, {d, h, w}, extent}});
          }
        }
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
    for (const OwnedGatherPlan& owned : plans) {
      offsets_.push_back(elements);
      elements += owned.plan.groups * owned.plan.rows * owned.plan.inner;
    }
    buffer_ = Buffer(elements * static_cast<std::int64_t>(sizeof(T)));
    if (elements == 0) return;
    const GatherPlan& any = plans.front().plan;
    const std::int64_t blocks = any.groups * any.blocks, grain = std::max<std::int64_t>(1, (blocks << 14) / elements);
    std::atomic<bool> finite{true};
    parallel_ranges(blocks, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t block = begin; block < end; ++block) {
        if (!pack(plans, block / any.blocks, block % any.blocks, layout, filter)) finite = false;
      }
    });
    finite_ = finite;
  }

  bool finite() const { return finite_; }
  std::size_t nbytes() const { return static_cast<std::size_t>(buffer_.bytes()); }
  T* group_data(std::size_t index, const GatherPlan& plan, std::int64_t group) const {
    return buffer_.template as<T>() + offsets_[index] + group * plan.rows * plan.inner;
  }

 private:
  // One block of rows, of all plans together: each part of the filter is read from memory once.
  bool pack(const std::vector<OwnedGatherPlan>& plans, std::int64_t group, std::int64_t block,
            const FilterLayout& layout, const T* filter) const {
    const GatherPlan& any = plans.front().plan;
    const RowBlock rows{block * any.rows / any.blocks, (block + 1) * any.rows / any.blocks};
    bool finite = true;
    for (std::int64_t first = 0; first < any.in_channels; first += kStripChannels) {
      const std::int64_t channels = std::min(kStripChannels, any.in_channels - first);
      for (std::size_t index = 0; index < plans.size(); ++index) {
        const GatherPlan& plan = plans[index].plan;
        finite &= pack_strip(plans[index], rows, first, channels, layout, filter + group * layout.group_step,
                             group_data(index, plan, group) + rows.begin * plan.inner);
      }
    }
    return finite;
  }

  Buffer buffer_;
  std::vector<std::int64_t> offsets_;
  bool finite_ = true;
};

/// The data of a call besides its input: kept across calls if the filter is frozen.
template <class T>
struct Packed {
  std::vector<OwnedGatherPlan> plans;
  PackedFilters<T> filters;
};

template <class T>
Packed<T> pack(const T* filter, const ConvGeometry& geometry, PlanMaker make_plans, const FilterLayout& layout) {
  PlanLimits limits{.block = product_kernels<T>().block, .panel = product_kernels<T>().panel};
  std::vector<OwnedGatherPlan> plans = make_plans(geometry, limits);
  PackedFilters<T> filters(plans, layout, filter);
  if (!filters.finite()) {  // no infinity may meet the zeros around an image
    limits.exact_taps = true;
    plans = make_plans(geometry, limits);
    filters = PackedFilters<T>(plans, layout, filter);
  }
  return {std::move(plans), std::move(filters)};
}

template <class T>
std::shared_ptr<const Packed<T>> kept_or_packed(const Tensor& tensor, const ConvGeometry& geometry,
                                                PlanMaker make_plans, const FilterLayout& layout) {
  const T* filter = tensor.data<T>();
  const auto make = [&] { return std::make_shared<const Packed<T>>(pack(filter, geometry, make_plans, layout)); };
  adjoint::detail::KeptForms* const forms = tensor.impl()->storage->forms();
  if (forms == nullptr) return make();
  adjoint::detail::FormKey key("gather");
  key << geometry;
  key << make_plans << filter << sizeof(T) << product_kernels<T>().block << product_kernels<T>().panel;
  if (const auto kept = forms->find(key)) return std::static_pointer_cast<const Packed<T>>(kept);
  const adjoint::detail::ScratchScope none(nullptr);  // the form outlives a planned call
  const auto made = make();
  forms->keep(key, made, made->filters.nbytes());
  return made;
}

// A call: the packed filter and the tiles.
template <class T>
class GatheredCall {
 public:
  GatheredCall(const Tensor& filter, const ConvGeometry& geometry, PlanMaker make_plans, const FilterLayout& layout)
      : packed_(kept_or_packed<T>(filter, geometry, make_plans, layout)) {
    const std::vector<OwnedGatherPlan>& plans = packed_->plans;
    const auto products = static_cast<std::int64_t>(plans.size());
    for (std::size_t index = 0; index < plans.size(); ++index) {
      if (plans[index].by_shifts) {
        append_shift_tiles(index, plans[index], tasks_);
      } else {
        for (const ProductTile& tile : product_tiles(plans[index].plan, product_kernels<T>().panel, products)) {
          tasks_.push_back({index, tile, {}});
        }
      }
      scratch_ = std::max(scratch_, plans[index].scratch());
    }
  }

  void operator()(std::span<const Tensor> in, Tensor& out) const {
    const ConvKernels<T>& kernel = conv_kernels<T>();
    const T* source = in[0].data<T>();
    const T* bias = in[2].defined() ? in[2].data<T>() : nullptr;
    T* result = out.mutable_data<T>();
    const TaskScratch<T> scratch(scratch_);
    const auto run = [&](std::int64_t i) {
      const Task& task = tasks_[static_cast<std::size_t>(i)];
      const OwnedGatherPlan& owned = packed_->plans[task.plan];
      const GatherPlan& plan = owned.plan;
      const std::int64_t group = owned.by_shifts ? task.shift_tile.group : task.tile.group;
      const T* filter = packed_->filters.group_data(task.plan, plan, group);
      const T* group_bias = bias == nullptr ? nullptr : bias + group * plan.out_channels;
      if (owned.by_shifts) {
        kernel.shift_tile(plan, owned.shifts, task.shift_tile, source, filter, group_bias, result, scratch.data());
      } else {
        kernel.gather_tile(plan, task.tile, source, filter, group_bias, result, scratch.data());
      }
    };
    parallel_for(static_cast<std::int64_t>(tasks_.size()), std::ref(run));  // a reference, so nothing is allocated
  }

 private:
  std::shared_ptr<const Packed<T>> packed_;
  std::vector<Task> tasks_;
  std::int64_t scratch_ = 0;  // elements that a task needs
};

// conv_transpose of one pixel, each of whose outputs takes one tap: a product of the pixel and the filter as it lies.
// Positions of the product are outputs. GatheredCall would compute a whole vector of positions for one.
template <class T>
class PixelProduct {
 public:
  static bool takes(const ConvGeometry& g) {
    const ConvGeometry product = taps_as_channels(g);
    return g.batch == 1 && product.feature == Extents{} && product.image == Extents{} && is_pointwise(product);
  }

  explicit PixelProduct(const ConvGeometry& g)
      : taps_(g.taps()),
        shape_{.groups = g.groups,
               .positions = g.image_channels_per_group() * taps_,
               .inner = g.feature_channels_per_group(),
               .rows = 1,
               .blocks = 1} {
    const auto tiles = product_tiles(shape_, product_kernels<T>().panel);
    tiles_.assign(tiles.begin(), tiles.end());
  }

  void operator()(std::span<const Tensor> in, Tensor& out) const {
    const ProductKernels<T>& kernel = product_kernels<T>();
    const T *pixel = in[0].data<T>(), *filter = in[1].data<T>();
    T* result = out.mutable_data<T>();
    const TaskScratch<T> scratch(kTileScratch);
    const auto run = [&](std::int64_t i) {
      const ProductTile& tile = tiles_[static_cast<std::size_t>(i)];
      kernel.matrix_tile(shape_, tile, filter, pixel + tile.group * shape_.inner, result, scratch.data());
    };
    parallel_for(static_cast<std::int64_t>(tiles_.size()), std::ref(run));
    if (!in[2].defined()) return;
    const T* bias = in[2].data<T>();
    for (std::int64_t i = 0; i < out.numel(); ++i) result[i] += bias[i / taps_];
  }

 private:
  std::int64_t taps_;
  ProductShape shape_;
  std::vector<ProductTile> tiles_;
};

template <class T>
GatheredCall<T> call(std::span<const Tensor> in, const ConvGeometry& geometry, bool transposed) {
  const ConvGeometry g = transposed && !in[2].defined() ? taps_as_channels(geometry) : geometry;
  const std::int64_t filters = g.image_channels_per_group() * g.taps(),
                     group_step = g.feature_channels_per_group() * filters;
  return transposed ? GatheredCall<T>(in[1], g, conv_transpose_plans, {group_step, g.taps(), filters})
                    : GatheredCall<T>(in[1], g, conv_plans, {group_step, filters, g.taps()});
}

}  // namespace

template <class T>
void vector_conv(std::span<const Tensor> in, Tensor& out, const ConvGeometry& g) {
  call<T>(in, g, false)(in, out);
}

template <class T>
void vector_conv_transpose(std::span<const Tensor> in, Tensor& out, const ConvGeometry& g) {
  if (PixelProduct<T>::takes(g)) return PixelProduct<T>(g)(in, out);
  call<T>(in, g, true)(in, out);
}

template <class T>
PreparedConv prepare_vector_conv(std::span<const Tensor> in, const ConvGeometry& g, bool transposed) {
  if (transposed && PixelProduct<T>::takes(g)) return PixelProduct<T>(g);
  return call<T>(in, g, transposed);
}

template void vector_conv<float>(std::span<const Tensor>, Tensor&, const ConvGeometry&);
template void vector_conv<double>(std::span<const Tensor>, Tensor&, const ConvGeometry&);
template void vector_conv_transpose<float>(std::span<const Tensor>, Tensor&, const ConvGeometry&);
template void vector_conv_transpose<double>(std::span<const Tensor>, Tensor&, const ConvGeometry&);
template PreparedConv prepare_vector_conv<float>(std::span<const Tensor>, const ConvGeometry&, bool);
template PreparedConv prepare_vector_conv<double>(std::span<const Tensor>, const ConvGeometry&, bool);

}  // namespace adjoint::cpu
