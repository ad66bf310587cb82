// The one EXIF tag that a reader must not ignore: the picture's orientation.
#include <adjoint/data/codec.h>

#include <cstddef>
#include <iterator>

namespace adjoint::data {
namespace {

// Bounds-checked reads in either byte order; a read outside returns 0, which is not a valid tag or orientation.
struct TiffBytes {
  std::span<const std::uint8_t> bytes;
  bool big_endian = false;

  std::uint32_t at(std::size_t offset, std::size_t count) const {
    if (offset > bytes.size() || count > bytes.size() - offset) return 0;
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < count; ++i) {
      value = value << 8 | bytes[offset + (big_endian ? i : count - 1 - i)];
    }
    return value;
  }
};

}  // namespace

int exif_orientation(std::span<const std::uint8_t> tiff) {
  constexpr std::uint32_t kOrientation = 0x0112, kMagic = 42;
  // The size in bytes of TIFF's integer types; the standard requires a SHORT (3), but writers also store others.
  constexpr std::size_t kBytes[] = {0, 1, 0, 2, 4, 0, 1, 0, 2, 4};
  if (tiff.size() < 8 || tiff[0] != tiff[1] || (tiff[0] != 'I' && tiff[0] != 'M')) return 1;
  const TiffBytes in{tiff, tiff[0] == 'M'};
  if (in.at(2, 2) != kMagic) return 1;
  const std::size_t directory = in.at(4, 4);
  const std::uint32_t entries = in.at(directory, 2);
  for (std::uint32_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + std::size_t{12} * i;
    if (in.at(entry, 2) != kOrientation) continue;
    const std::uint32_t type = in.at(entry + 2, 2);
    const std::size_t bytes = type < std::size(kBytes) ? kBytes[type] : 0;
    const std::size_t count = in.at(entry + 4, 4);
    // Values of more than four bytes are stored elsewhere.
    const std::size_t values = bytes * count <= 4 ? entry + 8 : in.at(entry + 8, 4);
    const std::uint32_t value = count == 0 ? 0 : in.at(values, bytes);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

}  // namespace adjoint::data
