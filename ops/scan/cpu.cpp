// cumsum on the CPU: neighbouring columns side by side, floats in float64.
#include <adjoint/core/base/parallel.h>
#include <adjoint/core/tensor/convert.h>
#include <adjoint/ops/scan/kernels.h>

#include <algorithm>
#include <type_traits>

namespace adjoint::cpu {
namespace {

constexpr std::int64_t kColumns = 64, kTaskElements = 32768;

template <class T>
void run(const Tensor& in, Tensor& out, const CumsumAttr& attr) {
  using Result = std::conditional_t<std::is_integral_v<T>, std::int64_t, T>;
  using Sum = std::conditional_t<std::is_integral_v<T>, std::uint64_t, double>;  // integers wrap around
  const T* data = in.data<T>();
  auto* const result = out.mutable_data<Result>();
  const std::int64_t extent = attr.extent, inner = attr.inner, blocks = (inner + kColumns - 1) / kColumns;
  const std::int64_t grain = std::max<std::int64_t>(1, kTaskElements / (extent * std::min(inner, kColumns)));
  parallel_ranges(attr.outer * blocks, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t column = item % blocks * kColumns, columns = std::min(kColumns, inner - column);
      const std::int64_t first = item / blocks * extent * inner + column;
      Sum sums[kColumns] = {};
      for (std::int64_t k = 0; k < extent; ++k) {
        const std::int64_t at = first + (attr.reversed ? extent - 1 - k : k) * inner;
        for (std::int64_t c = 0; c < columns; ++c) {
          sums[c] += static_cast<Sum>(data[at + c]);
          if constexpr (std::is_integral_v<T>) {
            result[at + c] = static_cast<Result>(sums[c]);
          } else {
            result[at + c] = convert<Result>(sums[c]);
          }
        }
      }
    }
  });
}

}  // namespace

void cumsum(std::span<const Tensor> in, Tensor& out, const CumsumAttr& attr) {
  visit(in[0].dtype(), [&]<class T>() { run<T>(in[0], out, attr); });
}

}  // namespace adjoint::cpu
