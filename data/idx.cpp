// IDX files (http://yann.lecun.com/exdb/mnist): two zero bytes, a type, the number of axes, the extents as big-endian
// 32-bit integers, and the elements, big-endian too.
#include <adjoint/data/array_files.h>

#include <adjoint/core/check.h>
#include <adjoint/data/array_bytes.h>

#include <algorithm>
#include <array>

namespace adjoint::data {
namespace {

struct IdxType {
  std::uint8_t code;
  DType dtype;
  std::int64_t stored_bytes;  // fewer than the dtype's: signed integers that are widened
};
constexpr IdxType kIdxTypes[] = {{0x08, kUInt8, 1}, {0x09, kInt32, 1},   {0x0b, kInt32, 2},
                                 {0x0c, kInt32, 4}, {0x0d, kFloat32, 4}, {0x0e, kFloat64, 8}};

/// The int32s that big-endian integers of `size` bytes are, which lie one after the other in `bytes`.
Tensor widened(const Tensor& bytes, const Shape& shape, std::int64_t size) {
  Tensor result = Tensor::empty(shape, {.dtype = kInt32});
  const auto* in = bytes.data<std::uint8_t>();
  auto* out = result.mutable_data<std::int32_t>();
  for (std::int64_t i = 0; i < result.numel(); ++i, in += size) {
    const auto value = static_cast<std::uint32_t>(size == 1 ? in[0] << 8 : in[0] << 8 | in[1]) << 16;
    out[i] = static_cast<std::int32_t>(value) >> (size == 1 ? 24 : 16);
  }
  return result;
}

Tensor read(ByteReader& reader, const ReadArrayOptions& options) {
  std::array<std::uint8_t, 4> first{};
  reader.read_all(first.data(), first.size(), "header");
  const std::size_t code = first[2], axes = first[3];
  const auto* const type =
      std::find_if(std::begin(kIdxTypes), std::end(kIdxTypes), [&](const IdxType& each) { return each.code == code; });
  ADJOINT_CHECK(first[0] == 0 && first[1] == 0, "{}: '{}' must be an IDX file, which begins with 0 0; got {} {}",
                reader.op(), reader.name(), first[0], first[1]);
  ADJOINT_CHECK(type != std::end(kIdxTypes), "{}: '{}' must hold elements of type 8, 9, 11, 12, 13 or 14; got type {}",
                reader.op(), reader.name(), code);
  ADJOINT_CHECK(axes <= kMaxRank, "{}: '{}' must have at most {} axes; got {}", reader.op(), reader.name(), kMaxRank,
                axes);
  Shape shape;
  for (std::size_t axis = 0; axis < axes; ++axis) {
    std::array<std::uint8_t, 4> extent{};
    reader.read_all(extent.data(), extent.size(), "extent");
    shape.push_back(std::int64_t{extent[0]} << 24 | extent[1] << 16 | extent[2] << 8 | extent[3]);
  }
  if (type->stored_bytes == element_size(type->dtype)) {
    return read_elements(reader, {.shape = shape, .dtype = type->dtype, .big_endian = true}, options);
  }
  // Their bytes make the last axis longer, for there may be no room for one more.
  Shape stored = shape;
  if (stored.empty()) stored.push_back(1);
  stored[stored.size() - 1] *= type->stored_bytes;
  ReadArrayOptions as_stored = options;
  as_stored.max_bytes = options.max_bytes / element_size(kInt32) * type->stored_bytes;
  return widened(read_elements(reader, {.shape = stored, .dtype = kUInt8}, as_stored), shape, type->stored_bytes);
}

}  // namespace

Tensor read_idx(const std::filesystem::path& path, const ReadArrayOptions& options) {
  ByteReader reader("read_idx", path);
  return read(reader, options);
}

Tensor decode_idx(std::span<const std::uint8_t> bytes, const ReadArrayOptions& options, const std::string& name) {
  ByteReader reader("decode_idx", name, bytes);
  return read(reader, options);
}

}  // namespace adjoint::data
