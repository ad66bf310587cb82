// MNIST's pictures and labels, which are IDX files, and CIFAR-10's (https://www.cs.toronto.edu/~kriz/cifar.html), which
// are records of a label and 3 x 32 x 32 bytes.
#include <adjoint/data/array_files.h>

#include <adjoint/core/autograd/op_scope.h>
#include <adjoint/core/base/check.h>
#include <adjoint/data/byte_reader.h>

#include <cstring>
#include <system_error>
#include <vector>

namespace adjoint::data {
namespace {

namespace fs = std::filesystem;

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
  const std::size_t added = bytes.size() - before;
  ADJOINT_CHECK(added > 0 && added % kRecord == 0, "read_cifar10: '{}' must hold records of {} bytes; got {} bytes",
                path.string(), kRecord, added);
  for (std::size_t at = before; at < bytes.size(); at += kRecord) {
    ADJOINT_CHECK(bytes[at] < kClasses, "read_cifar10: '{}' must hold labels from 0 to {}; got {} in record {}",
                  path.string(), kClasses - 1, bytes[at], (at - before) / kRecord);
  }
}

}  // namespace

LabelledImages read_mnist(const fs::path& folder, bool train) {
  const OpScope scope("read_mnist");
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
