// argsort on the CPU: a row's keys beside their places, which make every pair differ, so that any sort is stable.
#include <adjoint/core/base/parallel.h>
#include <adjoint/ops/sort/kernels.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace adjoint::cpu {
namespace {

constexpr std::int64_t kSortGrain = 8192;  // elements that are worth a task

template <class T>
void sort_rows(const Tensor& in, Tensor& out, const SortAttr& attr) {
  const T* data = in.data<T>();
  auto* const places = out.mutable_data<std::int64_t>();
  const std::int64_t extent = attr.extent;
  parallel_ranges(
      out.numel() / extent, std::max<std::int64_t>(1, kSortGrain / extent), [=](std::int64_t begin, std::int64_t end) {
        std::vector<std::pair<sorting::Key<T>, std::int64_t>> row(static_cast<std::size_t>(extent));
        for (std::int64_t r = begin; r < end; ++r) {
          for (std::int64_t i = 0; i < extent; ++i) {
            const auto key = sorting::key(data[r * extent + i]);
            row[static_cast<std::size_t>(i)] = {attr.descending ? static_cast<sorting::Key<T>>(~key) : key, i};
          }
          std::sort(row.begin(), row.end());
          for (std::int64_t i = 0; i < extent; ++i) {
            places[r * extent + i] = row[static_cast<std::size_t>(i)].second;
          }
        }
      });
}

}  // namespace

void argsort(std::span<const Tensor> in, Tensor& out, const SortAttr& attr) {
  visit(in[0].dtype(), [&]<class T>() { sort_rows<T>(in[0], out, attr); });
}

}  // namespace adjoint::cpu
