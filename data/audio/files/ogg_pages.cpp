// OGG's pages (RFC 3533).
#include <adjoint/data/audio/files/decoder.h>

#include <array>
#include <cstring>
#include <map>
#include <string_view>

namespace adjoint::data::audio {
namespace {

constexpr std::string_view kPage = "OggS";
constexpr std::uint64_t kHeader = 27, kMostLengths = 255, kChecksum = 22;

constexpr std::array<std::uint32_t, 256> checksum_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t crc = i << 24;
    for (int bit = 0; bit < 8; ++bit) crc = crc << 1 ^ (crc >> 31 != 0 ? 0x04c11db7U : 0U);
    table[i] = crc;
  }
  return table;
}

/// The checksum of a page, whose own four bytes count as 0.
std::uint32_t page_checksum(const std::string& page) {
  static constexpr std::array<std::uint32_t, 256> kTable = checksum_table();
  std::uint32_t crc = 0;
  for (std::size_t i = 0; i < page.size(); ++i) {
    const std::uint32_t byte = i >= kChecksum && i < kChecksum + 4 ? 0 : static_cast<unsigned char>(page[i]);
    crc = crc << 8 ^ kTable[crc >> 24 ^ byte];
  }
  return crc;
}

template <class T>
T number_at(const std::string& page, std::size_t at) {
  T value{};
  if (page.size() >= at + sizeof(T)) std::memcpy(&value, page.data() + at, sizeof(T));
  return value;
}

/// The page that begins at this place, or its existing part.
std::string page_at(int file, std::uint64_t at, std::uint64_t& bytes) {
  std::string head = bytes_at(file, at, kHeader + kMostLengths);
  head.resize(kHeader + kMostLengths);
  const auto byte = [&](std::uint64_t i) { return static_cast<unsigned char>(head[i]); };
  const std::uint64_t lengths = byte(kHeader - 1);
  bytes = kHeader + lengths;
  for (std::uint64_t i = 0; i < lengths; ++i) bytes += byte(kHeader + i);
  return bytes_at(file, at, bytes);
}

bool holds_page(int file, std::uint64_t from, std::uint64_t size) {
  constexpr std::uint64_t kPiece = 1 << 16;
  for (; from < size; from += kPiece - kPage.size()) {
    if (bytes_at(file, from, kPiece).find(kPage) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

// A page is "OggS", a version, flags, of which 4 marks a stream's last page, the frames so far (8 bytes at 6), the
// stream's number (4 at 14), the page's number in it (4 at 18), a checksum (4 at 22), the number of lengths (1 at 26),
// the lengths, and as many bytes as their sum.
const char* damage_of_ogg(int file, std::uint64_t size) {
  if (bytes_at(file, 0, kPage.size()) != kPage) return nullptr;
  std::map<std::uint32_t, std::uint32_t> next;  // per stream
  bool sounds = false, ended = false;
  for (std::uint64_t at = 0, bytes = 0; at < size; at += bytes) {
    const std::string page = page_at(file, at, bytes);
    if (ended && !page.starts_with(kPage) && !holds_page(file, at, size)) break;  // for example other programs' tags
    const auto number = number_at<std::uint32_t>(page, 18);
    const auto [stream, is_new] = next.try_emplace(number_at<std::uint32_t>(page, 14), number);
    const bool cut = page.size() < bytes;
    const bool whole =
        !cut && page.starts_with(kPage) && page_checksum(page) == number_at<std::uint32_t>(page, kChecksum);
    if (!whole || number != stream->second++) {
      return !sounds ? "its beginning is not whole" : cut ? kNoEnd : "a page of it is missing or not whole";
    }
    sounds = sounds || number_at<std::int64_t>(page, 6) > 0;
    ended = (page[5] & 4) != 0;
  }
  return ended ? nullptr : kNoEnd;
}

}  // namespace adjoint::data::audio
