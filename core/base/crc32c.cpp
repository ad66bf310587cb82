#include <adjoint/core/base/crc32c.h>

#include <array>
#include <cstring>

namespace adjoint {
namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78U;  // reflected

using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

// kTables[k][b]: the contribution of byte b with k bytes behind it, so that eight bytes are looked up together
// (Kounavis, Berry: "A systematic approach to building high performance software-based CRC generators", 2005).
constexpr Tables kTables = [] {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t crc = tables[k - 1][byte];
      tables[k][byte] = crc >> 8 ^ tables[0][crc & 0xff];
    }
  }
  return tables;
}();

#if defined(__x86_64__)

__attribute__((target("sse4.2"))) std::uint32_t crc32c_by_instruction(const void* data, std::size_t bytes,
                                                                      std::uint32_t before) {
  const auto* next = static_cast<const unsigned char*>(data);
  std::uint64_t crc = ~before;
  for (; bytes >= 8; bytes -= 8, next += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, next, sizeof(word));
    crc = __builtin_ia32_crc32di(crc, word);
  }
  auto rest = static_cast<std::uint32_t>(crc);
  for (; bytes > 0; --bytes, ++next) rest = __builtin_ia32_crc32qi(rest, *next);
  return ~rest;
}

#endif

}  // namespace

std::uint32_t detail::crc32c_by_tables(const void* data, std::size_t bytes, std::uint32_t before) {
  const auto* next = static_cast<const unsigned char*>(data);
  std::uint32_t crc = ~before;
  for (; bytes >= 8; bytes -= 8, next += 8) {
    std::uint32_t sum = 0;
    for (std::size_t k = 0; k < 8; ++k) {
      const std::uint32_t mixed = next[k] ^ (k < 4 ? crc >> (8 * k) & 0xff : 0);
      sum ^= kTables[7 - k][mixed];
    }
    crc = sum;
  }
  for (; bytes > 0; --bytes, ++next) crc = crc >> 8 ^ kTables[0][(crc ^ *next) & 0xff];
  return ~crc;
}

std::uint32_t crc32c(const void* data, std::size_t bytes, std::uint32_t before) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) return crc32c_by_instruction(data, bytes, before);
#endif
  return detail::crc32c_by_tables(data, bytes, before);
}

}  // namespace adjoint
