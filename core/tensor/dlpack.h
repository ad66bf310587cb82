// DLPack: exchanges tensors with other libraries in one process, without a copy.
//
// The structures are declared from DLPack's specification (dmlc.github.io/dlpack, version 1.0, C API): the fields,
// their order and their numbers are its ABI. Tensors are exported under version 0 (a capsule "dltensor" in Python) or
// version 1 ("dltensor_versioned"), and imported from both.
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/core/base/stream.h>
#include <adjoint/core/tensor/tensor.h>

#include <cstdint>

namespace adjoint {
namespace dlpack {

struct Version {
  std::uint32_t major;
  std::uint32_t minor;
};

enum DeviceCode : std::int32_t { kCPUDevice = 1, kCUDADevice = 2, kCUDAHostDevice = 3 };
struct DeviceId {
  std::int32_t device_type;
  std::int32_t device_id;
};

enum TypeCode : std::uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kBoolean = 6 };
struct DataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

/// The specification's DLTensor. Strides are in elements; null means contiguous.
struct View {
  void* data;
  DeviceId device;
  std::int32_t ndim;
  DataType dtype;
  std::int64_t* shape;    // (ndim)
  std::int64_t* strides;  // (ndim)
  std::uint64_t byte_offset;
};

/// DLManagedTensor, version 0. Its owner calls deleter(this) once, unless that is null.
struct ManagedTensor {
  View view;
  void* manager_ctx;
  void (*deleter)(ManagedTensor* self);
};

inline constexpr std::uint64_t kReadOnly = 1;  // a flag: the memory must not be written to

/// DLManagedTensorVersioned, version 1.
struct ManagedTensorVersioned {
  Version version;
  void* manager_ctx;
  void (*deleter)(ManagedTensorVersioned* self);
  std::uint64_t flags;
  View view;
};

}  // namespace dlpack

/// Shares x's elements with the receiver, which keeps them alive until its deleter is called (on any thread). Earlier
/// work of x's device on its current stream is done before later work of `consumer`, the stream on which the elements
/// will be used; without one, they must be used in the order of the current stream. Throws Error for an undefined
/// tensor, one that requires a gradient (detach() it, as in PyTorch), and a stream of another device.
ADJOINT_API dlpack::ManagedTensor* to_dlpack(const Tensor& x, const Stream* consumer = nullptr);
/// The same as version 1.
ADJOINT_API dlpack::ManagedTensorVersioned* to_dlpack_versioned(const Tensor& x, const Stream* consumer = nullptr);

/// A tensor with the elements of `managed`, which it owns from then on: the deleter runs when the last tensor that
/// shares them is destroyed. The producer must have made the current stream of the tensor's device wait for its own:
/// Python's __dlpack__(stream) does. Throws Error, and leaves `managed` to the caller, for null, a dtype or device that
/// Adjoint does not have, impossible shapes and strides, memory that is not aligned to its elements, a bool tensor on
/// the CPU with bytes other than 0 and 1, and, in version 1, another major version and read-only memory.
ADJOINT_API Tensor from_dlpack(dlpack::ManagedTensor* managed);
ADJOINT_API Tensor from_dlpack(dlpack::ManagedTensorVersioned* managed);

}  // namespace adjoint
