// The largest and the least elements, and their places, on the CPU.
#include <adjoint/core/tensor/fill.h>
#include <adjoint/ops/reduce/cpu/stages.h>
#include <adjoint/ops/reduce/kernels.h>

namespace adjoint::cpu {
namespace {

constexpr std::int64_t kColumns = 64;  // searched in parallel

template <class T>
bool beats(T value, T best) {
  return value > best || (value != value && best == best);
}

// Searches `columns` neighbouring columns, row by row, so that memory is read in order. `values` may be null. Columns
// is constant for a single column, which removes the loops over columns.
template <class T, class Columns>
void find_places(const T* data, const PlaceAttr& attr, Columns columns, T* values, std::int64_t* places) {
  using A = compute_t<T>;
  const reduce::Reorder<A> reorder(attr.least, false);
  A best[kColumns];
  for (std::int64_t l = 0; l < columns; ++l) {
    best[l] = reorder(convert<A>(data[l]));
    places[l] = 0;
  }
  for (std::int64_t k = 1; k < attr.extent; ++k) {
    const T* row = data + k * attr.inner;
    for (std::int64_t l = 0; l < columns; ++l) {
      const A value = reorder(convert<A>(row[l]));
      if (beats(value, best[l])) {
        best[l] = value;
        places[l] = k;
      }
    }
  }
  if (values == nullptr) return;
  for (std::int64_t l = 0; l < columns; ++l) values[l] = data[places[l] * attr.inner + l];
}

}  // namespace

void extreme(std::span<const Tensor> in, Tensor& out, const ExtremeAttr& attr) {
  if (in[0].numel() == 0) return fill(out, attr.least ? 1.0 : 0.0);  // for bool only
  visit(in[0].dtype(), [&]<class T>() {
    const auto into = [&]<class A, class Out>() {
      const reduce::Mapped<reduce::Max, A, Out, reduce::Reorder<A>> rule{{attr.least, attr.magnitude}};
      reduce_by<T>(rule, in[0], out, attr.reduce);
    };
    if (out.dtype() == kBool) return into.template operator()<bool, bool>();
    into.template operator()<compute_t<T>, T>();
  });
}

void place(std::span<const Tensor> in, std::span<Tensor> out, const PlaceAttr& attr) {
  const bool valued = out.size() == 2;
  auto* const places = out.back().mutable_data<std::int64_t>();
  visit(in[0].dtype(), [&]<class T>() {
    const T* data = in[0].data<T>();
    T* const values = valued ? out[0].mutable_data<T>() : nullptr;
    const std::int64_t column_blocks = (attr.inner + kColumns - 1) / kColumns;
    const std::int64_t item_elements = attr.extent * std::min(attr.inner, kColumns);
    const std::int64_t grain = std::max<std::int64_t>(1, kTaskElements / item_elements);
    parallel_ranges(attr.outer * column_blocks, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t item = begin; item < end; ++item) {
        const std::int64_t outer = item / column_blocks;
        const std::int64_t column = item % column_blocks * kColumns;
        const std::int64_t columns = std::min(kColumns, attr.inner - column);
        const std::int64_t to = outer * attr.inner + column;
        const T* from = data + outer * attr.extent * attr.inner + column;
        T* const best = values == nullptr ? nullptr : values + to;
        if (columns == 1) {
          find_places(from, attr, std::integral_constant<std::int64_t, 1>{}, best, places + to);
        } else {
          find_places(from, attr, columns, best, places + to);
        }
      }
    });
  });
}

}  // namespace adjoint::cpu
