// MNIST's IDX files and CIFAR-10's binary files. IDX (http://yann.lecun.com/exdb/mnist): two zero bytes, a type, the
// number of axes, the extents as big-endian 32-bit integers, and the elements, big-endian too. CIFAR-10
// (https://www.cs.toronto.edu/~kriz/cifar.html): records of a label and 3 x 32 x 32 bytes.
#include <adjoint/data/array_files.h>

#include <adjoint/core/check.h>
#include <adjoint/data/array_bytes.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <system_error>

namespace adjoint::data {
namespace {

namespace fs = std::filesystem;

// ---- IDX.

struct IdxType {
  std::uint8_t code;
  DType dtype;
  std::int64_t stored_bytes;  // fewer than the dtype's: signed integers that are widened
};
constexpr IdxType kIdxTypes[] = {{0x08, kUInt8, 1}, {0x09, kInt32, 1},   {0x0b, kInt32, 2},
                                 {0x0c, kInt32, 4}, {0x0d, kFloat32, 4}, {0x0e, kFloat64, 8}};

/// The int32s that big-endian integers of `size` bytes are, which lie one after the other in `bytes`.
Tensor widened(const Tensor& bytes, const Shape& shape, std::int64_t size) {
  Tensor result = Tensor::empty(shape, {.dtype = kInt32});
  const auto* in = bytes.data<std::uint8_t>();
  auto* out = result.mutable_data<std::int32_t>();
  for (std::int64_t i = 0; i < result.numel(); ++i, in += size) {
    const auto value = static_cast<std::uint32_t>(size == 1 ? in[0] << 8 : in[0] << 8 | in[1]) << 16;
    out[i] = static_cast<std::int32_t>(value) >> (size == 1 ? 24 : 16);
  }
  return result;
}

Tensor read(ByteReader& reader, const ReadArrayOptions& options) {
  std::array<std::uint8_t, 4> first{};
  reader.read_all(first.data(), first.size(), "header");
  const std::size_t code = first[2], axes = first[3];
  const auto* const type =
      std::find_if(std::begin(kIdxTypes), std::end(kIdxTypes), [&](const IdxType& each) { return each.code == code; });
  ADJOINT_CHECK(first[0] == 0 && first[1] == 0, "{}: '{}' must be an IDX file, which begins with 0 0; got {} {}",
                reader.op(), reader.name(), first[0], first[1]);
  ADJOINT_CHECK(type != std::end(kIdxTypes), "{}: '{}' must hold elements of type 8, 9, 11, 12, 13 or 14; got type {}",
                reader.op(), reader.name(), code);
  ADJOINT_CHECK(axes <= kMaxRank, "{}: '{}' must have at most {} axes; got {}", reader.op(), reader.name(), kMaxRank,
                axes);
  Shape shape;
  for (std::size_t axis = 0; axis < axes; ++axis) {
    std::array<std::uint8_t, 4> extent{};
    reader.read_all(extent.data(), extent.size(), "extent");
    shape.push_back(std::int64_t{extent[0]} << 24 | extent[1] << 16 | extent[2] << 8 | extent[3]);
  }
  if (type->stored_bytes == element_size(type->dtype)) {
    return read_elements(reader, {.shape = shape, .dtype = type->dtype, .big_endian = true}, options);
  }
  // Their bytes make the last axis longer, for there may be no room for one more.
  Shape stored = shape;
  if (stored.empty()) stored.push_back(1);
  stored[stored.size() - 1] *= type->stored_bytes;
  ReadArrayOptions as_stored = options;
  as_stored.max_bytes = options.max_bytes / element_size(kInt32) * type->stored_bytes;
  return widened(read_elements(reader, {.shape = stored, .dtype = kUInt8}, as_stored), shape, type->stored_bytes);
}

// ---- MNIST.

fs::path file_of(const fs::path& folder, const std::string& name) {
  for (const char* ending : {"", ".gz"}) {
    std::error_code error;
    fs::path path = folder / (name + ending);
    if (fs::exists(path, error)) return path;
  }
  fail("read_mnist: '{}' must hold {} or {}.gz; got neither", folder.string(), name, name);
}

Tensor read_ubytes(const fs::path& path, std::int64_t axes) {
  Tensor result = read_idx(path);
  ADJOINT_CHECK(result.dtype() == kUInt8 && result.dim() == axes,
                "read_mnist: '{}' must hold uint8 of {} axes; got {} {}", path.string(), axes, result.dtype(),
                result.shape());
  return result;
}

// ---- CIFAR-10.

constexpr std::int64_t kChannels = 3, kExtent = 32, kPicture = kChannels * kExtent * kExtent, kRecord = kPicture + 1;
constexpr int kClasses = 10;

void append_records(const fs::path& path, std::vector<std::uint8_t>& bytes) {
  constexpr std::size_t kPiece = 1024 * kRecord;
  ByteReader reader("read_cifar10", path);
  const std::size_t before = bytes.size();
  std::size_t count = kPiece;
  while (count == kPiece) {
    const std::size_t have = bytes.size();
    bytes.resize(have + kPiece);
    count = reader.read(bytes.data() + have, kPiece);
    bytes.resize(have + count);
  }
  ADJOINT_CHECK((bytes.size() - before) % kRecord == 0,
                "read_cifar10: '{}' must hold records of {} bytes; got {} bytes", path.string(), kRecord,
                bytes.size() - before);
  for (std::size_t at = before; at < bytes.size(); at += kRecord) {
    ADJOINT_CHECK(bytes[at] < kClasses, "read_cifar10: '{}' must hold labels from 0 to {}; got {} in record {}",
                  path.string(), kClasses - 1, bytes[at], (at - before) / kRecord);
  }
}

}  // namespace

Tensor read_idx(const fs::path& path, const ReadArrayOptions& options) {
  ByteReader reader("read_idx", path);
  return read(reader, options);
}

Tensor decode_idx(std::span<const std::uint8_t> bytes, const ReadArrayOptions& options, const std::string& name) {
  ByteReader reader("decode_idx", name, bytes);
  return read(reader, options);
}

LabelledImages read_mnist(const fs::path& folder, bool train) {
  const std::string set = train ? "train" : "t10k";
  const fs::path images_path = file_of(folder, set + "-images-idx3-ubyte");
  const fs::path labels_path = file_of(folder, set + "-labels-idx1-ubyte");
  const Tensor images = read_ubytes(images_path, 3), labels = read_ubytes(labels_path, 1);
  const std::int64_t count = images.size(0);
  ADJOINT_CHECK(labels.size(0) == count, "read_mnist: '{}' must hold a label for each picture of '{}'; got {} for {}",
                labels_path.string(), images_path.string(), labels.size(0), count);
  return {images.reshape({count, 1, images.size(1), images.size(2)}), labels.to(kInt64)};
}

LabelledImages read_cifar10(const fs::path& path, bool train) {
  std::vector<std::uint8_t> bytes;
  if (std::error_code error; !fs::is_directory(path, error)) {
    append_records(path, bytes);
  } else if (train) {
    for (int batch = 1; batch <= 5; ++batch) append_records(path / fmt::format("data_batch_{}.bin", batch), bytes);
  } else {
    append_records(path / "test_batch.bin", bytes);
  }
  const auto count = static_cast<std::int64_t>(bytes.size()) / kRecord;
  LabelledImages result{Tensor::empty({count, kChannels, kExtent, kExtent}, {.dtype = kUInt8}),
                        Tensor::empty({count}, {.dtype = kInt64})};
  auto* pixels = result.images.mutable_data<std::uint8_t>();
  auto* labels = result.labels.mutable_data<std::int64_t>();
  for (std::int64_t i = 0; i < count; ++i) {
    labels[i] = bytes[static_cast<std::size_t>(i * kRecord)];
    std::memcpy(pixels + i * kPicture, bytes.data() + i * kRecord + 1, kPicture);
  }
  return result;
}

}  // namespace adjoint::data
