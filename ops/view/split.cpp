// split, chunk and unbind: narrow and select, many times.
#include <adjoint/core/check.h>
#include <adjoint/core/tensor_impl.h>
#include <adjoint/ops/view/view.h>

#include <algorithm>

namespace adjoint {
namespace {

// A view of each part has to be made: an expanded axis can be longer than any memory.
void check_parts(const Tensor& x, std::size_t at, std::int64_t parts) {
  constexpr std::int64_t kMost = 1 << 20;
  ADJOINT_CHECK(parts <= kMost, "{}: there can be {} parts at most; got {} of axis {} of x {}", OpScope::op(), kMost,
                parts, at, x.shape());
}

std::vector<Tensor> parts(const Tensor& x, std::size_t at, std::int64_t size) {
  const std::int64_t extent = x.shape()[at];
  if (extent > 0) check_parts(x, at, (extent - 1) / size + 1);
  const auto axis = static_cast<std::int64_t>(at);
  if (extent == 0) return {x.narrow(axis, 0, 0)};
  std::vector<Tensor> all;
  for (std::int64_t start = 0; start < extent; start += std::min(size, extent - start)) {
    all.push_back(x.narrow(axis, start, std::min(size, extent - start)));
  }
  return all;
}

}  // namespace

std::vector<Tensor> split(const Tensor& x, std::int64_t split_size, std::int64_t axis) {
  const OpScope scope("split");
  check_defined("split", "x", x);
  const std::size_t at = resolve_axis("split", axis, x.shape().size());
  ADJOINT_CHECK(split_size > 0 || (split_size == 0 && x.shape()[at] == 0),
                "split: split_size must be positive, or 0 for an axis without elements; got {} for axis {} of x {}",
                split_size, axis, x.shape());
  return parts(x, at, split_size);
}

std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& split_sizes, std::int64_t axis) {
  const OpScope scope("split");
  check_defined("split", "x", x);
  const std::size_t at = resolve_axis("split", axis, x.shape().size());
  std::int64_t left = x.shape()[at];
  bool fits = true;
  for (const std::int64_t size : split_sizes) {
    fits = fits && size >= 0 && size <= left;
    if (fits) left -= size;
  }
  ADJOINT_CHECK(fits && left == 0,
                "split: split_sizes must not be negative and must add up to the axis's extent; got {} of them for axis "
                "{} of x {}",
                split_sizes.size(), axis, x.shape());
  std::vector<Tensor> all;
  std::int64_t start = 0;
  for (const std::int64_t size : split_sizes) {
    all.push_back(x.narrow(axis, start, size));
    start += size;
  }
  return all;
}

std::vector<Tensor> chunk(const Tensor& x, std::int64_t chunks, std::int64_t axis) {
  const OpScope scope("chunk");
  check_defined("chunk", "x", x);
  const std::size_t at = resolve_axis("chunk", axis, x.shape().size());
  ADJOINT_CHECK(chunks >= 1, "chunk: chunks must be at least 1; got {} for axis {} of x {}", chunks, axis, x.shape());
  const std::int64_t extent = x.shape()[at];
  // PyTorch gives as many chunks as were asked for where they are all empty.
  if (extent == 0) check_parts(x, at, chunks);
  if (extent == 0) return split(x, std::vector<std::int64_t>(static_cast<std::size_t>(chunks), 0), axis);
  return parts(x, at, (extent - 1) / chunks + 1);
}

std::vector<Tensor> unbind(const Tensor& x, std::int64_t axis) {
  const OpScope scope("unbind");
  check_defined("unbind", "x", x);
  const std::size_t at = resolve_axis("unbind", axis, x.shape().size());
  check_parts(x, at, x.shape()[at]);
  std::vector<Tensor> all;
  for (std::int64_t i = 0; i < x.shape()[at]; ++i) all.push_back(x.select(axis, i));
  return all;
}

}  // namespace adjoint
