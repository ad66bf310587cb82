// NumPy's npy files. The format is that of numpy.lib.format: a magic string, a version, the header's length (2 bytes in
// version 1, 4 in versions 2 and 3), the header, which is a Python dictionary, and the elements.
#include <adjoint/data/array_files.h>

#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/copy.h>
#include <adjoint/data/array_bytes.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

namespace adjoint::data {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMaxHeaderBytes = std::size_t{1} << 16;
constexpr std::size_t kAlignment = 64;  // of the elements, in the files that NumPy writes

/// NumPy's letter for a type and the bytes of an element. Types that are also written come first.
struct Descr {
  std::string_view code;
  DType dtype;
  Narrow narrow = Narrow::kNone;
};
constexpr Descr kDescrs[] = {{"f2", kFloat16},
                             {"V2", kBFloat16},
                             {"f4", kFloat32},
                             {"f8", kFloat64},
                             {"i4", kInt32},
                             {"i8", kInt64},
                             {"u1", kUInt8},
                             {"b1", kBool},
                             {"i1", kInt32, Narrow::kInt8},
                             {"i2", kInt32, Narrow::kInt16},
                             {"u2", kInt32, Narrow::kUInt16},
                             {"u4", kInt64, Narrow::kUInt32},
                             {"u8", kInt64, Narrow::kUInt64}};

/// The header's dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
class HeaderParser {
 public:
  HeaderParser(const ByteReader& reader, std::string_view text) : reader_(reader), text_(text), left_(text) {}

  StoredArray parse() {
    std::optional<std::string_view> descr;
    std::optional<bool> fortran_order;
    std::optional<Shape> shape;
    expect("{");
    while (!take("}")) {
      const std::string_view key = string();
      expect(":");
      const bool known =
          (key == "descr" && !descr) || (key == "fortran_order" && !fortran_order) || (key == "shape" && !shape);
      if (!known) refuse();
      if (key == "descr") {
        skip_space();
        descr = left_.starts_with('[') ? structured() : string();
      } else if (key == "fortran_order") {
        fortran_order = take("True");
        if (!*fortran_order) expect("False");
      } else {
        shape = tuple();
      }
      if (!take(",")) {
        expect("}");
        break;
      }
    }
    skip_space();
    if (!left_.empty() || !descr || !fortran_order || !shape) refuse();
    StoredArray stored{.shape = *shape, .fortran_order = *fortran_order};
    set_type(*descr, stored);
    return stored;
  }

 private:
  [[noreturn]] void refuse() const {
    constexpr std::size_t kShown = 200;
    std::string shown(text_.substr(0, kShown));
    std::replace_if(
        shown.begin(), shown.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
    fail("{}: '{}' must have a header with 'descr', 'fortran_order' and 'shape'; got \"{}\"", reader_.op(),
         reader_.name(), shown);
  }

  void skip_space() { left_.remove_prefix(std::min(left_.find_first_not_of(" \t\r\n"), left_.size())); }
  bool take(std::string_view token) {
    skip_space();
    if (!left_.starts_with(token)) return false;
    left_.remove_prefix(token.size());
    return true;
  }
  void expect(std::string_view token) {
    if (!take(token)) refuse();
  }
  std::string_view string() {
    skip_space();
    if (left_.empty() || (left_[0] != '\'' && left_[0] != '"')) refuse();
    const std::size_t end = left_.find(left_[0], 1);
    if (end == std::string_view::npos) refuse();
    const std::string_view result = left_.substr(1, end - 1);
    left_.remove_prefix(end + 1);
    return result;
  }
  std::string_view structured() {
    std::string_view result = left_.substr(0, left_.find(']'));
    fail_type(result);
  }
  Shape tuple() {
    Shape shape;
    expect("(");
    while (!take(")")) {
      skip_space();
      std::int64_t extent = 0;
      const auto [end, error] = std::from_chars(left_.data(), left_.data() + left_.size(), extent);
      if (error != std::errc() || extent < 0) refuse();
      left_.remove_prefix(static_cast<std::size_t>(end - left_.data()));
      take("L");  // Python 2's suffix of long numbers
      ADJOINT_CHECK(shape.size() < kMaxRank, "{}: '{}' must have at most {} axes; got more, {} first", reader_.op(),
                    reader_.name(), kMaxRank, shape);
      shape.push_back(extent);
      if (!take(",")) {
        expect(")");
        break;
      }
    }
    return shape;
  }

  void set_type(std::string_view descr, StoredArray& stored) const {
    if (descr.size() != 3 || std::string_view("<>|=").find(descr[0]) == std::string_view::npos) fail_type(descr);
    const auto* const found = std::find_if(std::begin(kDescrs), std::end(kDescrs),
                                           [&](const Descr& known) { return known.code == descr.substr(1); });
    if (found == std::end(kDescrs)) fail_type(descr);
    stored.dtype = found->dtype;
    stored.narrow = found->narrow;
    stored.big_endian = descr[0] == '>';
  }
  [[noreturn]] void fail_type(std::string_view descr) const {
    std::string known;
    for (const Descr& each : kDescrs) known += fmt::format("{}{}", known.empty() ? "" : ", ", each.code);
    fail("{}: '{}' must hold elements of {}; got '{}'", reader_.op(), reader_.name(), known,
         descr.substr(0, std::min<std::size_t>(descr.size(), 40)));
  }

  const ByteReader& reader_;
  std::string_view text_;
  std::string_view left_;
};

Tensor read_npy_array(ByteReader& reader, const ReadArrayOptions& options) {
  std::array<unsigned char, kMagic.size() + 2> first{};
  const std::size_t count = reader.read(first.data(), first.size());
  ADJOINT_CHECK(count == first.size() && std::memcmp(first.data(), kMagic.data(), kMagic.size()) == 0,
                "{}: '{}' must be a npy file; got something else", reader.op(), reader.name());
  const int version = first[kMagic.size()], minor = first[kMagic.size() + 1];
  ADJOINT_CHECK(version >= 1 && version <= 3 && minor == 0, "{}: '{}' must be of version 1.0, 2.0 or 3.0; got {}.{}",
                reader.op(), reader.name(), version, minor);
  std::array<unsigned char, 4> length_bytes{};
  reader.read_all(length_bytes.data(), version == 1 ? 2 : 4, "the header's length");
  std::size_t length = 0;
  for (std::size_t i = 0; i < length_bytes.size(); ++i) length |= std::size_t{length_bytes[i]} << 8 * i;
  ADJOINT_CHECK(length <= kMaxHeaderBytes, "{}: '{}' must have a header of at most {} bytes; got {}", reader.op(),
                reader.name(), kMaxHeaderBytes, length);
  std::string header(length, '\0');
  reader.read_all(header.data(), header.size(), "header");
  return read_elements(reader, HeaderParser(reader, header).parse(), options);
}

std::string header_of(const Tensor& array) {
  const auto* const descr = std::find_if(std::begin(kDescrs), std::end(kDescrs),
                                         [&](const Descr& known) { return known.dtype == array.dtype(); });
  const char order = element_size(array.dtype()) == 1 ? '|' : '<';
  std::string text =
      fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': {}, }}", order, descr->code, array.shape());
  const std::size_t before = kMagic.size() + 2 + 2;
  text.append((kAlignment - (before + text.size() + 1) % kAlignment) % kAlignment, ' ');
  text += '\n';
  std::string header(kMagic);
  header += {'\x01', '\x00', static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  return header + text;
}

/// Writes the file in two parts; the second is the tensor's own memory if possible.
template <class Write>
void encode(const Tensor& array, Write write) {
  const PauseTape pause;
  const Tensor host = contiguous_copy(array.detach().to(kCPU));
  const std::string header = header_of(host);
  write(header.data(), header.size());
  write(host.raw_data(), static_cast<std::size_t>(host.numel() * element_size(host.dtype())));
}

}  // namespace

Tensor read_npy(const std::filesystem::path& path, const ReadArrayOptions& options) {
  ByteReader reader("read_npy", path);
  return read_npy_array(reader, options);
}

Tensor decode_npy(std::span<const std::uint8_t> bytes, const ReadArrayOptions& options, const std::string& name) {
  ByteReader reader("decode_npy", name, bytes);
  return read_npy_array(reader, options);
}

std::vector<std::uint8_t> encode_npy(const Tensor& array) {
  ADJOINT_CHECK(array.defined(), "encode_npy: the array must be defined; got an undefined Tensor");
  std::vector<std::uint8_t> bytes;
  encode(array, [&](const void* data, std::size_t count) {
    const auto* first = static_cast<const std::uint8_t*>(data);
    bytes.insert(bytes.end(), first, first + count);
  });
  return bytes;
}

void write_npy(const std::filesystem::path& path, const Tensor& array) {
  ADJOINT_CHECK(array.defined(), "write_npy: the array must be defined; got an undefined Tensor");
  AtomicFile file("write_npy", path);
  encode(array, [&](const void* data, std::size_t count) { file.write(data, count); });
  file.commit();
}

}  // namespace adjoint::data
