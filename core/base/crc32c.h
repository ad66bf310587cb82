// CRC-32C (Castagnoli), the checksum of RFC 3720, appendix B.4: detects damage on a disk. Internal.
#pragma once

#include <adjoint/core/base/export.h>

#include <cstddef>
#include <cstdint>

namespace adjoint {

/// The checksum of a sequence of bytes that ends in these, and whose beginning has the checksum `before` (0: empty).
ADJOINT_API std::uint32_t crc32c(const void* data, std::size_t bytes, std::uint32_t before = 0);

namespace detail {

/// The same on any machine, without the CPU's instruction for it.
ADJOINT_API std::uint32_t crc32c_by_tables(const void* data, std::size_t bytes, std::uint32_t before);

}  // namespace detail
}  // namespace adjoint
