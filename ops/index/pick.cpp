// take, accumulate and their helpers: the operators behind every function that picks by index.
#include <adjoint/ops/index/pick.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/base/parallel.h>

#include <algorithm>

namespace adjoint {
namespace {

constinit const OpDef<IndexAttr> take_op{.name = "take",
                                         .infer =
                                             [](Operands in, const IndexAttr& attr) {
                                               return TensorSpec{attr.picked, in[0].dtype()};
                                             },
                                         .cpu = cpu::take,
                                         .cuda = ADJOINT_IF_CUDA(cuda::take),
                                         .vjp = {{{kSaveIn1, [](const Ctx<IndexAttr>& c) {
                                                     return accumulate(c.grad, c.in[1], {}, c.attr);
                                                   }}}}};

constinit const OpDef<IndexAttr> accumulate_op{
    .name = "accumulate",
    .infer =
        [](Operands in, const IndexAttr& attr) {
          return TensorSpec{attr.whole, in[0].dtype()};
        },
    .cpu = cpu::accumulate,
    .cuda = ADJOINT_IF_CUDA(cuda::accumulate),
    .optional = 1U << 2,
    .vjp = {{{kSaveIn1, [](const Ctx<IndexAttr>& c) { return take(c.grad, c.in[1], c.attr); }},
             {},
             {kSaveNone, [](const Ctx<IndexAttr>& c) { return c.grad; }}}}};

constinit const OpDef<IndexAttr> last_of_equals_op{.name = "last_of_equals",
                                                   .infer =
                                                       [](Operands in, const IndexAttr&) {
                                                         return TensorSpec{in[0].shape(), in[0].dtype()};
                                                       },
                                                   .cpu = cpu::last_of_equals,
                                                   .cuda = ADJOINT_IF_CUDA(cuda::last_of_equals)};

}  // namespace

Tensor take(const Tensor& x, const Tensor& index, const IndexAttr& attr) { return apply(take_op, {x, index}, attr); }

Tensor accumulate(const Tensor& picked, const Tensor& index, const Tensor& base, const IndexAttr& attr) {
  return apply(accumulate_op, {picked, index, base}, attr);
}

void put(Tensor& x, const Tensor& picked, const Tensor& index, const IndexAttr& attr) {
  if (picked.numel() == 0) return;
  const Tensor from = contiguous_copy(picked), at = contiguous_copy(index);
#if defined(ADJOINT_WITH_CUDA)
  if (x.device().is_cuda()) return cuda::put(x, from, at, attr);
#endif
  cpu::put(x, from, at, attr);
}

Tensor last_of_equals(const Tensor& index, const IndexAttr& attr) { return apply(last_of_equals_op, {index}, attr); }

namespace {

// The coordinates of element `i`, in row-major order.
Dims place_of(std::int64_t i, const Shape& shape) {
  Dims place = shape;
  for (std::size_t axis = shape.size(); axis-- > 0; i /= shape[axis]) place[axis] = i % shape[axis];
  return place;
}

}  // namespace

Tensor checked_index(const char* op, const Tensor& index, std::int64_t low, std::int64_t high) {
  check_defined(op, "index", index);
  ADJOINT_CHECK(index.dtype() == kInt64 || index.dtype() == kInt32,
                "{}: index must be int64 or int32; got {}; convert it with to(kInt64)", op, index.dtype());
  const Tensor wide = index.dtype() == kInt64 ? index : index.to(kInt64);
  if (wide.device().is_cuda()) return wide;
  constexpr std::int64_t kGrain = 1 << 16;
  const Tensor packed = contiguous_copy(wide);
  const auto* const data = packed.data<std::int64_t>();
  parallel_ranges(packed.numel(), kGrain, [=, &index](std::int64_t begin, std::int64_t end) {
    const auto [least, most] = std::minmax_element(data + begin, data + end);
    if (*least >= low && *most < high) return;
    const auto* const outside = std::find_if(data + begin, data + end, [=](auto i) { return i < low || i >= high; });
    fail("{}: indices must lie in [{}, {}); got {} at {} of an index of shape {}", op, low, high, *outside,
         place_of(outside - data, index.shape()), index.shape());
  });
  return packed;
}

IndexAttr row_attr(const Shape& whole, std::size_t first, std::size_t last, const Shape& rows) {
  const Shape before(whole.begin(), whole.begin() + first), after(whole.begin() + last, whole.end());
  Shape picked = before;
  for (const std::int64_t extent : rows) picked.push_back(extent);
  for (const std::int64_t extent : after) picked.push_back(extent);
  const std::int64_t outer = before.numel();
  return {{outer, Shape(whole.begin() + first, whole.begin() + last).numel(), after.numel(), rows.numel(),
           std::max<std::int64_t>(1, outer), false},
          whole,
          picked};
}

}  // namespace adjoint
