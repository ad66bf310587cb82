// Sums, maxima and their places on the CPU.
#include <adjoint/core/fill.h>
#include <adjoint/ops/reduce/cpu/stages.h>
#include <adjoint/ops/reduce/kernels.h>

namespace adjoint::cpu {
namespace {

constexpr std::int64_t kArgmaxColumns = 64;

template <class T, class Rule>
void reduce_by(const Rule& rule, const Tensor& in, Tensor& out, const ReduceAttr& attr) {
  run_stages<T>(rule, in, out, attr,
                [&](const T* data, const Chunk& chunk, auto* sums) { sum_chunk(rule, data, chunk, sums); });
}

template <class T>
bool beats(T value, T best) {
  return value > best || (value != value && best == best);
}

template <class T>
std::int64_t argmax_row(const T* data, std::int64_t extent) {
  using Value = compute_t<T>;
  Value best = convert<Value>(data[0]);
  std::int64_t at = 0;
  for (std::int64_t k = 1; k < extent; ++k) {
    const auto value = convert<Value>(data[k]);
    if (beats(value, best)) {
      best = value;
      at = k;
    }
  }
  return at;
}

// Of `columns` neighbouring columns: row by row, so that memory is read in order.
template <class T>
void argmax_columns(const T* data, const ArgmaxAttr& attr, std::int64_t columns, std::int64_t* out) {
  using Value = compute_t<T>;
  if (attr.inner == 1) {
    out[0] = argmax_row(data, attr.extent);
    return;
  }
  Value best[kArgmaxColumns];
  for (std::int64_t l = 0; l < columns; ++l) {
    best[l] = convert<Value>(data[l]);
    out[l] = 0;
  }
  for (std::int64_t k = 1; k < attr.extent; ++k) {
    const T* row = data + k * attr.inner;
    for (std::int64_t l = 0; l < columns; ++l) {
      const auto value = convert<Value>(row[l]);
      if (beats(value, best[l])) {
        best[l] = value;
        out[l] = k;
      }
    }
  }
}

}  // namespace

void reduce_sum(std::span<const Tensor> in, Tensor& out, const ReduceAttr& attr) {
  if (in[0].numel() == 0) return fill(out, 0.0 / attr.divisor);  // a mean of nothing is NaN
  visit(in[0].dtype(), [&]<class T>() {
    using Out = std::conditional_t<std::is_integral_v<T>, std::int64_t, T>;
    reduce_by<T>(reduce::Total<reduce::Sum, reduce::sum_t<T>, Out>{attr.divisor}, in[0], out, attr);
  });
}

void reduce_max(std::span<const Tensor> in, Tensor& out, const ReduceAttr& attr) {
  visit(in[0].dtype(),
        [&]<class T>() { reduce_by<T>(reduce::Total<reduce::Max, compute_t<T>, T>{}, in[0], out, attr); });
}

void argmax(std::span<const Tensor> in, Tensor& out, const ArgmaxAttr& attr) {
  auto* const result = out.mutable_data<std::int64_t>();
  visit(in[0].dtype(), [&]<class T>() {
    const T* data = in[0].data<T>();
    const std::int64_t column_blocks = (attr.inner + kArgmaxColumns - 1) / kArgmaxColumns;
    const std::int64_t item_elements = attr.extent * std::min(attr.inner, kArgmaxColumns);
    const std::int64_t grain = std::max<std::int64_t>(1, kTaskElements / item_elements);
    parallel_ranges(attr.outer * column_blocks, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t item = begin; item < end; ++item) {
        const std::int64_t outer = item / column_blocks;
        const std::int64_t column = item % column_blocks * kArgmaxColumns;
        argmax_columns(data + outer * attr.extent * attr.inner + column, attr,
                       std::min(kArgmaxColumns, attr.inner - column), result + outer * attr.inner + column);
      }
    });
  });
}

}  // namespace adjoint::cpu
