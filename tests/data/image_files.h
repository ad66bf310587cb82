// Pictures' files for tests: those of tests/fixtures/images.json, and ones that are put together byte by byte.
#pragma once

#include <adjoint/core/base/error.h>
#include <adjoint/core/tensor/shape.h>
#include <adjoint/tests/support/fixtures.h>

#include <nlohmann/json.hpp>

#include <array>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace adjoint::data {

using Bytes = std::vector<std::uint8_t>;

struct Fixture {
  std::string name;
  Bytes file;
  Shape shape;
  int top = 255;
  int tolerance = 0;
  std::vector<int> values;
};

inline Bytes from_hex(const std::string& hex) {
  Bytes bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

inline const std::vector<Fixture>& fixtures() {
  static const std::vector<Fixture> all = [] {
    std::ifstream file(adjoint::testing::fixture("images.json"));
    std::vector<Fixture> result;
    for (const auto& entry : nlohmann::json::parse(file)) {
      const auto shape = entry["shape"].get<std::vector<std::int64_t>>();
      result.push_back({entry["name"], from_hex(entry["file"]), Shape(shape), entry["top"], entry["tolerance"],
                        entry["values"].get<std::vector<int>>()});
    }
    return result;
  }();
  return all;
}

inline const Fixture& fixture(const std::string& name) {
  for (const Fixture& f : fixtures()) {
    if (f.name == name) return f;
  }
  throw std::runtime_error("no fixture " + name);
}

std::string message_of(const auto& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

inline void append(Bytes& to, const Bytes& from) { to.insert(to.end(), from.begin(), from.end()); }

inline void insert(Bytes& to, std::size_t at, const Bytes& from) {
  to.insert(to.begin() + static_cast<std::ptrdiff_t>(at), from.begin(), from.end());
}

// ---- PNG.

constexpr std::size_t kPngHeaderEnd = 33;  // signature and IHDR

inline Bytes big_endian(std::uint32_t value) {
  return {static_cast<std::uint8_t>(value >> 24), static_cast<std::uint8_t>(value >> 16),
          static_cast<std::uint8_t>(value >> 8), static_cast<std::uint8_t>(value)};
}

/// PNG's checksum, bit by bit.
inline std::uint32_t crc(const Bytes& bytes) {
  std::uint32_t value = 0xffffffffU;
  for (const std::uint8_t byte : bytes) {
    value ^= byte;
    for (int bit = 0; bit < 8; ++bit) value = (value & 1) != 0 ? 0xedb88320U ^ value >> 1 : value >> 1;
  }
  return ~value;
}

inline Bytes png_chunk(std::string_view type, const Bytes& data) {
  Bytes body(type.begin(), type.end());
  append(body, data);
  Bytes chunk = big_endian(static_cast<std::uint32_t>(data.size()));
  append(chunk, body);
  append(chunk, big_endian(crc(body)));
  return chunk;
}

/// Signature and IHDR.
inline Bytes png_header(std::uint32_t width, std::uint32_t height, std::uint8_t depth, std::uint8_t color_type) {
  Bytes header = big_endian(width);
  append(header, big_endian(height));
  append(header, {depth, color_type, 0, 0, 0});
  Bytes file = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  append(file, png_chunk("IHDR", header));
  return file;
}

// ---- JPEG.

/// One grey picture of 8 x 8 blocks, each of one value: a baseline file whose scan is a Huffman code of 4 bits and the
/// difference in level for each block, and 1 bit that ends it.
struct BlockJpeg {
  std::uint32_t columns = 1, rows = 1;  // of blocks
  std::vector<int> levels;              // 8 to 248; the rest as the last one
  std::uint32_t restart_interval = 0;   // blocks

  int level(std::size_t block) const { return levels.empty() ? 128 : levels[std::min(block, levels.size() - 1)]; }

  std::vector<int> pixels() const {
    std::vector<int> values;
    for (std::size_t y = 0; y < 8 * std::size_t{rows}; ++y) {
      for (std::size_t x = 0; x < 8 * std::size_t{columns}; ++x) values.push_back(level(y / 8 * columns + x / 8));
    }
    return values;
  }

  Bytes header() const {
    Bytes file = {0xff, 0xd8, 0xff, 0xdb, 0, 67, 0};
    file.resize(file.size() + 64, 8);  // quantisers: a level's step is 1
    const std::uint32_t width = 8 * columns, height = 8 * rows;
    append(file, {0xff, 0xc0, 0, 11, 8, static_cast<std::uint8_t>(height >> 8), static_cast<std::uint8_t>(height),
                  static_cast<std::uint8_t>(width >> 8), static_cast<std::uint8_t>(width), 1, 1, 0x11, 0});
    // DC: twelve codes of 4 bits, for 0 to 11 more bits; AC: one code of 1 bit, the block's end.
    append(file, {0xff, 0xc4, 0, 31, 0x00, 0, 0, 0, 12, 0, 0, 0, 0, 0, 0,  0, 0,
                  0,    0,    0, 0,  0,    1, 2, 3, 4,  5, 6, 7, 8, 9, 10, 11});
    append(file, {0xff, 0xc4, 0, 20, 0x10, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
    if (restart_interval != 0) {
      append(file, {0xff, 0xdd, 0, 4, static_cast<std::uint8_t>(restart_interval >> 8),
                    static_cast<std::uint8_t>(restart_interval)});
    }
    append(file, {0xff, 0xda, 0, 8, 1, 1, 0x00, 0, 63, 0});
    return file;
  }

  /// The coded samples of each restart interval.
  std::vector<Bytes> intervals() const {
    std::vector<Bytes> result(1);
    std::uint32_t bits = 0;
    int count = 0, last = 128;
    const auto put = [&](std::uint32_t value, int width) {
      for (int i = width - 1; i >= 0; --i) {
        bits = bits << 1 | (value >> i & 1);
        if (++count == 8) {
          const auto byte = static_cast<std::uint8_t>(bits);
          result.back().push_back(byte);
          if (byte == 0xff) result.back().push_back(0);
          bits = 0;
          count = 0;
        }
      }
    };
    for (std::size_t block = 0; block < std::size_t{columns} * rows; ++block) {
      if (restart_interval != 0 && block != 0 && block % restart_interval == 0) {
        while (count != 0) put(1, 1);
        result.emplace_back();
        last = 128;
      }
      const int difference = level(block) - last;
      last = level(block);
      const int width = std::bit_width(static_cast<unsigned>(std::abs(difference)));
      put(static_cast<std::uint32_t>(width), 4);
      put(static_cast<std::uint32_t>(difference < 0 ? difference - 1 : difference), width);
      put(0, 1);
    }
    while (count != 0) put(1, 1);
    return result;
  }

  Bytes file() const { return file(intervals()); }
  Bytes file(const std::vector<Bytes>& parts) const {
    Bytes bytes = header();
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (i != 0) append(bytes, {0xff, static_cast<std::uint8_t>(0xd0 + (i - 1) % 8)});
      append(bytes, parts[i]);
    }
    append(bytes, {0xff, 0xd9});
    return bytes;
  }
};

/// The offset of each of a sound file's markers, except restarts.
inline std::vector<std::size_t> jpeg_markers(const Bytes& file) {
  std::vector<std::size_t> markers;
  for (std::size_t at = 2; at + 1 < file.size();) {
    const std::uint8_t marker = file[at + 1];
    if (file[at] != 0xff || marker == 0 || (marker >= 0xd0 && marker <= 0xd7)) {
      ++at;
      continue;
    }
    markers.push_back(at);
    at += 2 + (marker == 0xd9 ? 0 : std::size_t{file[at + 2]} * 256 + file[at + 3]);
  }
  return markers;
}

/// A file's head up to its first Huffman table, and each scan with the tables in front of it.
struct JpegParts {
  Bytes head;
  std::vector<Bytes> scans;

  explicit JpegParts(const Bytes& file) {
    const std::vector<std::size_t> markers = jpeg_markers(file);
    std::size_t begin = 0;
    bool in_scan = false;
    for (const std::size_t at : markers) {
      const Bytes part(file.begin() + static_cast<std::ptrdiff_t>(begin),
                       file.begin() + static_cast<std::ptrdiff_t>(at));
      if (scans.empty() && head.empty() && file[at + 1] == 0xc4) {
        head = part;
        begin = at;
      } else if (in_scan) {
        scans.push_back(part);
        begin = at;
      }
      in_scan = file[at + 1] == 0xda;
    }
  }

  Bytes file() const {
    Bytes bytes = head;
    for (const Bytes& scan : scans) append(bytes, scan);
    append(bytes, {0xff, 0xd9});
    return bytes;
  }
};

}  // namespace adjoint::data
