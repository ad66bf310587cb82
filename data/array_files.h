// Files of arrays: NumPy's npy, MNIST's IDX, CIFAR-10's binary form, NIfTI-1's medical images. Each may be compressed
// by gzip, which is recognised by its first bytes and not by the file's name.
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/core/tensor/tensor.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace adjoint::data {

struct ReadArrayOptions {
  /// A larger array is an error, which is found before memory is allocated.
  std::int64_t max_bytes = std::int64_t{1} << 40;
};

/// The array of a npy file, versions 1 to 3, converted to row-major order, on the CPU. Its type is bool, uint8, int32,
/// int64, float16, float32 or float64, little- or big-endian. int8, int16 and uint16 become int32, and uint32 and
/// uint64 become int64; 'V2', two bytes without a type, is read as bfloat16, because NumPy writes it for the bfloat16
/// of ml_dtypes. Throws Error, naming the path and the value, for a number that int64 cannot hold, another type or
/// form, more than 8 axes, a damaged file, and a file that is shorter or longer than its header states.
ADJOINT_API Tensor read_npy(const std::filesystem::path& path, const ReadArrayOptions& options = {});
/// Like read_npy, from memory; `name` stands for the path in errors.
ADJOINT_API Tensor decode_npy(std::span<const std::uint8_t> bytes, const ReadArrayOptions& options = {},
                              const std::string& name = "array");
/// The npy file, identical byte by byte to that of numpy.save. bfloat16 becomes '<V2': in Python,
/// numpy.load(path).view(ml_dtypes.bfloat16).
ADJOINT_API std::vector<std::uint8_t> encode_npy(const Tensor& array);
/// Replaces the file atomically. Throws Error, naming the path.
ADJOINT_API void write_npy(const std::filesystem::path& path, const Tensor& array);

/// The array of an IDX file: uint8, int32, float32 or float64; signed bytes and 16-bit integers become int32. The file
/// stores the number of axes and their extents (big-endian). Throws Error as read_npy does.
ADJOINT_API Tensor read_idx(const std::filesystem::path& path, const ReadArrayOptions& options = {});
/// Like read_idx, from memory; `name` stands for the path in errors.
ADJOINT_API Tensor decode_idx(std::span<const std::uint8_t> bytes, const ReadArrayOptions& options = {},
                              const std::string& name = "array");

/// A medical image.
struct NiftiVolume {
  Tensor values;  ///< (D, H, W): NIfTI's axes z, y, x
  /// Distances of neighbours along D, H and W, in the file's unit, usually millimetres; 1 if the file has no distance.
  std::array<double, 3> spacing;
};

/// The volume of a NIfTI-1 file, .nii or .nii.gz, in either byte order. NIfTI's first axis becomes the tensor's last
/// one; axes behind the third, such as time, come first. Trailing ones with one element are left out. Types are those
/// of read_npy, without bool, 16-bit floating-point numbers and bfloat16. If scl_slope is finite and not 0, elements
/// become scl_slope times the element plus scl_inter, computed in float64 and rounded to float32; float64 stays, and so
/// do all types if that changes nothing. Positions in the scanner (qform and sform) are not read. Throws Error as
/// read_npy does, and for NIfTI-2, for the pair .hdr and .img, and for colours and complex numbers.
ADJOINT_API NiftiVolume read_nifti(const std::filesystem::path& path, const ReadArrayOptions& options = {});
/// Like read_nifti, from memory; `name` stands for the path in errors.
ADJOINT_API NiftiVolume decode_nifti(std::span<const std::uint8_t> bytes, const ReadArrayOptions& options = {},
                                     const std::string& name = "array");

/// Pictures and the class of each.
struct LabelledImages {
  Tensor images;  ///< (N, C, H, W), uint8
  Tensor labels;  ///< (N), int64
};

/// MNIST's training or test set, or that of a data set in its format, such as Fashion-MNIST: (N, 1, H, W). The files
/// are train-images-idx3-ubyte and train-labels-idx1-ubyte, or t10k-..., or these names with .gz. Throws Error, naming
/// the file, if one is missing, cannot be read, or does not hold the data that its name promises; and if the numbers of
/// labels and pictures differ.
ADJOINT_API LabelledImages read_mnist(const std::filesystem::path& folder, bool train = true);

/// CIFAR-10's binary form: (N, 3, 32, 32) and labels from 0 to 9. `path` is a file of records, or a folder that holds
/// data_batch_1.bin to data_batch_5.bin (read if `train` is true) and test_batch.bin. Throws Error, naming the file and
/// the value, for a file that is missing or empty, a label above 9, and a file that is not a whole number of records.
ADJOINT_API LabelledImages read_cifar10(const std::filesystem::path& path, bool train = true);

}  // namespace adjoint::data
