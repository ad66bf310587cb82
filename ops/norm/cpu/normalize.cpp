// Normalisation on the CPU. Rows are processed in blocks that stay in the L1 cache, and sums of blocks are added up in
// float64.
#include <adjoint/core/base/parallel.h>
#include <adjoint/core/memory/scratch.h>
#include <adjoint/core/tensor/fill.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/ops/elementwise/cpu/map.h>
#include <adjoint/ops/norm/kernels.h>
#include <adjoint/ops/reduce/cpu/stages.h>
#include <adjoint/ops/reduce/kernels.h>

#include <algorithm>
#include <cmath>

namespace adjoint::cpu {
namespace {

constexpr int kBlock = 256, kPart = 16;  // an activation is computed for kPart elements at a time
constexpr std::int64_t kMostTasks = 64;  // tasks with separate sums

template <class A>
using Block = A[kBlock];

template <class A>
A (&part_of(Block<A>& block, int part))
[kPart] {
  return reinterpret_cast<A(&)[kPart]>(block[part * kPart]);
}

// Mean squares, as statistics about 0.
template <class A>
struct MeanSquares {
  struct Acc {
    A sum;
  };
  using Out = Statistics<A>;
  A count;

  Acc identity() const { return {A{0}}; }
  Acc combine(Acc a, Acc b) const { return {a.sum + b.sum}; }
  Acc add(Acc a, Acc b) const { return combine(a, b); }
  template <class T>
  Acc add(Acc acc, T x) const {
    return {acc.sum + convert<A>(x) * convert<A>(x)};
  }
  Out finish(Acc acc) const { return {A{0}, A{0}, acc.sum / count}; }
};

// The statistics of x (contiguous, with elements) over the reduced axes of `attr`.
template <class T>
void find_statistics(const Tensor& x, const ReduceAttr& attr, bool centred, Tensor& statistics) {
  using A = compute_t<T>;
  if (!centred) {
    const MeanSquares<A> rule{static_cast<A>(x.numel() / (statistics.numel() / kStatisticsFields))};
    return run_stages<T>(rule, x, statistics, attr,
                         [&](const T* data, const Chunk& chunk, auto* sums) { sum_chunk(rule, data, chunk, sums); });
  }
  const Tensor of = moments(x, attr);
  const auto* from = reinterpret_cast<const reduce::Moments<A>*>(of.data<A>());
  auto* to = reinterpret_cast<Statistics<A>*>(statistics.mutable_data<A>());
  for (std::int64_t i = 0; i < of.size(0); ++i) to[i] = {from[i].mean, from[i].rest, from[i].m2 / from[i].count};
}

template <class T>
const T* data_or_null(const Tensor& tensor) {
  return tensor.defined() ? tensor.data<T>() : nullptr;
}

// `count` numbers in A, from a tensor of any dtype, or all `none` if there is no tensor.
template <class A>
ScratchVector<A> widen(const Tensor& tensor, std::int64_t count, double none) {
  ScratchVector<A> wide(static_cast<std::size_t>(count), static_cast<A>(none));
  if (!tensor.defined()) return wide;
  visit_floating(tensor.dtype(), [&]<class From>() {
    const From* const from = tensor.data<From>();
    for (std::size_t i = 0; i < wide.size(); ++i) wide[i] = convert<A>(from[i]);
  });
  return wide;
}

// The operands of a call, in: x, weight, bias, residual.
template <class T>
struct Rows {
  using A = compute_t<T>;
  NormAttr attr;
  const T *x, *residual;
  const Statistics<A>* statistics;
  ScratchVector<A> weight, bias;  // one per channel
  Activate<A> activate;
  ActivationSlope<A> slope;

  Rows(std::span<const Tensor> in, const Tensor& statistics_, const NormAttr& attr_)
      : attr(attr_),
        x(in[0].data<T>()),
        residual(data_or_null<T>(in[3])),
        statistics(reinterpret_cast<const Statistics<A>*>(statistics_.data<A>())),
        weight(widen<A>(in[1], attr_.channels(), 1.0)),
        bias(widen<A>(in[2], attr_.channels(), 0.0)),
        activate(attr_.activation),
        slope(attr_.activation) {}

  A rstd(std::int64_t row) const { return A{1} / std::sqrt(of(row).variance + static_cast<A>(attr.eps)); }

  // f.operator()<kEach>(at, count, channel) for the spans of a row: up to kBlock elements from the tensor's element
  // `at` on. A span has one channel or, with kEach, one channel per element from `channel` on.
  template <class F>
  void for_each_span(std::int64_t row, const F& f) const {
    const std::int64_t first = row * attr.row_length(), channel = row % attr.groups * attr.depth;
    const bool each = attr.inner == 1;
    const std::int64_t runs = each ? 1 : attr.depth, length = each ? attr.depth : attr.inner;
    for (std::int64_t run = 0; run < runs; ++run) {
      for (std::int64_t i = 0; i < length; i += kBlock) {
        const auto count = static_cast<int>(std::min<std::int64_t>(kBlock, length - i));
        const std::int64_t at = first + run * length + i;
        each ? f.template operator()<true>(at, count, channel + i)
             : f.template operator()<false>(at, count, channel + run);
      }
    }
  }

  // to[l]: the normalised element at + l.
  void find_normal(std::int64_t at, int count, const Statistics<A>& s, A rstd, A* to) const {
    const T* const from = x + at;
    ADJOINT_INDEPENDENT_ITERATIONS
    for (int l = 0; l < count; ++l) to[l] = ((convert<A>(from[l]) - s.mean) - s.rest) * rstd;
  }

  // to[l]: the value at element at + l before the activation. `normal` may be `to`.
  template <bool kEach, class To>
  void find_z(std::int64_t channel, int count, const A* normal, To* to) const {
    const A *const w = weight.data() + channel, *const b = bias.data() + channel;
    const A one_w = w[0], one_b = b[0];
    ADJOINT_INDEPENDENT_ITERATIONS
    for (int l = 0; l < count; ++l) to[l] = convert<To>(normal[l] * (kEach ? w[l] : one_w) + (kEach ? b[l] : one_b));
  }
  void add_residual(std::int64_t at, int count, A* to) const {
    if (residual == nullptr) return;
    const T* const from = residual + at;
    ADJOINT_INDEPENDENT_ITERATIONS
    for (int l = 0; l < count; ++l) to[l] += convert<A>(from[l]);
  }

  const Statistics<A>& of(std::int64_t row) const { return statistics[attr.across ? row % attr.groups : row]; }
};

template <class T>
void normalize_row(const Rows<T>& rows, std::int64_t row, T* y) {
  using A = compute_t<T>;
  Block<A> z = {};
  const Statistics<A> statistics = rows.of(row);
  const A rstd = rows.rstd(row);
  const bool plain = rows.activate.is_none() && rows.residual == nullptr;
  rows.for_each_span(row, [&]<bool kEach>(std::int64_t at, int count, std::int64_t channel) {
    rows.find_normal(at, count, statistics, rstd, z);
    if (plain) return rows.template find_z<kEach>(channel, count, z, y + at);
    rows.template find_z<kEach>(channel, count, z, z);
    rows.add_residual(at, count, z);
    for (int part = 0; part * kPart < count; ++part) rows.activate(part_of(z, part));
    ADJOINT_INDEPENDENT_ITERATIONS
    for (int l = 0; l < count; ++l) y[at + l] = convert<T>(z[l]);
  });
}

// Sums of dz and of dz times the normalised elements: over a row, with each element times its weight, or over a
// channel.
struct Sums {
  double plain = 0.0, normal = 0.0;
};

// a[l] and a[l] * b[l] for a block's first `count`, in lanes that are added up by halves.
template <class A>
Sums add_up(const A* a, const A* b, int count) {
  constexpr int kLanes = 8;
  A plain[kLanes] = {}, normal[kLanes] = {};
  int i = 0;
  for (; i + kLanes <= count; i += kLanes) {
#pragma GCC unroll 1
    for (int l = 0; l < kLanes; ++l) {
      plain[l] += a[i + l];
      normal[l] += a[i + l] * b[i + l];
    }
  }
  for (int l = 0; i < count; ++i, ++l) {
    plain[l] += a[i];
    normal[l] += a[i] * b[i];
  }
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int l = 0; l < half; ++l) {
      plain[l] += plain[half + l];
      normal[l] += normal[half + l];
    }
  }
  return {static_cast<double>(plain[0]), static_cast<double>(normal[0])};
}

// A task's sums for each channel. If rows add one element to each, a few rows are added up in A first.
template <class A>
class ChannelSums {
 public:
  explicit ChannelSums(std::int64_t channels)
      : sums_(static_cast<std::size_t>(channels)),
        plain_(static_cast<std::size_t>(channels)),
        normal_(static_cast<std::size_t>(channels)) {}

  void add(std::int64_t channel, const Sums& sums) {
    Sums& to = sums_[static_cast<std::size_t>(channel)];
    to.plain += sums.plain;
    to.normal += sums.normal;
  }
  void add_each(std::int64_t channel, int count, const A* dz, const A* normal) {
    A *const plain_to = plain_.data() + channel, *const normal_to = normal_.data() + channel;
    ADJOINT_INDEPENDENT_ITERATIONS
    for (int l = 0; l < count; ++l) {
      plain_to[l] += dz[l];
      normal_to[l] += dz[l] * normal[l];
    }
  }
  void end_row() {
    if (++rows_ == kFewRows) close();
  }
  const ScratchVector<Sums>& close() {
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      sums_[i].plain += static_cast<double>(plain_[i]);
      sums_[i].normal += static_cast<double>(normal_[i]);
      plain_[i] = normal_[i] = A{0};
    }
    rows_ = 0;
    return sums_;
  }

 private:
  static constexpr int kFewRows = 32;
  ScratchVector<Sums> sums_;
  ScratchVector<A> plain_, normal_;
  int rows_ = 0;
};

template <class T>
struct GradientRows {
  using A = compute_t<T>;
  Rows<T> rows;
  const T* grad;

  // The normalised elements of a span, and dz.
  template <bool kEach>
  void load(std::int64_t at, int count, std::int64_t channel, const Statistics<A>& s, A rstd, A* normal,
            Block<A>& dz) const {
    rows.find_normal(at, count, s, rstd, normal);
    const T* const from = grad + at;
    ADJOINT_INDEPENDENT_ITERATIONS
    for (int l = 0; l < count; ++l) dz[l] = convert<A>(from[l]);
    if (rows.slope.is_none()) return;
    Block<A> z = {};
    rows.template find_z<kEach>(channel, count, normal, z);
    rows.add_residual(at, count, z);
    for (int part = 0; part * kPart < count; ++part) rows.slope(part_of(dz, part), part_of(z, part));
  }

  // Adds to the sums of the row's channels, and returns the row's sums.
  Sums add_sums(std::int64_t row, ChannelSums<A>& channels) const {
    Block<A> dz = {}, normal = {};
    Sums sums;
    const Statistics<A> statistics = rows.of(row);
    const A rstd = rows.rstd(row);
    rows.for_each_span(row, [&]<bool kEach>(std::int64_t at, int count, std::int64_t channel) {
      load<kEach>(at, count, channel, statistics, rstd, normal, dz);
      const A* const weight = rows.weight.data() + channel;
      Sums of;
      double by = 1.0;
      if constexpr (kEach) {
        channels.add_each(channel, count, dz, normal);
        ADJOINT_INDEPENDENT_ITERATIONS
        for (int l = 0; l < count; ++l) dz[l] *= weight[l];
        of = add_up(dz, normal, count);
      } else {
        of = add_up(dz, normal, count);
        channels.add(channel, of);
        by = static_cast<double>(weight[0]);
      }
      sums.plain += of.plain * by;
      sums.normal += of.normal * by;
    });
    channels.end_row();
    return sums;
  }

  // x's and the residual's gradients, each null if it is not needed. sums: over the `count` elements that share
  // statistics.
  void write(std::int64_t row, const Sums& sums, double count, T* dx, T* residual) const {
    const NormAttr& attr = rows.attr;
    Block<A> dz = {}, normal = {};
    const Statistics<A> statistics = rows.of(row);
    const A rstd = rows.rstd(row);
    const A plain = attr.given || !attr.centred ? A{0} : static_cast<A>(sums.plain / count);
    const A along = attr.given ? A{0} : static_cast<A>(sums.normal / count);
    rows.for_each_span(row, [&]<bool kEach>(std::int64_t at, int n, std::int64_t channel) {
      load<kEach>(at, n, channel, statistics, rstd, normal, dz);
      const A *const d = dz, *const x = normal, *const w = rows.weight.data() + channel;
      const A one_w = w[0];
      if (residual != nullptr) {
        ADJOINT_INDEPENDENT_ITERATIONS
        for (int l = 0; l < n; ++l) residual[at + l] = convert<T>(d[l]);
      }
      if (dx == nullptr) return;
      ADJOINT_INDEPENDENT_ITERATIONS
      for (int l = 0; l < n; ++l) {
        dx[at + l] = convert<T>(rstd * (d[l] * (kEach ? w[l] : one_w) - plain - x[l] * along));
      }
    });
  }
};

template <class T>
T* mutable_or_null(Tensor& tensor) {
  return tensor.numel() > 0 ? tensor.mutable_data<T>() : nullptr;
}

std::int64_t grain_of(const NormAttr& attr) { return std::max<std::int64_t>(1, kTaskElements / attr.row_length()); }

template <class T>
void find_gradients(std::span<const Tensor> in, std::span<Tensor> out, const NormAttr& attr) {
  const GradientRows<T> of{Rows<T>(in.subspan(1), in[5], attr), in[0].data<T>()};
  T *const dx = mutable_or_null<T>(out[0]), *const dresidual = mutable_or_null<T>(out[3]);
  const std::int64_t rows = attr.rows(), channels = attr.channels();
  const std::int64_t grain = std::max(grain_of(attr), (rows + kMostTasks - 1) / kMostTasks);
  const bool writes = dx != nullptr || dresidual != nullptr, shared = dx != nullptr && !attr.given;
  const bool needs_sums = shared || out[1].numel() > 0 || out[2].numel() > 0;

  // Each task adds up its own channel sums. Rows with separate statistics are finished in the same pass.
  ScratchVector<ScratchVector<Sums>> all(static_cast<std::size_t>((rows + grain - 1) / grain));
  parallel_ranges(rows, grain, [&](std::int64_t begin, std::int64_t end) {
    ChannelSums<compute_t<T>> task_sums(needs_sums ? channels : 0);
    for (std::int64_t row = begin; row < end; ++row) {
      const Sums sums = needs_sums ? of.add_sums(row, task_sums) : Sums{};
      if (writes && !(attr.across && shared)) {
        of.write(row, sums, static_cast<double>(attr.row_length()), dx, dresidual);
      }
    }
    all[static_cast<std::size_t>(begin / grain)] = task_sums.close();
  });
  if (!needs_sums) return;
  ScratchVector<Sums>& total = all[0];
  for (std::size_t task = 1; task < all.size(); ++task) {
    for (std::size_t i = 0; i < total.size(); ++i) {
      total[i].plain += all[task][i].plain;
      total[i].normal += all[task][i].normal;
    }
  }
  for (const auto& [parameter, field] : {std::pair{1, &Sums::normal}, {2, &Sums::plain}}) {
    Tensor& to = out[static_cast<std::size_t>(parameter)];
    for (std::int64_t c = 0; c < to.numel(); ++c) {
      const auto sum = static_cast<compute_t<T>>(total[static_cast<std::size_t>(c)].*field);
      visit_floating(to.dtype(), [&]<class To>() { to.mutable_data<To>()[c] = convert<To>(sum); });
    }
  }
  if (!(attr.across && shared)) return;
  parallel_ranges(rows, grain_of(attr), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      Sums sums = total[static_cast<std::size_t>(row % channels)];
      const auto weight = static_cast<double>(of.rows.weight[static_cast<std::size_t>(row % channels)]);
      sums = {sums.plain * weight, sums.normal * weight};
      of.write(row, sums, static_cast<double>(attr.samples * attr.inner), dx, dresidual);
    }
  });
}

}  // namespace

void normalize(std::span<const Tensor> in, std::span<Tensor> out, const NormAttr& attr) {
  const Tensor& x = in[0];
  if (x.numel() == 0) {
    if (!attr.given) fill(out[1], std::nan(""));
    return;
  }
  visit_floating(x.dtype(), [&]<class T>() {
    const std::int64_t length = attr.row_length();
    Tensor statistics = attr.given ? in[4] : out[1];
    if (!attr.given && attr.across) {
      const ReduceAttr over{{attr.samples, attr.groups, attr.inner}, 0b101, false, 1.0};
      find_statistics<T>(x.view_as(over.from, contiguous_strides(over.from), x.storage_offset()), over, attr.centred,
                         statistics);
    }
    T* const y = out[0].mutable_data<T>();
    const Rows<T> rows(in, statistics, attr);
    parallel_ranges(attr.rows(), grain_of(attr), [&](std::int64_t begin, std::int64_t end) {
      if (!attr.given && !attr.across) {
        const Shape part{end - begin, length};
        Tensor to = statistics.view_as({end - begin, kStatisticsFields}, statistics.strides(),
                                       statistics.storage_offset() + begin * kStatisticsFields);
        find_statistics<T>(x.view_as(part, contiguous_strides(part), x.storage_offset() + begin * length),
                           {part, 0b10, false, 1.0}, attr.centred, to);
      }
      for (std::int64_t row = begin; row < end; ++row) normalize_row(rows, row, y);
    });
  });
}

void normalize_gradients(std::span<const Tensor> in, std::span<Tensor> out, const NormAttr& attr) {
  if (in[1].numel() == 0) {
    for (Tensor& each : out) fill(each, 0.0);
    return;
  }
  visit_floating(in[1].dtype(), [&]<class T>() { find_gradients<T>(in, out, attr); });
}

}  // namespace adjoint::cpu
