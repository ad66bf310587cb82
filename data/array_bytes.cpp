#include <adjoint/data/array_bytes.h>

#include <adjoint/core/check.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace adjoint::data {
namespace {

static_assert(std::endian::native == std::endian::little, "big-endian files are those that are turned");

std::uint64_t bytes_of(const ByteReader& reader, const StoredArray& stored, const ReadArrayOptions& options) {
  std::int64_t bytes = element_size(stored.dtype);
  bool fits = true, empty = false;
  for (const std::int64_t extent : stored.shape) {
    fits = fits && !__builtin_mul_overflow(bytes, std::max<std::int64_t>(extent, 1), &bytes);
    empty = empty || extent == 0;
  }
  ADJOINT_CHECK(fits, "{}: '{}' must have a size below 2^63 bytes; got {} of {}", reader.op(), reader.name(),
                stored.dtype, stored.shape);
  if (empty) return 0;
  ADJOINT_CHECK(bytes <= options.max_bytes, "{}: '{}' must take at most {} bytes; got {} of {}, which take {}",
                reader.op(), reader.name(), options.max_bytes, stored.dtype, stored.shape, bytes);
  return static_cast<std::uint64_t>(bytes);
}

template <class T>
void turn_bytes(T* elements, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    auto* first = reinterpret_cast<std::byte*>(elements + i);
    std::reverse(first, first + sizeof(T));
  }
}

/// out, in row-major order, from elements of which the first axis varies fastest.
template <class T>
void reorder(const T* in, T* out, const Shape& shape) {
  Strides strides = shape;
  for (std::int64_t axis = 0, stride = 1; axis < static_cast<std::int64_t>(shape.size()); ++axis) {
    strides[static_cast<std::size_t>(axis)] = stride;
    stride *= shape[static_cast<std::size_t>(axis)];
  }
  Dims place = Dims::filled(shape.size(), 0);
  std::int64_t from = 0;
  for (std::int64_t to = 0; to < shape.numel(); ++to) {
    out[to] = in[from];
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      from += strides[axis];
      if (++place[axis] < shape[axis]) break;
      from -= strides[axis] * shape[axis];
      place[axis] = 0;
    }
  }
}

}  // namespace

Tensor read_elements(ByteReader& reader, const StoredArray& stored, const ReadArrayOptions& options) {
  const OpScope scope(reader.op());
  const std::uint64_t bytes = bytes_of(reader, stored, options);
  reader.check_left(bytes, "elements");
  Tensor result = Tensor::empty(stored.shape, {.dtype = stored.dtype});
  reader.read_all(result.raw_mutable_data(), bytes, "elements");
  reader.check_end();
  if (stored.dtype == kBool) {  // any other value of a bool's byte is none of C++'s
    auto* values = static_cast<std::uint8_t*>(result.raw_mutable_data());
    std::transform(values, values + bytes, values, [](std::uint8_t value) { return value != 0 ? 1 : 0; });
  }
  if (bytes == 0) return result;
  visit_bits(stored.dtype, [&]<class T>() {
    if (stored.big_endian) turn_bytes(static_cast<T*>(result.raw_mutable_data()), result.numel());
    if (!stored.fortran_order || stored.shape.size() < 2) return;
    Tensor ordered = Tensor::empty(stored.shape, {.dtype = stored.dtype});
    reorder(static_cast<const T*>(result.raw_data()), static_cast<T*>(ordered.raw_mutable_data()), stored.shape);
    result = ordered;
  });
  return result;
}

}  // namespace adjoint::data
