// What the readers of arrays share: elements as a file holds them become a tensor. Internal.
#pragma once

#include <adjoint/core/tensor.h>
#include <adjoint/data/array_files.h>
#include <adjoint/data/byte_reader.h>

namespace adjoint::data {

/// How a file holds an array.
struct StoredArray {
  Shape shape;
  DType dtype = kFloat32;
  bool big_endian = false;
  bool fortran_order = false;  // the first axis varies fastest
};

/// The elements, which are all that is left to read. Throws Error where there are fewer or more, or they take more than
/// options.max_bytes.
Tensor read_elements(ByteReader& reader, const StoredArray& stored, const ReadArrayOptions& options);

}  // namespace adjoint::data
