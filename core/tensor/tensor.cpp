// You are at stop 1 of 7 of the README's reading path, the tensor: these are its members. core/autograd/tape.h comes
// next.
#include <adjoint/core/tensor/tensor.h>

#include <adjoint/core/autograd/node.h>
#include <adjoint/core/autograd/state_log.h>
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/base/context.h>
#include <adjoint/core/graph/call_trace.h>
#include <adjoint/core/graph/onnx_call.h>
#include <adjoint/core/graph/planned_call.h>
#include <adjoint/core/graph/step_capture.h>
#include <adjoint/core/memory/scratch.h>
#include <adjoint/core/tensor/convert.h>
#include <adjoint/core/tensor/copy.h>
#include <adjoint/core/tensor/fill.h>
#include <adjoint/core/tensor/promote.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/core/tensor/scalar.h>
#include <adjoint/core/tensor/tensor_impl.h>

#include <algorithm>

namespace adjoint {
namespace {

const TensorImpl& checked(const char* member, const TensorImpl* impl) {
  if (impl == nullptr) [[unlikely]]
    fail("{}: the tensor must be defined; got Tensor{{}}; give it a value first", member);
  return *impl;
}

// For a shape that has elements.
bool strides_are_contiguous(const Shape& shape, const Strides& strides) {
  std::int64_t expected = 1;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    if (shape[axis] != 1 && strides[axis] != expected) return false;
    expected *= shape[axis];
  }
  return true;
}

// The axes from the innermost of channels_last, whose strides grow without overlaps. PyTorch's
// is_channels_last_strides_2d accepts one channel and 1 x 1 images, whose strides may be in either order.
bool strides_are_channels_last(const Shape& shape, const Strides& strides) {
  if (!has_format(shape.size(), kChannelsLast) || strides[1] != 1 || shape[1] == 1) return false;
  std::int64_t least = shape[1];
  bool has_positions = false;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    if (axis == 1 || shape[axis] == 1) continue;
    if (strides[axis] < least) return false;
    least = strides[axis] * shape[axis];
    has_positions |= axis > 1;
  }
  return has_positions;
}

void set_format(TensorImpl& impl) {
  impl.contiguous = impl.numel == 0 || strides_are_contiguous(impl.shape, impl.strides);
  impl.channels_last = !impl.contiguous && strides_are_channels_last(impl.shape, impl.strides);
}

Tensor wrap_storage(std::shared_ptr<Storage> storage, const TensorSpec& spec, std::int64_t numel) {
  auto impl = detail::make_shared_in_scratch<TensorImpl>();
  impl->storage = std::move(storage);
  impl->shape = spec.shape;
  impl->numel = numel;
  impl->dtype = spec.dtype;
  if (const MemoryFormat format = spec.format.value_or(kContiguous); format == kContiguous) [[likely]] {
    impl->strides = contiguous_strides(spec.shape);
  } else {
    impl->strides = strides_of("memory_format", spec.shape, format);
    set_format(*impl);
  }
  return Tensor(std::move(impl));
}

std::size_t checked_nbytes(const TensorSpec& spec, std::int64_t numel) {
  std::int64_t nbytes = 0;
  ADJOINT_CHECK(!__builtin_mul_overflow(numel, element_size(spec.dtype), &nbytes),
                "shape: the number of bytes must fit in 63 bits; got {} elements of {}", numel, spec.dtype);
  return static_cast<std::size_t>(nbytes);
}

void check_not_frozen(const char* op, const TensorImpl& impl) {
  ADJOINT_CHECK(impl.storage->forms() == nullptr,
                "{}: weights must not change while their model is frozen; got shape {}; unfreeze it first, or write to "
                "a clone()",
                op, impl.shape);
  ADJOINT_CHECK(
      !impl.storage->frozen(),
      "{}: a gradient must not change in place while a sweep still uses it; got shape {}; let the hook return "
      "a new tensor, or change a clone()",
      op, impl.shape);
}

// For messages: prints every digit of an integer.
template <class T>
auto printable(T value) {
  return convert<std::conditional_t<std::is_integral_v<T>, std::int64_t, double>>(value);
}

// A caller's values are refused like scalars if casts of tensors would change them.
template <class From>
void check_held(const std::vector<From>& values, DType dtype, const Shape& shape) {
  visit(dtype, [&]<class To>() {
    if constexpr (!std::is_same_v<From, To>) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        const From value = values[i];
        ADJOINT_CHECK(holds<To>(value),
                      "from_vector: the dtype must hold every value{}; got {} in place {} for {} {}; use a dtype that "
                      "holds it, or convert with to()",
                      is_floating_point(dtype) ? "" : " exactly", printable(value), i, dtype, shape);
      }
    }
  });
}

}  // namespace

void check_floating(const char* op, DType dtype) {
  ADJOINT_CHECK(is_floating_point(dtype), "{}: the dtype must be floating point; got {}; convert with to()", op, dtype);
}

Tensor make_tensor(const TensorSpec& spec, Device device) {
  const std::int64_t numel = spec.shape.numel();
  return wrap_storage(Storage::allocate(checked_nbytes(spec, numel), device, &spec), spec, numel);
}

void check_defined(const char* op, const char* operand, const Tensor& tensor) {
  ADJOINT_CHECK(tensor.defined(), "{}: {} must be defined; got Tensor{{}}", op, operand);
}

bool overlaps_itself(const Tensor& tensor) {
  const TensorImpl& impl = checked("overlaps_itself", tensor.impl());
  if (impl.contiguous) return false;
  for (std::size_t axis = 0; axis < impl.shape.size(); ++axis) {
    if (impl.strides[axis] == 0 && impl.shape[axis] > 1) return true;
  }
  return false;
}

void check_writable(const char* op, const Tensor& tensor, std::span<const Tensor> sources) {
  const TensorImpl& impl = checked(op, tensor.impl());
  ADJOINT_CHECK(!impl.recorded(),
                "{}: in-place operations must not change a recorded tensor; got shape {}; use the "
                "operation that returns a new tensor, or detach().clone()",
                op, impl.shape);
  ADJOINT_CHECK(!impl.views_recorded,
                "{}: in-place operations must not change a view of a recorded tensor; got shape {}; "
                "use the operation that returns a new tensor, or detach().clone()",
                op, impl.shape);
  ADJOINT_CHECK(
      !(impl.requires_grad && Tape::current() != nullptr),
      "{}: in-place operations must not change a leaf that requires a gradient while a tape records; got shape {}; "
      "do it before the tape or under PauseTape",
      op, impl.shape);
  check_not_frozen(op, impl);
  ADJOINT_CHECK(
      !overlaps_itself(tensor),
      "{}: elements of the tensor must not share memory; got an expanded tensor of shape {}; clone() it first", op,
      impl.shape);
  if (Tape::current() == nullptr || !is_floating_point(impl.dtype)) return;
  for (const Tensor& source : sources) {
    if (!source.defined()) continue;
    const TensorImpl& from = *source.impl();
    ADJOINT_CHECK(!from.requires_grad && !from.recorded() && !from.outside_view,
                  "{}: in-place operations are not recorded, and must not read a tensor that requires a gradient "
                  "while a tape records; got an operand of shape {}; use the operation that returns a new tensor, as "
                  "x = x + y, or detach() the operand",
                  op, from.shape);
  }
}

// ---- Tensors of a caller's values.

namespace {

// The default dtype for values of a C++ type, as in PyTorch.
template <class T>
constexpr DType own_dtype() {
  if constexpr (std::is_floating_point_v<T>) return kFloat32;
  if constexpr (std::is_same_v<T, std::int32_t>) return kInt64;
  return dtype_of<T>;
}

}  // namespace

template <class T>
Tensor Tensor::from_vector(const std::vector<T>& values, const Shape& shape, const TensorOptions& options) {
  const OpScope scope("from_vector");
  ADJOINT_CHECK(static_cast<std::int64_t>(values.size()) == shape.numel(),
                "from_vector: the number of values must be the shape's; got {} values, shape {}", values.size(), shape);
  const DType dtype = options.dtype.value_or(own_dtype<T>());
  check_held(values, dtype, shape);
  Tensor host = make_tensor({shape, dtype_of<T>}, kCPU);
  std::copy(values.begin(), values.end(), host.mutable_data<T>());
  Tensor tensor = host;
  if (dtype != dtype_of<T> || !options.device.is_cpu() || options.memory_format != kContiguous) {
    tensor = make_tensor({shape, dtype, {}, options.memory_format}, options.device);
    copy_into(host, tensor);
  }
  if (options.requires_grad) tensor.requires_grad_();
  return tensor;
}

Tensor Tensor::from_blob(void* data, const Shape& shape, const TensorOptions& options) {
  const OpScope scope("from_blob");
  const TensorSpec spec{shape, options.dtype.value_or(kFloat32), {}, options.memory_format};
  const std::int64_t numel = shape.numel();
  const std::size_t nbytes = checked_nbytes(spec, numel);
  ADJOINT_CHECK(data != nullptr || nbytes == 0, "from_blob: data must not be null; got a null pointer, shape {}",
                shape);
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  const auto size = static_cast<std::uintptr_t>(adjoint::element_size(spec.dtype));
  ADJOINT_CHECK(address % size == 0,
                "from_blob: data must be aligned to its elements; got an address of remainder {} by {} bytes",
                address % size, size);
  Tensor tensor = wrap_storage(Storage::wrap(data, nbytes, options.device, {}), spec, numel);
  if (options.requires_grad) tensor.requires_grad_();
  return tensor;
}

// ---- Attributes.

const Shape& Tensor::shape() const { return checked("shape", impl()).shape; }
const Strides& Tensor::strides() const { return checked("strides", impl()).strides; }
std::int64_t Tensor::storage_offset() const { return checked("storage_offset", impl()).offset; }
DType Tensor::dtype() const { return checked("dtype", impl()).dtype; }
Device Tensor::device() const { return checked("device", impl()).storage->device(); }
std::int64_t Tensor::dim() const { return static_cast<std::int64_t>(checked("dim", impl()).shape.size()); }
std::int64_t Tensor::size(std::int64_t axis) const {
  const Shape& shape = checked("size", impl()).shape;
  return shape[resolve_axis("size", axis, shape.size())];
}
std::int64_t Tensor::stride(std::int64_t axis) const {
  const Strides& strides = checked("stride", impl()).strides;
  return strides[resolve_axis("stride", axis, strides.size())];
}
std::int64_t Tensor::numel() const { return checked("numel", impl()).numel; }
std::int64_t Tensor::element_size() const { return adjoint::element_size(checked("element_size", impl()).dtype); }
std::size_t Tensor::nbytes() const { return static_cast<std::size_t>(numel() * element_size()); }
bool Tensor::is_floating_point() const {
  return adjoint::is_floating_point(checked("is_floating_point", impl()).dtype);
}
bool Tensor::is_leaf() const { return !checked("is_leaf", impl()).recorded(); }
bool Tensor::is_contiguous() const { return checked("is_contiguous", impl()).contiguous; }
bool Tensor::is_contiguous(MemoryFormat format) const {
  const TensorImpl& impl = checked("is_contiguous", this->impl());
  if (format == kContiguous) return impl.contiguous;
  if (!has_format(impl.shape.size(), format)) return false;
  return impl.numel == 0 || in_memory_order(*this, format).impl()->contiguous;
}
MemoryFormat Tensor::memory_format() const {
  return checked("memory_format", impl()).channels_last ? kChannelsLast : kContiguous;
}
TensorOptions Tensor::options() const {
  const TensorImpl& impl = checked("options", this->impl());
  return {.dtype = impl.dtype, .device = impl.storage->device()};
}

// ---- Elements.

namespace {

// Every access to elements, of kernels and of programs, passes here: a capture that missed one would replay a graph on
// memory that is gone, and a log that missed one could not restore it.
void* access(const Tensor& tensor, bool writes) {
  const TensorImpl& impl = *tensor.impl();
  const detail::Context& context = detail::context();
  if (context.capture != nullptr) [[unlikely]]
    context.capture->use(tensor, writes);
  if (context.trace != nullptr) [[unlikely]]
    context.trace->accesses(tensor, writes);
  if (writes) {
    if (context.state_log != nullptr) [[unlikely]]
      context.state_log->before_write(impl.storage);
    impl.storage->bump_version();
  }
  auto* const data = static_cast<std::byte*>(impl.storage->data());
  return data == nullptr ? nullptr : data + impl.offset * adjoint::element_size(impl.dtype);
}

}  // namespace

const void* Tensor::raw_data() const {
  checked("raw_data", impl());
  return access(*this, false);
}

void* Tensor::raw_mutable_data() {
  check_not_frozen("raw_mutable_data", checked("raw_mutable_data", impl()));
  return access(*this, true);
}

namespace {

void check_element_type(const char* member, const TensorImpl* impl, DType dtype) {
  ADJOINT_CHECK(checked(member, impl).dtype == dtype,
                "{}: the element type must be the tensor's; got {} for a tensor of {}; use to()", member, dtype,
                impl->dtype);
}

}  // namespace

template <class T>
const T* Tensor::data() const {
  check_element_type("data", impl(), dtype_of<T>);
  return static_cast<const T*>(raw_data());
}

template <class T>
T* Tensor::mutable_data() {
  check_element_type("mutable_data", impl(), dtype_of<T>);
  check_not_frozen("mutable_data", *impl_);
  return static_cast<T*>(raw_mutable_data());
}

template <class T>
T Tensor::item() const {
  const OpScope scope("item");
  ADJOINT_CHECK(numel() == 1, "item: the tensor must have one element; got shape {}", shape());
  return visit(dtype(), [&]<class From>() {
    const From value = to_vector<From>()[0];
    ADJOINT_CHECK(
        holds<T>(value),
        "item: the type asked for must hold the value{}; got {} of {} for {}; ask for another, or convert with "
        "to()",
        adjoint::is_floating_point(dtype_of<T>) ? "" : " exactly", printable(value), dtype(), dtype_of<T>);
    return convert<T>(value);
  });
}

Scalar Tensor::item() const {
  return visit(dtype(), [&]<class T>() -> Scalar {
    using Number = std::conditional_t<is_reduced_float<T>, float, T>;
    return item<Number>();
  });
}

template <class T>
std::vector<T> Tensor::to_vector() const {
  const OpScope scope("to_vector");
  detail::StepCapture::refuse_waiting("to_vector", *this);
  Tensor host = *this;
  if (dtype() != dtype_of<T> || !device().is_cpu() || !is_contiguous()) {
    host = make_tensor({shape(), dtype_of<T>}, kCPU);
    copy_into(*this, host);
  }
  const T* data = host.data<T>();
  return std::vector<T>(data, data + host.numel());
}

#define ADJOINT_INSTANTIATE(T)                                      \
  template ADJOINT_API const T* Tensor::data<T>() const;            \
  template ADJOINT_API T* Tensor::mutable_data<T>();                \
  template ADJOINT_API T Tensor::item<T>() const;                   \
  template ADJOINT_API std::vector<T> Tensor::to_vector<T>() const; \
  template ADJOINT_API Tensor Tensor::from_vector<T>(const std::vector<T>&, const Shape&, const TensorOptions&);
ADJOINT_INSTANTIATE(float16)
ADJOINT_INSTANTIATE(adjoint::bfloat16)
ADJOINT_INSTANTIATE(float)
ADJOINT_INSTANTIATE(double)
ADJOINT_INSTANTIATE(std::int32_t)
ADJOINT_INSTANTIATE(std::int64_t)
ADJOINT_INSTANTIATE(std::uint8_t)
ADJOINT_INSTANTIATE(bool)
#undef ADJOINT_INSTANTIATE

// ---- Views and differentiation.

Tensor Tensor::view_as(const Shape& shape, const Strides& strides, std::int64_t offset) const {
  const TensorImpl& base = checked("view_as", impl());
  auto view = detail::make_shared_in_scratch<TensorImpl>();
  view->storage = base.storage;
  view->shape = shape;
  view->strides = strides;
  view->numel = shape.numel();
  view->offset = view->numel == 0 ? 0 : offset;  // so that offsets of views of it cannot exceed 63 bits
  view->dtype = base.dtype;
  set_format(*view);
  return Tensor(std::move(view));
}

Tensor Tensor::detach() const {
  const TensorImpl& impl = checked("detach", this->impl());
  return view_as(impl.shape, impl.strides, impl.offset);
}

bool Tensor::requires_grad() const { return checked("requires_grad", impl()).requires_grad || impl_->recorded(); }

Tensor& Tensor::requires_grad_(bool value) {
  checked("requires_grad_", impl());
  if (value) check_floating("requires_grad_", dtype());
  ADJOINT_CHECK(!impl_->recorded(),
                "requires_grad_: a recorded tensor always requires a gradient; got shape {}; detach() it", shape());
  if (value && !impl_->leaf) impl_->leaf = std::make_unique<LeafState>();
  Storage& storage = *impl_->storage;
  if (value) {
    storage.set_category(MemoryCategory::kParameters);
  } else if (storage.category() == MemoryCategory::kParameters) {
    storage.set_category(MemoryCategory::kOther);
  }
  impl_->requires_grad = value;
  return *this;
}

Tensor Tensor::grad() const {
  const TensorImpl& impl = checked("grad", this->impl());
  if (detail::StepCapture* const capture = detail::StepCapture::current()) [[unlikely]]
    capture->read_gradient(*this);
  return impl.leaf ? impl.leaf->grad : Tensor{};
}

void Tensor::set_grad(const Tensor& gradient) {
  checked("set_grad", impl());
  if (gradient.defined()) {
    ADJOINT_CHECK(
        gradient.shape() == shape() && gradient.dtype() == dtype() && gradient.device() == device(),
        "set_grad: the gradient must have the tensor's shape, dtype and device; got {} {} on {} for {} {} on {}",
        gradient.shape(), gradient.dtype(), gradient.device(), shape(), dtype(), device());
    ADJOINT_CHECK(gradient.impl() != impl(),
                  "set_grad: a tensor must not be its own gradient, which would never release it; got shape {}; "
                  "pass a detach() or a clone()",
                  shape());
  }
  if (detail::StepCapture* const capture = detail::StepCapture::current()) [[unlikely]]
    capture->set_gradient(*this);
  if (!impl_->leaf) {
    if (!gradient.defined()) return;
    impl_->leaf = std::make_unique<LeafState>();
  }
  if (gradient.defined()) {
    Storage& storage = *gradient.impl()->storage;
    const MemoryCategory category = storage.category();
    const bool unclaimed = category == MemoryCategory::kOther || category == MemoryCategory::kSaved;
    if (unclaimed) storage.set_category(MemoryCategory::kGradients);
  }
  impl_->leaf->grad = gradient;
}

// ---- In place.

Tensor& Tensor::fill_(double value) {
  const OpScope scope("fill_");
  check_writable("fill_", *this);
  fill(*this, fit_scalar("fill_", value, dtype(), shape()));
  return *this;
}

Tensor& Tensor::zero_() {
  const OpScope scope("zero_");
  return fill_(0.0);
}

namespace {

// The source in the target's dtype and shape.
OnnxValue copied_onnx(OnnxCall& call, const Shape& shape) {
  OnnxValue value = call.operand(0);
  if (call.in[0].dtype() != call.out[0].dtype()) value = call.cast(value, call.out[0].dtype());
  return call.in[0].shape() == shape ? value : call.add("Expand", {value, call.integers(shape)});
}

constexpr OnnxRule<Shape> kCopiedOnnx(copied_onnx);

class CopyCall final : public detail::OperatorCallOf<Shape> {
 public:
  CopyCall(const Tensor& source, const Tensor& target)
      : OperatorCallOf("copy_", kCopiedOnnx, {&source, 1}, {&target, 1}, target.shape(), true) {}
  std::unique_ptr<detail::PlannedCall> planned() const override {
    return std::make_unique<detail::PlannedCopy>(in[0], out[0]);
  }
};

// A view of `source` in the shape that it broadcasts to.
Tensor broadcast_to(const Tensor& source, const Shape& shape) {
  Strides strides = Dims::filled(shape.size(), 0);
  const std::size_t lead = shape.size() - source.shape().size();
  for (std::size_t axis = 0; axis < source.shape().size(); ++axis) {
    strides[lead + axis] = source.shape()[axis] == 1 ? 0 : source.strides()[axis];
  }
  return source.view_as(shape, strides, source.storage_offset());
}

}  // namespace

void detail::PlannedCopy::prepare() { from_ = broadcast_to(in[0], out[0].shape()); }
void detail::PlannedCopy::run() { copy_into(from_, out[0]); }
std::unique_ptr<detail::PlannedCall> detail::OperatorCall::planned() const { return nullptr; }

Tensor& Tensor::copy_(const Tensor& source) {
  const OpScope scope("copy_");
  check_writable("copy_", *this, {&source, 1});
  check_defined("copy_", "source", source);
  ADJOINT_CHECK(broadcast_shapes("copy_", shape(), source.shape()) == shape(),
                "copy_: source must broadcast to the tensor's shape; got source {}, tensor {}", source.shape(),
                shape());
  detail::CallTrace* const trace = detail::CallTrace::current();
  if (trace != nullptr) [[unlikely]]
    trace->overwrites(*this);
  const detail::TraceScope inside(nullptr);
  Tensor broadcast = broadcast_to(source, shape());
  // A source that shares memory with the destination is read completely before anything is written.
  if (source.impl()->storage == impl_->storage) {
    Tensor copy = make_tensor({shape(), source.dtype()}, source.device());
    copy_into(broadcast, copy);
    broadcast = copy;
  }
  copy_into(broadcast, *this);
  if (trace != nullptr) [[unlikely]] {
    trace->called(CopyCall(source, *this));
  }
  return *this;
}

Tensor& Tensor::uniform_(double low, double high) {
  const OpScope scope("uniform_");
  check_writable("uniform_", *this);
  check_floating("uniform_", dtype());
  draw_uniform(*this, low, high, default_generator());
  return *this;
}

Tensor& Tensor::normal_(double mean, double standard_deviation) {
  const OpScope scope("normal_");
  check_writable("normal_", *this);
  check_floating("normal_", dtype());
  draw_normal(*this, mean, standard_deviation, default_generator());
  return *this;
}

}  // namespace adjoint
