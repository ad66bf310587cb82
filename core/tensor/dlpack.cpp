#include <adjoint/core/tensor/dlpack.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/tensor_impl.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace adjoint {
namespace {

struct TypeRow {
  DType dtype;
  dlpack::DataType type;
};
constexpr TypeRow kTypes[] = {
    {kFloat16, {dlpack::kFloat, 16, 1}}, {kBFloat16, {dlpack::kBfloat, 16, 1}}, {kFloat32, {dlpack::kFloat, 32, 1}},
    {kFloat64, {dlpack::kFloat, 64, 1}}, {kInt32, {dlpack::kInt, 32, 1}},       {kInt64, {dlpack::kInt, 64, 1}},
    {kUInt8, {dlpack::kUInt, 8, 1}},     {kBool, {dlpack::kBoolean, 8, 1}},
};

dlpack::DataType type_of(DType dtype) {
  for (const TypeRow& row : kTypes) {
    if (row.dtype == dtype) return row.type;
  }
  fail("to_dlpack: DLPack must have the dtype; got {}", dtype);
}

DType dtype_of_type(const dlpack::DataType& type) {
  for (const TypeRow& row : kTypes) {
    if (row.type.code == type.code && row.type.bits == type.bits && row.type.lanes == type.lanes) return row.dtype;
  }
  fail(
      "from_dlpack: the dtype must be float16, bfloat16, float32, float64, int32, int64, uint8 or bool; got code {}, {} "
      "bits, {} lanes; convert it before",
      type.code, type.bits, type.lanes);
}

Device device_of(const dlpack::DeviceId& id) {
  const bool host = id.device_type == dlpack::kCPUDevice || id.device_type == dlpack::kCUDAHostDevice;
  const bool there =
      host || (id.device_type == dlpack::kCUDADevice && id.device_id >= 0 && id.device_id < cuda_device_count());
  ADJOINT_CHECK(
      there,
      "from_dlpack: the device must be the CPU (type 1 or 3) or a CUDA device (type 2) that there is; got type "
      "{}, number {}, with {} CUDA devices present",
      id.device_type, id.device_id, cuda_device_count());
  return host ? kCPU : Device(DeviceType::kCUDA, id.device_id);
}

// A managed tensor of either version, and the data that it points to.
template <class Managed>
struct Exported {
  Managed managed = {};
  Tensor tensor;
  std::vector<std::int64_t> shape, strides;
};

template <class Managed>
Managed* exported(const Tensor& x, const Stream* consumer) {
  const OpScope scope("to_dlpack");
  check_defined("to_dlpack", "x", x);
  ADJOINT_CHECK(!x.requires_grad(),
                "to_dlpack: another library must not change or lose a gradient; got a tensor of shape {} that requires "
                "one; detach() it",
                x.shape());
  if (consumer != nullptr) {
    ADJOINT_CHECK(consumer->device() == x.device(),
                  "to_dlpack: the consumer's stream must be on the tensor's device; got {} for a tensor on {}",
                  consumer->device(), x.device());
    consumer->wait(Stream::current(x.device()));
  }
  auto owner = std::make_unique<Exported<Managed>>();
  owner->tensor = x;
  owner->shape.assign(x.shape().begin(), x.shape().end());
  owner->strides.assign(x.strides().begin(), x.strides().end());
  Managed& managed = owner->managed;
  // A program may write to the elements: the tensor's own address, not a const one.
  managed.view = {.data = const_cast<void*>(x.raw_data()),
                  .device = {x.device().is_cpu() ? dlpack::kCPUDevice : dlpack::kCUDADevice, x.device().index},
                  .ndim = static_cast<std::int32_t>(x.dim()),
                  .dtype = type_of(x.dtype()),
                  .shape = owner->shape.data(),
                  .strides = owner->strides.data(),
                  .byte_offset = 0};
  managed.manager_ctx = owner.get();
  managed.deleter = [](Managed* self) { delete static_cast<Exported<Managed>*>(self->manager_ctx); };
  return &owner.release()->managed;
}

// The range of the elements in memory, counted in elements from the one with index 0.
struct Span {
  std::int64_t numel = 1, first = 0, last = 0;
};

// Throws Error if their number, or their bytes, exceed int64.
Span span_of(const dlpack::View& view, const Shape& shape, const Strides& strides, std::int64_t bytes) {
  Span span;
  bool fits = true;
  for (std::size_t axis = 0; axis < shape.size() && span.numel > 0; ++axis) {
    std::int64_t reach = 0;
    std::int64_t& end = strides[axis] < 0 ? span.first : span.last;
    fits = fits && !__builtin_mul_overflow(span.numel, shape[axis], &span.numel) &&
           !__builtin_mul_overflow(shape[axis] - 1, strides[axis], &reach) && !__builtin_add_overflow(end, reach, &end);
  }
  std::int64_t range = 0;
  std::uintptr_t address = 0;
  fits = fits && !__builtin_sub_overflow(span.last, span.first, &range) && !__builtin_add_overflow(range, 1, &range) &&
         !__builtin_mul_overflow(range, bytes, &range) && !__builtin_mul_overflow(span.first, bytes, &range) &&
         !__builtin_mul_overflow(span.last + 1, bytes, &range) &&
         !__builtin_add_overflow(reinterpret_cast<std::uintptr_t>(view.data), view.byte_offset, &address) &&
         !__builtin_add_overflow(address, span.first * bytes, &address) &&
         !__builtin_add_overflow(address, static_cast<std::uintptr_t>((span.last - span.first + 1) * bytes), &address);
  ADJOINT_CHECK(span.numel == 0 || fits,
                "from_dlpack: shape and strides must lie in memory; got shape {}, strides {}, offset {}", shape,
                strides, view.byte_offset);
  return span;
}

// A bool's byte is 0 or 1, for programs and kernels alike. Other values that a producer treats as true must be
// converted by it.
void check_bools(const std::uint8_t* data, const Shape& shape, const Strides& strides) {
  Dims place = Dims::filled(shape.size(), 0);
  std::int64_t at = 0;
  for (std::int64_t left = shape.numel(); left > 0; --left) {
    ADJOINT_CHECK(data[at] <= 1,
                  "from_dlpack: bytes of a bool tensor must be 0 or 1; got {}; convert it before (in NumPy: x != 0)",
                  data[at]);
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      at += strides[axis];
      if (++place[axis] < shape[axis]) break;
      at -= strides[axis] * shape[axis];
      place[axis] = 0;
    }
  }
}

template <class Managed>
Tensor imported(Managed* managed) {
  const dlpack::View& view = managed->view;
  const DType dtype = dtype_of_type(view.dtype);
  const Device device = device_of(view.device);
  ADJOINT_CHECK(view.ndim >= 0 && view.ndim <= static_cast<std::int32_t>(kMaxRank),
                "from_dlpack: there must be at most {} axes; got {}", kMaxRank, view.ndim);
  const auto axes = static_cast<std::size_t>(view.ndim);
  ADJOINT_CHECK(axes == 0 || view.shape != nullptr, "from_dlpack: a tensor of {} axes must have a shape; got null",
                axes);
  Shape shape = Shape(Dims::filled(axes, 0));
  std::int64_t product = 1;  // of a contiguous tensor's strides
  bool fits = true;
  for (std::size_t axis = 0; axis < axes; ++axis) {
    shape[axis] = view.shape[axis];
    fits =
        fits && shape[axis] >= 0 && !__builtin_mul_overflow(product, std::max<std::int64_t>(shape[axis], 1), &product);
  }
  ADJOINT_CHECK(fits, "from_dlpack: extents must not be negative, nor their product 2^63 or more; got {}", shape);
  Strides strides = contiguous_strides(shape);
  const bool is_empty = shape.numel() == 0;  // its strides are irrelevant
  for (std::size_t axis = 0; axis < axes && view.strides != nullptr && !is_empty; ++axis)
    strides[axis] = view.strides[axis];
  const std::int64_t bytes = element_size(dtype);
  const auto [numel, first, last] = span_of(view, shape, strides, bytes);
  auto* const begin = static_cast<std::byte*>(view.data);
  auto* const data = begin == nullptr ? nullptr : begin + view.byte_offset;
  ADJOINT_CHECK(numel == 0 || data != nullptr, "from_dlpack: a tensor of shape {} must have memory; got null", shape);
  ADJOINT_CHECK(numel == 0 || reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(bytes) == 0,
                "from_dlpack: memory must be aligned to its elements of {} bytes; got address {}", bytes,
                static_cast<const void*>(data));
  if (dtype == kBool && device.is_cpu()) check_bools(reinterpret_cast<const std::uint8_t*>(data), shape, strides);
  const std::size_t nbytes = numel == 0 ? 0 : static_cast<std::size_t>((last - first + 1) * bytes);
  const auto release = [managed] {
    if (managed->deleter != nullptr) managed->deleter(managed);
  };
  // Everything that can fail comes before the storage takes over the memory.
  Tensor whole = make_tensor({Shape{0}, dtype}, device);
  Tensor tensor = whole.view_as(shape, strides, 0);
  auto storage = Storage::wrap(numel == 0 ? nullptr : data + first * bytes, nbytes, device, release);
  tensor.impl()->storage = std::move(storage);
  tensor.impl()->offset = numel == 0 ? 0 : -first;
  return tensor;
}

}  // namespace

dlpack::ManagedTensor* to_dlpack(const Tensor& x, const Stream* consumer) {
  return exported<dlpack::ManagedTensor>(x, consumer);
}

dlpack::ManagedTensorVersioned* to_dlpack_versioned(const Tensor& x, const Stream* consumer) {
  auto* const managed = exported<dlpack::ManagedTensorVersioned>(x, consumer);
  managed->version = {1, 0};
  return managed;
}

Tensor from_dlpack(dlpack::ManagedTensor* managed) {
  const OpScope scope("from_dlpack");
  ADJOINT_CHECK(managed != nullptr, "from_dlpack: the managed tensor must be one; got null");
  return imported(managed);
}

Tensor from_dlpack(dlpack::ManagedTensorVersioned* managed) {
  const OpScope scope("from_dlpack");
  ADJOINT_CHECK(managed != nullptr, "from_dlpack: the managed tensor must be one; got null");
  ADJOINT_CHECK(managed->version.major == 1, "from_dlpack: the major version must be 1; got {}.{}",
                managed->version.major, managed->version.minor);
  ADJOINT_CHECK((managed->flags & dlpack::kReadOnly) == 0,
                "from_dlpack: tensors can be written to; got memory that must not be; copy it before");
  return imported(managed);
}

}  // namespace adjoint
