#include <adjoint/data/array_bytes.h>

#include <adjoint/core/base/check.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <vector>

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

/// Fills out, in row-major order, from elements whose first axis varies fastest.
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

/// Bytes of an element in the file.
std::uint64_t stored_size(const StoredArray& stored) {
  switch (stored.narrow) {
    case Narrow::kNone: break;
    case Narrow::kInt8: return 1;
    case Narrow::kInt16:
    case Narrow::kUInt16: return 2;
    case Narrow::kUInt32: return 4;
    case Narrow::kUInt64: return 8;
  }
  return static_cast<std::uint64_t>(element_size(stored.dtype));
}

/// Reads the rest of the file, elements that need conversion to the result's dtype.
template <class Stored, class Wide>
void read_narrow(ByteReader& reader, bool big_endian, Tensor& result) {
  std::vector<Stored> stored(static_cast<std::size_t>(result.numel()));
  reader.read_all(stored.data(), stored.size() * sizeof(Stored), "elements");
  if (big_endian) turn_bytes(stored.data(), result.numel());
  auto* out = static_cast<Wide*>(result.raw_mutable_data());
  for (std::size_t i = 0; i < stored.size(); ++i) {
    if constexpr (sizeof(Stored) == sizeof(Wide)) {
      ADJOINT_CHECK(stored[i] <= static_cast<Stored>(std::numeric_limits<Wide>::max()),
                    "{}: '{}' must hold numbers below 2^63, as int64 does; got {} as element {} of the file",
                    reader.op(), reader.name(), stored[i], i);
    }
    out[i] = static_cast<Wide>(stored[i]);
  }
}

}  // namespace

Tensor read_elements(ByteReader& reader, const StoredArray& stored, const ReadArrayOptions& options) {
  const OpScope scope(reader.op());
  const std::uint64_t bytes = bytes_of(reader, stored, options);
  reader.check_left(bytes / static_cast<std::uint64_t>(element_size(stored.dtype)) * stored_size(stored), "elements");
  Tensor result = Tensor::empty(stored.shape, {.dtype = stored.dtype});
  switch (stored.narrow) {
    case Narrow::kNone: reader.read_all(result.raw_mutable_data(), bytes, "elements"); break;
    case Narrow::kInt8: read_narrow<std::int8_t, std::int32_t>(reader, stored.big_endian, result); break;
    case Narrow::kInt16: read_narrow<std::int16_t, std::int32_t>(reader, stored.big_endian, result); break;
    case Narrow::kUInt16: read_narrow<std::uint16_t, std::int32_t>(reader, stored.big_endian, result); break;
    case Narrow::kUInt32: read_narrow<std::uint32_t, std::int64_t>(reader, stored.big_endian, result); break;
    case Narrow::kUInt64: read_narrow<std::uint64_t, std::int64_t>(reader, stored.big_endian, result); break;
  }
  reader.check_end();
  if (stored.dtype == kBool) {  // any other value of a bool's byte is undefined behaviour in C++
    auto* values = static_cast<std::uint8_t*>(result.raw_mutable_data());
    std::transform(values, values + bytes, values, [](std::uint8_t value) { return value != 0 ? 1 : 0; });
  }
  if (bytes == 0) return result;
  visit_bits(stored.dtype, [&]<class T>() {
    if (stored.big_endian && stored.narrow == Narrow::kNone)
      turn_bytes(static_cast<T*>(result.raw_mutable_data()), result.numel());
    if (!stored.fortran_order || stored.shape.size() < 2) return;
    Tensor ordered = Tensor::empty(stored.shape, {.dtype = stored.dtype});
    reorder(static_cast<const T*>(result.raw_data()), static_cast<T*>(ordered.raw_mutable_data()), stored.shape);
    result = ordered;
  });
  return result;
}

}  // namespace adjoint::data
