// IDX files (http://yann.lecun.com/exdb/mnist): two zero bytes, a type, the number of axes, the extents as big-endian
// 32-bit integers, and the elements, big-endian too.
#include <adjoint/data/array_files.h>

#include <adjoint/core/base/check.h>
#include <adjoint/data/array_bytes.h>

#include <algorithm>
#include <array>

namespace adjoint::data {
namespace {

struct IdxType {
  std::uint8_t code;
  DType dtype;
  Narrow narrow = Narrow::kNone;
};
constexpr IdxType kIdxTypes[] = {
    {0x08, kUInt8},  {0x09, kInt32, Narrow::kInt8}, {0x0b, kInt32, Narrow::kInt16}, {0x0c, kInt32}, {0x0d, kFloat32},
    {0x0e, kFloat64}};

Tensor read_idx_array(ByteReader& reader, const ReadArrayOptions& options) {
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
  return read_elements(reader, {.shape = shape, .dtype = type->dtype, .narrow = type->narrow, .big_endian = true},
                       options);
}

}  // namespace

Tensor read_idx(const std::filesystem::path& path, const ReadArrayOptions& options) {
  ByteReader reader("read_idx", path);
  return read_idx_array(reader, options);
}

Tensor decode_idx(std::span<const std::uint8_t> bytes, const ReadArrayOptions& options, const std::string& name) {
  ByteReader reader("decode_idx", name, bytes);
  return read_idx_array(reader, options);
}

}  // namespace adjoint::data
