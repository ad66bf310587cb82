// The emulated copy engine: boxes of a tensor, element by element.
#include <adjoint/tests/support/emulation/tensor_map.h>

#include <adjoint/core/cuda/ptx.cuh>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>

namespace adjoint::emulation {
namespace {

/// Throws for layouts that the driver would refuse.
void check(const cuda::TensorMapLayout& layout) {
  const std::int64_t size = element_size(layout.dtype);
  bool valid = reinterpret_cast<std::uintptr_t>(layout.data) % 16 == 0 && layout.box[0] * size % 16 == 0;
  for (int i = 0; i < cuda::kTensorMapAxes; ++i) {
    valid = valid && layout.extents[i] >= 1 && layout.box[i] >= 1 && layout.box[i] <= 256;
    if (i > 0) valid = valid && layout.strides[i] * size % 16 == 0 && layout.strides[i] * size < std::int64_t{1} << 40;
  }
  valid = valid && (layout.box[1] - 1) * layout.row_step < 256 && layout.row_step >= 1 && layout.row_step <= 8;
  valid = valid && (!layout.swizzled || layout.box[0] * size <= 128);
  if (!valid) throw std::runtime_error("emulated tensor map: a layout that the driver refuses");
}

void round_to_tf32(unsigned char* place) {
  float value = 0;
  std::memcpy(&value, place, sizeof(value));
  const std::uint32_t bits = cuda::ptx::round_to_tf32(value);
  std::memcpy(place, &bits, sizeof(bits));
}

}  // namespace

cuda::TensorMap encode_tensor_map(const cuda::TensorMapLayout& layout) {
  check(layout);
  cuda::TensorMap map{};
  static_assert(sizeof(layout) <= sizeof(map));
  std::memcpy(map.words, &layout, sizeof(layout));
  return map;
}

cuda::TensorMapLayout decode_tensor_map(const cuda::TensorMap& map) {
  cuda::TensorMapLayout layout{};
  std::memcpy(&layout, map.words, sizeof(layout));
  return layout;
}

namespace {

/// From a run of a box along the innermost axis to the next, in shared memory.
std::int64_t line_bytes(const cuda::TensorMapLayout& layout) {
  const std::int64_t bytes = layout.box[0] * element_size(layout.dtype);
  if (!layout.swizzled) return bytes;
  return bytes <= 32 ? 32 : bytes <= 64 ? 64 : 128;
}

/// Calls body(bytes of the element in the box, its place in the tensor or null) for each element of the box at `first`;
/// returns the box's bytes.
template <class Body>
int for_box(const cuda::TensorMapLayout& layout, const std::vector<int>& first, const Body& body) {
  const auto size = static_cast<std::size_t>(element_size(layout.dtype));
  if (first[0] * static_cast<std::int64_t>(size) % 16 != 0) {
    throw std::runtime_error("emulated cp.async.bulk.tensor: the box must begin at a multiple of 16 bytes");
  }
  auto* const data = const_cast<unsigned char*>(static_cast<const unsigned char*>(layout.data));
  const std::int64_t line = line_bytes(layout);
  std::int64_t elements = 1;
  for (const std::int32_t extent : layout.box) elements *= extent;
  for (std::int64_t i = 0; i < elements; ++i) {
    std::int64_t rest = i, at = 0;
    bool inside = true;
    for (std::size_t axis = 0; axis < cuda::kTensorMapAxes; ++axis) {
      const std::int64_t place = first[axis] + rest % layout.box[axis] * (axis == 1 ? layout.row_step : 1);
      rest /= layout.box[axis];
      inside = inside && place >= 0 && place < layout.extents[axis];
      at += place * (axis == 0 ? 1 : layout.strides[axis]);
    }
    body(static_cast<std::uint32_t>(i / layout.box[0] * line + i % layout.box[0] * static_cast<std::int64_t>(size)),
         inside ? data + at * static_cast<std::int64_t>(size) : nullptr);
  }
  return static_cast<int>(elements * static_cast<std::int64_t>(size));
}

/// The place in shared memory of a box's byte, for a box that begins at `address`.
std::uint32_t swizzled(const cuda::TensorMapLayout& layout, std::uint32_t address) {
  if (!layout.swizzled) return address;
  const auto chunks = static_cast<std::uint32_t>(line_bytes(layout) / 16);
  return address ^ (address >> 7 & (chunks - 1)) << 4;
}

}  // namespace

int load_box(unsigned char* shared, std::uint32_t to, const cuda::TensorMapLayout& layout,
             const std::vector<int>& first) {
  const auto size = static_cast<std::size_t>(element_size(layout.dtype));
  return for_box(layout, first, [&](std::uint32_t byte, const unsigned char* element) {
    unsigned char* const place = shared + swizzled(layout, to + byte);
    if (element != nullptr) {
      std::memcpy(place, element, size);
    } else {
      std::memset(place, 0, size);
    }
    if (layout.rounds_to_tf32) round_to_tf32(place);
  });
}

void store_box(const unsigned char* shared, std::uint32_t from, const cuda::TensorMapLayout& layout,
               const std::vector<int>& first) {
  const auto size = static_cast<std::size_t>(element_size(layout.dtype));
  // The copy engine also writes the part of a row's last 16 bytes that is outside.
  if (layout.extents[0] * static_cast<std::int64_t>(size) % 16 != 0) {
    throw std::runtime_error("emulated cp.async.bulk.tensor: stores want rows of a multiple of 16 bytes");
  }
  for_box(layout, first, [&](std::uint32_t byte, unsigned char* element) {
    if (element != nullptr) std::memcpy(element, shared + swizzled(layout, from + byte), size);
  });
}

}  // namespace adjoint::emulation
