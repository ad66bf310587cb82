// Files of arrays for tests: NumPy's of tests/fixtures/npy.json, and ones that are put together byte by byte.
#pragma once

#include <adjoint/tests/data/image_files.h>

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

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

/// A NIfTI-1 file that is put together byte by byte.
struct NiftiFile {
  bool big_endian = false;
  std::vector<std::int16_t> dim{3, 2, 3, 4};  // the number of axes, and their extents, the fastest first
  std::int16_t type = 2, bits = 8;
  std::vector<float> spacing{0.5F, 0.75F, 2.0F};
  float offset = 352.0F, slope = 0.0F, intercept = 0.0F;
  std::string magic{"n+1\0", 4};
  std::int32_t header_bytes = 348;

  template <class T>
  void put(Bytes& file, std::size_t at, T value) const {
    std::array<std::uint8_t, sizeof(T)> part;
    std::memcpy(part.data(), &value, sizeof(T));
    if (big_endian) std::reverse(part.begin(), part.end());
    if (file.size() < at + sizeof(T)) file.resize(at + sizeof(T));
    std::copy(part.begin(), part.end(), file.begin() + static_cast<std::ptrdiff_t>(at));
  }

  /// The file up to its elements.
  Bytes header() const {
    Bytes file(352, 0);
    put(file, 0, header_bytes);
    for (std::size_t i = 0; i < dim.size(); ++i) put(file, 40 + 2 * i, dim[i]);
    put(file, 70, type);
    put(file, 72, bits);
    for (std::size_t i = 0; i < spacing.size(); ++i) put(file, 80 + 4 * i, spacing[i]);
    put(file, 108, offset);
    put(file, 112, slope);
    put(file, 116, intercept);
    std::copy(magic.begin(), magic.end(), file.begin() + 344);
    if (offset > 352.0F && offset < 4096.0F) file.resize(static_cast<std::size_t>(offset));
    return file;
  }
  /// With elements of T.
  template <class T>
  Bytes with(const std::vector<T>& elements) const {
    Bytes file = header();
    for (const T element : elements) put(file, file.size(), element);
    return file;
  }
};

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
