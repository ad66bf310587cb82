// Normalisation on the CPU. Rows go by in blocks that stay in the L1 cache; sums of blocks are added up in float64.
#include <adjoint/core/fill.h>
#include <adjoint/core/parallel.h>
#include <adjoint/core/tensor_impl.h>
#include <adjoint/ops/norm/kernels.h>
#include <adjoint/ops/reduce/cpu/stages.h>
#include <adjoint/ops/reduce/kernels.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace adjoint::cpu {
namespace {

constexpr int kBlock = 64;
constexpr std::int64_t kMostTasks = 64;  // whose sums are kept apart

template <class A>
using Block = A[kBlock];

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

// Of x (contiguous, with elements) over the reduced axes of `attr`.
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

template <class A>
A fold(const Block<A>& values) {
  Block<A> sums;
  std::copy(values, values + kBlock, sums);
  for (int half = kBlock / 2; half > 0; half /= 2) {
    for (int l = 0; l < half; ++l) sums[l] += sums[half + l];
  }
  return sums[0];
}

template <class T>
const T* data_or_null(const Tensor& tensor) {
  return tensor.defined() ? tensor.data<T>() : nullptr;
}

// What a call reads; null where there is no such operand.
template <class T>
struct Rows {
  using A = compute_t<T>;
  NormAttr attr;
  const T *x, *weight, *bias, *residual;
  const Statistics<A>* statistics;
  Activate<A> activate;
  ActivationSlope<A> slope;

  Rows(std::span<const Tensor> in, const Tensor& statistics_, const NormAttr& attr_)
      : attr(attr_),
        x(in[0].data<T>()),
        weight(data_or_null<T>(in[1])),
        bias(data_or_null<T>(in[2])),
        residual(data_or_null<T>(in[3])),
        statistics(reinterpret_cast<const Statistics<A>*>(statistics_.data<A>())),
        activate(attr_.activation),
        slope(attr_.activation) {}

  // For elements i to i + count of `row`: the normalised ones, what stands behind them before the activation, weights.
  // Lanes behind `count` stay as they are.
  struct Values {
    Block<A> normal = {}, z = {}, weight = {}, bias = {};
  };
  A rstd(std::int64_t row) const { return A{1} / std::sqrt(of(row).variance + static_cast<A>(attr.eps)); }
  void load(std::int64_t row, std::int64_t i, int count, A rstd, bool with_z, Values& v) const {
    const T* const from = x + row * attr.row_length() + i;
    const Statistics<A> s = of(row);
    for (int l = 0; l < count; ++l) v.normal[l] = ((convert<A>(from[l]) - s.mean) - s.rest) * rstd;
    load_channels(weight, A{1}, row, i, count, v.weight);
    if (!with_z) return;
    load_channels(bias, A{0}, row, i, count, v.bias);
    for (int l = 0; l < count; ++l) v.z[l] = v.normal[l] * v.weight[l] + v.bias[l];
    if (residual == nullptr) return;
    const T* const more = residual + row * attr.row_length() + i;
    for (int l = 0; l < count; ++l) v.z[l] += convert<A>(more[l]);
  }

 private:
  const Statistics<A>& of(std::int64_t row) const { return statistics[attr.across ? row % attr.groups : row]; }
  void load_channels(const T* values, A none, std::int64_t row, std::int64_t i, int count, Block<A>& to) const {
    if (values == nullptr) return std::fill(to, to + count, none);
    const T* const first = values + row % attr.groups * attr.depth;
    if (attr.inner == 1) {
      for (int l = 0; l < count; ++l) to[l] = convert<A>(first[i + l]);
      return;
    }
    for (int l = 0; l < count;) {
      const std::int64_t channel = (i + l) / attr.inner;
      const auto end = static_cast<int>(std::min<std::int64_t>(count, (channel + 1) * attr.inner - i));
      std::fill(to + l, to + end, convert<A>(first[channel]));
      l = end;
    }
  }
};

template <class T, class F>
void for_each_block(const Rows<T>& rows, const F& f) {
  const std::int64_t length = rows.attr.row_length();
  for (std::int64_t i = 0; i < length; i += kBlock) f(i, static_cast<int>(std::min<std::int64_t>(kBlock, length - i)));
}

template <class T>
void normalize_rows(const Rows<T>& rows, T* y, std::int64_t begin, std::int64_t end) {
  typename Rows<T>::Values v;
  for (std::int64_t row = begin; row < end; ++row) {
    const auto rstd = rows.rstd(row);
    T* const to = y + row * rows.attr.row_length();
    for_each_block(rows, [&](std::int64_t i, int count) {
      rows.load(row, i, count, rstd, true, v);
      rows.activate(v.z);
      for (int l = 0; l < count; ++l) to[i + l] = convert<T>(v.z[l]);
    });
  }
}

// The sums of a channel or of a row: of dz and of dz times the normalised elements.
struct Sums {
  double plain = 0.0, normal = 0.0;
};

// What stands in the way of one row's gradients.
template <class T>
struct GradientRows {
  using A = compute_t<T>;
  Rows<T> rows;
  const T* grad;

  // As rows.load, with dz.
  void load(std::int64_t row, std::int64_t i, int count, A rstd, typename Rows<T>::Values& v, Block<A>& dz) const {
    const bool activated = !rows.slope.is_none();
    rows.load(row, i, count, rstd, activated, v);
    const T* const from = grad + row * rows.attr.row_length() + i;
    for (int l = 0; l < count; ++l) dz[l] = convert<A>(from[l]);
    std::fill(dz + count, dz + kBlock, A{0});
    if (activated) rows.slope(dz, v.z);
  }

  // Adds to the sums of the row's channels, and returns the row's, each channel's times its weight.
  Sums add_sums(std::int64_t row, Sums* channels) const {
    const NormAttr& attr = rows.attr;
    typename Rows<T>::Values v;
    Block<A> dz = {}, product = {};
    Sums sums;
    Sums* const first = channels + row % attr.groups * attr.depth;
    for_each_block(rows, [&](std::int64_t i, int count) {
      load(row, i, count, rows.rstd(row), v, dz);
      for (int l = 0; l < kBlock; ++l) product[l] = dz[l] * v.normal[l];
      std::fill(product + count, product + kBlock, A{0});
      if (attr.inner == 1) {
        for (int l = 0; l < count; ++l) {
          first[i + l].plain += static_cast<double>(dz[l]);
          first[i + l].normal += static_cast<double>(product[l]);
        }
        for (int l = 0; l < kBlock; ++l) {
          dz[l] *= v.weight[l];
          product[l] *= v.weight[l];
        }
        sums.plain += static_cast<double>(fold<A>(dz));
        sums.normal += static_cast<double>(fold<A>(product));
        return;
      }
      for (int l = 0; l < count;) {  // what of the block is one channel's
        const std::int64_t channel = (i + l) / attr.inner;
        const auto end = static_cast<int>(std::min<std::int64_t>(count, (channel + 1) * attr.inner - i));
        Sums part;
        if (l == 0 && end == count) {
          part = {static_cast<double>(fold<A>(dz)), static_cast<double>(fold<A>(product))};
        } else {
          for (int k = l; k < end; ++k) {
            part.plain += static_cast<double>(dz[k]);
            part.normal += static_cast<double>(product[k]);
          }
        }
        first[channel].plain += part.plain;
        first[channel].normal += part.normal;
        const auto weight = static_cast<double>(v.weight[l]);
        sums.plain += part.plain * weight;
        sums.normal += part.normal * weight;
        l = end;
      }
    });
    return sums;
  }

  // x's and the residual's gradients, each null where nobody needs it. sums: over the elements that share statistics.
  void write(std::int64_t row, const Sums& sums, double count, T* dx, T* residual) const {
    const NormAttr& attr = rows.attr;
    typename Rows<T>::Values v;
    Block<A> dz = {};
    const A rstd = rows.rstd(row);
    const A plain = attr.given || !attr.centred ? A{0} : static_cast<A>(sums.plain / count);
    const A normal = attr.given ? A{0} : static_cast<A>(sums.normal / count);
    const std::int64_t at = row * attr.row_length();
    for_each_block(rows, [&](std::int64_t i, int n) {
      load(row, i, n, rstd, v, dz);
      if (residual != nullptr) {
        for (int l = 0; l < n; ++l) residual[at + i + l] = convert<T>(dz[l]);
      }
      if (dx == nullptr) return;
      for (int l = 0; l < n; ++l) {
        dx[at + i + l] = convert<T>(rstd * (dz[l] * v.weight[l] - plain - v.normal[l] * normal));
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

  // Every task adds up channels of its own. Rows that share statistics with no other are finished meanwhile.
  std::vector<Sums> all(static_cast<std::size_t>(needs_sums ? (rows + grain - 1) / grain * channels : 0));
  parallel_ranges(rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const Sums sums = needs_sums ? of.add_sums(row, all.data() + begin / grain * channels) : Sums{};
      if (writes && !(attr.across && shared)) {
        of.write(row, sums, static_cast<double>(attr.row_length()), dx, dresidual);
      }
    }
  });
  if (!needs_sums) return;
  for (std::size_t i = static_cast<std::size_t>(channels); i < all.size(); ++i) {
    Sums& to = all[i % static_cast<std::size_t>(channels)];
    to.plain += all[i].plain;
    to.normal += all[i].normal;
  }
  for (std::int64_t c = 0; c < channels; ++c) {
    const Sums& sums = all[static_cast<std::size_t>(c)];
    if (out[1].numel() > 0) out[1].mutable_data<T>()[c] = convert<T>(static_cast<compute_t<T>>(sums.normal));
    if (out[2].numel() > 0) out[2].mutable_data<T>()[c] = convert<T>(static_cast<compute_t<T>>(sums.plain));
  }
  if (!(attr.across && shared)) return;
  parallel_ranges(rows, grain_of(attr), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      Sums sums = all[static_cast<std::size_t>(row % channels)];
      if (of.rows.weight != nullptr) {
        const auto weight = static_cast<double>(convert<compute_t<T>>(of.rows.weight[row % channels]));
        sums = {sums.plain * weight, sums.normal * weight};
      }
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
      normalize_rows(rows, y, begin, end);
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
