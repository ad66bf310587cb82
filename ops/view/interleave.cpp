// repeat_interleave and meshgrid.
#include <adjoint/core/autograd/op.h>
#include <adjoint/core/base/check.h>
#include <adjoint/ops/index/index.h>
#include <adjoint/ops/view/view.h>

#include <algorithm>
#include <utility>

namespace adjoint {
namespace {

constexpr const char* kInterleave = "repeat_interleave";

// x with an axis to repeat along: its own, or that of its elements in row-major order.
std::pair<Tensor, std::size_t> along_axis(const Tensor& x, const std::optional<std::int64_t>& axis) {
  check_defined(kInterleave, "x", x);
  if (!axis) return {x.reshape({x.numel()}), 0};
  return {x, resolve_axis(kInterleave, *axis, x.shape().size())};
}

}  // namespace

Tensor repeat_interleave(const Tensor& x, std::int64_t repeats, std::optional<std::int64_t> axis) {
  const OpScope scope(kInterleave);
  const auto [from, at] = along_axis(x, axis);
  Shape shape = from.shape();
  ADJOINT_CHECK(repeats >= 0 && !__builtin_mul_overflow(shape[at], repeats, &shape[at]),
                "repeat_interleave: repeats must not be negative, and extents must fit in 63 bits; got {} for x {}",
                repeats, x.shape());
  const std::int64_t outer = Shape(from.shape().begin(), from.shape().begin() + at + 1).numel();
  const std::int64_t inner = Shape(from.shape().begin() + at + 1, from.shape().end()).numel();
  const Tensor repeated = from.reshape({outer, 1, inner}).expand({outer, repeats, inner}).reshape(shape);
  return repeated.impl()->storage == x.impl()->storage ? repeated.clone() : repeated;
}

Tensor repeat_interleave(const Tensor& x, const Tensor& repeats, std::optional<std::int64_t> axis) {
  const OpScope scope(kInterleave);
  const auto [from, at] = along_axis(x, axis);
  check_defined(kInterleave, "repeats", repeats);
  const std::int64_t extent = from.shape()[at];
  ADJOINT_CHECK(repeats.dtype() == kInt64 || repeats.dtype() == kInt32,
                "repeat_interleave: repeats must be int64 or int32; got {}; convert with to(kInt64)", repeats.dtype());
  ADJOINT_CHECK(repeats.dim() <= 1 && (repeats.numel() == 1 || repeats.numel() == extent),
                "repeat_interleave: there must be one number for all elements or one for each of {}; got repeats {} "
                "for x {}",
                extent, repeats.shape(), x.shape());
  const std::vector<std::int64_t> counts = repeats.expand({extent}).to_vector<std::int64_t>();
  std::int64_t total = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    ADJOINT_CHECK(counts[i] >= 0 && !__builtin_add_overflow(total, counts[i], &total),
                  "repeat_interleave: repeats must not be negative, and their sum must fit in 63 bits; got {} for "
                  "element {} of x {}",
                  counts[i], i, x.shape());
  }
  Tensor index = Tensor::empty({total}, {.dtype = kInt64});
  auto* place = index.mutable_data<std::int64_t>();
  for (std::size_t i = 0; i < counts.size(); ++i) place = std::fill_n(place, counts[i], static_cast<std::int64_t>(i));
  return index_select(from, static_cast<std::int64_t>(at), index.to(x.device()));
}

std::vector<Tensor> meshgrid(const std::vector<Tensor>& tensors, std::string_view indexing) {
  constexpr const char* kOp = "meshgrid";
  const OpScope scope(kOp);
  ADJOINT_CHECK(!tensors.empty() && tensors.size() <= kMaxRank, "{}: there must be 1 to {} tensors; got {}", kOp,
                kMaxRank, tensors.size());
  ADJOINT_CHECK(indexing == "ij" || indexing == "xy", "{}: indexing must be \"ij\" or \"xy\"; got \"{}\"", kOp,
                indexing);
  Shape shape;
  for (const Tensor& tensor : tensors) {
    check_defined(kOp, "a tensor", tensor);
    ADJOINT_CHECK(tensor.dim() <= 1, "{}: tensors must have one axis at most; got {}", kOp, tensor.shape());
    ADJOINT_CHECK(tensor.dtype() == tensors.front().dtype() && tensor.device() == tensors.front().device(),
                  "{}: tensors must share a dtype and a device; got {} on {} and {} on {}", kOp,
                  tensors.front().dtype(), tensors.front().device(), tensor.dtype(), tensor.device());
    shape.push_back(tensor.numel());
  }
  const bool swapped = indexing == "xy" && tensors.size() > 1;
  if (swapped) std::swap(shape[0], shape[1]);
  std::vector<Tensor> grids;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    Shape along = Dims::filled(shape.size(), 1);
    along[swapped && i < 2 ? 1 - i : i] = tensors[i].numel();
    grids.push_back(tensors[i].reshape(along).expand(shape));
  }
  return grids;
}

}  // namespace adjoint
