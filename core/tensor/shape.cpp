#include <adjoint/core/tensor/shape.h>

#include <adjoint/core/base/check.h>

#include <algorithm>

namespace adjoint {

void Dims::too_long() { fail("shape: a tensor has at most {} axes; got more; merge axes with reshape", kMaxRank); }

void Dims::outside(std::size_t at) const {
  fail("shape: an index must lie within the list of {} values; got index {} of {}", size(), at, *this);
}

void Dims::insert(std::size_t at, std::int64_t value) {
  if (at > size_) outside(at);
  push_back(value);
  std::rotate(begin() + at, end() - 1, end());
}

void Dims::erase(std::size_t at) {
  if (at >= size_) outside(at);
  std::copy(begin() + at + 1, end(), begin() + at);
  --size_;
}

std::int64_t Shape::numel() const {
  std::int64_t product = 1;
  bool overflow = false, zero = false;
  for (const std::int64_t extent : *this) {
    ADJOINT_CHECK(extent >= 0, "shape: extents must not be negative; got {}", *this);
    zero |= extent == 0;
    overflow |= __builtin_mul_overflow(product, extent, &product);
  }
  if (zero) return 0;
  ADJOINT_CHECK(!overflow, "shape: the number of elements must fit in 63 bits; got {}", *this);
  return product;
}

std::string to_string(const Dims& dims) {
  return fmt::format("({}{})", fmt::join(dims.begin(), dims.end(), ", "), dims.size() == 1 ? "," : "");
}

Strides contiguous_strides(const Shape& shape) {
  Strides strides = Dims::filled(shape.size(), 1);
  std::int64_t product = 1;
  bool overflow = false;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    strides[axis] = product;
    // Includes the first axis: a start times a stride, as in narrow(), must fit.
    overflow |= __builtin_mul_overflow(product, std::max<std::int64_t>(shape[axis], 1), &product);
  }
  if (!overflow) return strides;
  shape.numel();  // throws unless there are no elements
  return Dims::filled(shape.size(), 0);
}

std::size_t resolve_axis(const char* op, std::int64_t axis, std::size_t rank) {
  const auto count = static_cast<std::int64_t>(rank);
  ADJOINT_CHECK(axis >= -count && axis < count, "{}: axis must lie in [{}, {}); got {}", op, -count, count, axis);
  return static_cast<std::size_t>(axis < 0 ? axis + count : axis);
}

Shape broadcast_shapes(const char* op, const Shape& a, const Shape& b) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Shape result = longer;
  const std::size_t lead = longer.size() - shorter.size();
  for (std::size_t axis = 0; axis < shorter.size(); ++axis) {
    const std::int64_t x = longer[lead + axis], y = shorter[axis];
    ADJOINT_CHECK(x == y || x == 1 || y == 1,
                  "{}: shapes must broadcast: aligned from the last axis, extents are equal or 1; got {} and {}", op, a,
                  b);
    result[lead + axis] = x == 1 ? y : x;
  }
  return result;
}

}  // namespace adjoint
