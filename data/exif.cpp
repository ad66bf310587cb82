// The one EXIF tag that a reader must not ignore: which way up the picture is.
#include <adjoint/data/codec.h>

#include <cstddef>

namespace adjoint::data {
namespace {

// Bounds-checked reads of either byte order; a read outside gives 0, which no valid tag or orientation is.
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
  constexpr std::uint32_t kOrientation = 0x0112, kShort = 3, kMagic = 42;
  if (tiff.size() < 8 || tiff[0] != tiff[1] || (tiff[0] != 'I' && tiff[0] != 'M')) return 1;
  const TiffBytes in{tiff, tiff[0] == 'M'};
  if (in.at(2, 2) != kMagic) return 1;
  const std::size_t directory = in.at(4, 4);
  const std::uint32_t entries = in.at(directory, 2);
  for (std::uint32_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + std::size_t{12} * i;
    if (in.at(entry, 2) != kOrientation) continue;
    const std::uint32_t value = in.at(entry, 4) == 0 ? 0 : in.at(entry + 8, 2);
    return in.at(entry + 2, 2) == kShort && value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

}  // namespace adjoint::data
