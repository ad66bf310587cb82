// softmax on the CPU: a few neighbouring rows at a time, in buffers where each stands in order, whatever the axis.
#include <adjoint/core/parallel.h>
#include <adjoint/ops/reduce/cpu/stages.h>
#include <adjoint/ops/softmax/kernels.h>

#include <limits>
#include <vector>

namespace adjoint::cpu {
namespace {

constexpr std::int64_t kColumns = 16;  // a cache line of float32

// rows(buffers): of each operand a row in order; what stands in the first one then is the result.
template <class T, std::size_t kOperands, class Rows>
void for_rows(std::span<const Tensor> in, Tensor& out, const SoftmaxAttr& attr, const Rows& rows) {
  using A = compute_t<T>;
  const auto& [outer, extent, inner, log] = attr;
  const std::int64_t blocks = (inner + kColumns - 1) / kColumns, most = std::min(inner, kColumns);
  T* const results = out.mutable_data<T>();
  parallel_ranges(outer * blocks, std::max<std::int64_t>(1, kTaskElements / (extent * most)),
                  [&, extent = extent, inner = inner](std::int64_t begin, std::int64_t end) {
                    std::vector<A> buffers[kOperands];
                    for (auto& buffer : buffers) buffer.resize(static_cast<std::size_t>(most * extent));
                    for (std::int64_t item = begin; item < end; ++item) {
                      const std::int64_t column = item % blocks * kColumns,
                                         columns = std::min(kColumns, inner - column);
                      const std::int64_t first = item / blocks * extent * inner + column;
                      for (std::size_t operand = 0; operand < kOperands; ++operand) {
                        const T* from = in[operand].data<T>() + first;
                        A* const to = buffers[operand].data();
                        for (std::int64_t k = 0; k < extent; ++k) {
                          for (std::int64_t c = 0; c < columns; ++c)
                            to[c * extent + k] = convert<A>(from[k * inner + c]);
                        }
                      }
                      for (std::int64_t c = 0; c < columns; ++c) {
                        A* row[kOperands];
                        for (std::size_t operand = 0; operand < kOperands; ++operand) {
                          row[operand] = buffers[operand].data() + c * extent;
                        }
                        rows(row);
                      }
                      for (std::int64_t k = 0; k < extent; ++k) {
                        for (std::int64_t c = 0; c < columns; ++c) {
                          results[first + k * inner + c] =
                              convert<T>(buffers[0][static_cast<std::size_t>(c * extent + k)]);
                        }
                      }
                    }
                  });
}

template <class Op, class A>
A total(const A* row, std::int64_t extent) {
  A sums[kMaxLanes];
  sum_chunk(reduce::Total<Op, A, A>{}, row, Chunk{extent, 1, 1, rows_abreast(extent, 1)}, sums);
  return sums[0];
}

template <class A>
struct ExpOfDistance {
  A from;
  A operator()(A x) const { return scalar::exp(x - from); }
  static A finish(A sum) { return sum; }
};

template <class A>
void log_softmax_row(A* row, std::int64_t extent) {
  const A largest = total<reduce::Max>(row, extent);
  const reduce::Mapped<reduce::Sum, A, A, ExpOfDistance<A>> rule{{largest}};
  reduce::Held<A> sums[kMaxLanes];
  sum_chunk(rule, row, Chunk{extent, 1, 1, rows_abreast(extent, 1)}, sums);
  const A log_sum = scalar::log(sums[0].value);
  for (std::int64_t i = 0; i < extent; ++i) row[i] = (row[i] - largest) - log_sum;
}

template <class A>
void softmax_row(A* row, std::int64_t extent) {
  const A largest = total<reduce::Max>(row, extent);
  for (std::int64_t i = 0; i < extent; ++i) row[i] = scalar::exp(row[i] - largest);
  const A sum = total<reduce::Sum>(row, extent);
  for (std::int64_t i = 0; i < extent; ++i) row[i] /= sum;
}

}  // namespace

void softmax(std::span<const Tensor> in, Tensor& out, const SoftmaxAttr& attr) {
  visit_floating(out.dtype(), [&]<class T>() {
    for_rows<T, 1>(in, out, attr, [&](auto& row) {
      attr.log ? log_softmax_row(row[0], attr.extent) : softmax_row(row[0], attr.extent);
    });
  });
}

void softmax_gradient(std::span<const Tensor> in, Tensor& out, const SoftmaxAttr& attr) {
  const std::int64_t extent = attr.extent;
  visit_floating(out.dtype(), [&]<class T>() {
    for_rows<T, 2>(in, out, attr, [&](auto& row) {
      auto *g = row[0], *y = row[1];
      for (std::int64_t i = 0; i < extent; ++i) {
        if (attr.log) {
          y[i] = scalar::exp(y[i]);
        } else {
          g[i] *= y[i];
        }
      }
      const auto sum = total<reduce::Sum>(g, extent);
      for (std::int64_t i = 0; i < extent; ++i) g[i] -= y[i] * sum;
    });
  });
}

}  // namespace adjoint::cpu
