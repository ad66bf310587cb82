// The emulated copy engine: boxes of a tensor, element by element.
#include <adjoint/tests/emulation/tensor_map.h>

#include <adjoint/core/cuda/ptx.cuh>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>

namespace adjoint::emulation {
namespace {

/// What the driver would refuse.
void check(const cuda::TensorMapLayout& layout) {
  const std::int64_t size = element_size(layout.dtype);
  bool valid = reinterpret_cast<std::uintptr_t>(layout.data) % 16 == 0 && layout.box[0] * size % 16 == 0;
  for (int i = 0; i < cuda::kTensorMapAxes; ++i) {
    valid = valid && layout.extents[i] >= 1 && layout.box[i] >= 1 && layout.box[i] <= 256;
    if (i > 0) valid = valid && layout.strides[i] * size % 16 == 0;
  }
  valid = valid && (!layout.swizzled || layout.box[0] * size == 128);
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

int copy_box(unsigned char* to, const cuda::TensorMapLayout& layout, const std::vector<int>& first) {
  const auto size = static_cast<std::size_t>(element_size(layout.dtype));
  if (first[0] * static_cast<std::int64_t>(size) % 16 != 0) {
    throw std::runtime_error("emulated cp.async.bulk.tensor: the box must begin at a multiple of 16 bytes");
  }
  std::int64_t elements = 1;
  for (const std::int32_t extent : layout.box) elements *= extent;
  for (std::int64_t i = 0; i < elements; ++i) {
    std::int64_t rest = i, at = 0;
    bool inside = true;
    for (std::size_t axis = 0; axis < cuda::kTensorMapAxes; ++axis) {
      const std::int64_t place = first[axis] + rest % layout.box[axis];
      rest /= layout.box[axis];
      inside = inside && place >= 0 && place < layout.extents[axis];
      at += place * (axis == 0 ? 1 : layout.strides[axis]);
    }
    const std::size_t byte = static_cast<std::size_t>(i) * size;
    unsigned char* const place = to + (layout.swizzled ? byte ^ (byte >> 7 & 7) << 4 : byte);
    if (inside) {
      std::memcpy(place, static_cast<const unsigned char*>(layout.data) + at * static_cast<std::int64_t>(size), size);
    } else {
      std::memset(place, 0, size);
    }
    if (layout.rounds_to_tf32) round_to_tf32(place);
  }
  return static_cast<int>(elements * static_cast<std::int64_t>(size));
}

}  // namespace adjoint::emulation
