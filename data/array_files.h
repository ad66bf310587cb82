// Files of arrays: NumPy's npy, MNIST's IDX, CIFAR-10's binary form; each also packed by gzip, which is known by its
// first bytes, whatever the file's name.
#pragma once

#include <adjoint/core/export.h>
#include <adjoint/core/tensor.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace adjoint::data {

struct ReadArrayOptions {
  /// A file whose array takes more is an error, found before memory is asked for.
  std::int64_t max_bytes = std::int64_t{1} << 40;
};

/// The array of a npy file, versions 1 to 3, in row-major order whatever the file's, on the CPU. Its type is one of
/// bool, uint8, int32, int64, float16, float32 and float64, little- or big-endian; 'V2', two bytes without a type, is
/// what NumPy writes for the bfloat16 of ml_dtypes, and is read so. Throws Error, naming the path and the value, for
/// another type or form, more than 8 axes, a damaged file, and one that is shorter or longer than its header says.
ADJOINT_API Tensor read_npy(const std::filesystem::path& path, const ReadArrayOptions& options = {});
/// As read_npy, from memory; `name` stands for the path in errors.
ADJOINT_API Tensor decode_npy(std::span<const std::uint8_t> bytes, const ReadArrayOptions& options = {},
                              const std::string& name = "array");
/// The npy file, byte by byte the one that numpy.save writes. bfloat16 becomes '<V2': in Python,
/// numpy.load(path).view(ml_dtypes.bfloat16).
ADJOINT_API std::vector<std::uint8_t> encode_npy(const Tensor& array);
/// Replaces the file atomically. Throws Error, naming the path.
ADJOINT_API void write_npy(const std::filesystem::path& path, const Tensor& array);

/// The array of an IDX file: uint8, int32, float32 or float64; signed bytes and 16-bit integers become int32. The file
/// says how many axes of what extents (big-endian). Throws Error as read_npy does.
ADJOINT_API Tensor read_idx(const std::filesystem::path& path, const ReadArrayOptions& options = {});
/// As read_idx, from memory; `name` stands for the path in errors.
ADJOINT_API Tensor decode_idx(std::span<const std::uint8_t> bytes, const ReadArrayOptions& options = {},
                              const std::string& name = "array");

/// Pictures and the class of each.
struct LabelledImages {
  Tensor images;  ///< (N, C, H, W), uint8
  Tensor labels;  ///< (N), int64
};

/// MNIST's training or test set, or that of a set which has its form, such as Fashion-MNIST: (N, 1, H, W). The files
/// are train-images-idx3-ubyte and train-labels-idx1-ubyte, or t10k-..., or these names with .gz. Throws Error, naming
/// the file, for one that is not there, cannot be read, or does not hold what its name says; and where there are not as
/// many labels as pictures.
ADJOINT_API LabelledImages read_mnist(const std::filesystem::path& folder, bool train = true);

/// CIFAR-10's binary form: (N, 3, 32, 32) and labels from 0 to 9. `path` is a file of records, or a folder that holds
/// data_batch_1.bin to data_batch_5.bin (read where `train` is true) and test_batch.bin. Throws Error, naming the file
/// and the value, for a file that is not there or is empty, a label above 9, and bytes that are no whole number of
/// records.
ADJOINT_API LabelledImages read_cifar10(const std::filesystem::path& path, bool train = true);

}  // namespace adjoint::data
