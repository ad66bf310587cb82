// Shared by the readers of arrays: turns elements as a file holds them into a tensor. Internal.
#pragma once

#include <adjoint/core/tensor/tensor.h>
#include <adjoint/data/array_files.h>
#include <adjoint/data/byte_reader.h>

namespace adjoint::data {

/// Element types without a dtype, which are converted to the next wider dtype.
enum class Narrow { kNone, kInt8, kInt16, kUInt16, kUInt32, kUInt64 };

/// A file's representation of an array.
struct StoredArray {
  Shape shape;
  DType dtype = kFloat32;         // of the array in memory
  Narrow narrow = Narrow::kNone;  // the file's type, if it has no dtype
  bool big_endian = false;
  bool fortran_order = false;  // the first axis varies fastest
};

/// Reads the elements, which must be the rest of the file. Throws Error if there are fewer or more, if they need more
/// than options.max_bytes, and for a number that int64 cannot hold.
Tensor read_elements(ByteReader& reader, const StoredArray& stored, const ReadArrayOptions& options);

}  // namespace adjoint::data
