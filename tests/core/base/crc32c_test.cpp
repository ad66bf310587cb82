// CRC-32C against the examples of RFC 3720, appendix B.4, and both ways to compute it against each other.
#include <adjoint/core/base/crc32c.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <string>
#include <utility>

namespace adjoint {
namespace {

TEST(Crc32c, MatchesTheStandardsExamples) {
  std::string ascending(32, '\0');
  std::iota(ascending.begin(), ascending.end(), '\0');
  const std::string descending(ascending.rbegin(), ascending.rend());
  const std::pair<std::string, std::uint32_t> examples[] = {{"", 0},
                                                            {"123456789", 0xe3069283U},
                                                            {std::string(32, '\0'), 0x8a9136aaU},
                                                            {std::string(32, '\xff'), 0x62a8ab43U},
                                                            {ascending, 0x46dd794eU},
                                                            {descending, 0x113fdb5cU}};
  for (const auto& [bytes, crc] : examples) {
    EXPECT_EQ(crc32c(bytes.data(), bytes.size()), crc);
    EXPECT_EQ(detail::crc32c_by_tables(bytes.data(), bytes.size(), 0), crc);
  }
}

TEST(Crc32c, GoesOnWhereverBytesAreCut) {
  std::string bytes(100, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * i * 37 + 11);
  const std::uint32_t whole = crc32c(bytes.data(), bytes.size());
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    const char* rest = bytes.data() + cut;
    EXPECT_EQ(crc32c(rest, bytes.size() - cut, crc32c(bytes.data(), cut)), whole);
    EXPECT_EQ(detail::crc32c_by_tables(rest, bytes.size() - cut, detail::crc32c_by_tables(bytes.data(), cut, 0)),
              whole);
  }
}

}  // namespace
}  // namespace adjoint
