// Files of arrays for tests: NumPy's of tests/fixtures/npy.json, and ones that are put together byte by byte.
#pragma once

#include <adjoint/tests/data/image_files.h>

#include <zlib.h>

#include <initializer_list>

namespace adjoint::data {

struct NpyFixture {
  std::string name;
  Bytes file;
  std::string dtype;
  Shape shape;
  std::vector<double> values;
  bool same = false;  // encode_npy() makes it too, byte by byte
};

inline const std::vector<NpyFixture>& npy_fixtures() {
  static const std::vector<NpyFixture> all = [] {
    std::ifstream file(adjoint::testing::fixture("npy.json"));
    std::vector<NpyFixture> result;
    for (const auto& entry : nlohmann::json::parse(file)) {
      result.push_back({entry["name"], from_hex(entry["file"]), entry["dtype"],
                        Shape(entry["shape"].get<std::vector<std::int64_t>>()),
                        entry["values"].get<std::vector<double>>(), entry["same"]});
    }
    return result;
  }();
  return all;
}

/// A npy file of version 1 with this header, and zeros for elements.
inline Bytes npy_file(const std::string& header, std::size_t data_bytes = 0) {
  Bytes file{0x93,
             'N',
             'U',
             'M',
             'P',
             'Y',
             1,
             0,
             static_cast<std::uint8_t>(header.size() & 0xff),
             static_cast<std::uint8_t>(header.size() >> 8)};
  file.insert(file.end(), header.begin(), header.end());
  file.resize(file.size() + data_bytes);
  return file;
}

/// An IDX file's beginning.
inline Bytes idx_header(std::uint8_t type, const std::vector<std::uint32_t>& extents) {
  Bytes file{0, 0, type, static_cast<std::uint8_t>(extents.size())};
  for (const std::uint32_t extent : extents) {
    for (int shift = 24; shift >= 0; shift -= 8) file.push_back(static_cast<std::uint8_t>(extent >> shift));
  }
  return file;
}

/// One member of a gzip file.
inline Bytes gzip(const Bytes& bytes) {
  z_stream stream{};
  if (::deflateInit2(&stream, 9, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) std::abort();
  Bytes packed(::deflateBound(&stream, bytes.size()) + 64);
  stream.next_in = const_cast<Bytef*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = packed.data();
  stream.avail_out = static_cast<uInt>(packed.size());
  if (::deflate(&stream, Z_FINISH) != Z_STREAM_END) std::abort();
  packed.resize(stream.total_out);
  ::deflateEnd(&stream);
  return packed;
}

}  // namespace adjoint::data
