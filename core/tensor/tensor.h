// You are at stop 1 of 7 of the README's reading path, the tensor: this is its interface. storage.h comes next.
//
// Tensor: a value-like handle on shared storage with a shape, strides, a dtype and a device.
//
// Copying a Tensor copies the handle; clone() copies the elements. Views (reshape, permute, narrow, ...) share storage.
// The innermost live Tape of the thread records members marked [differentiable]; they are declared here and defined in
// ops/.
#pragma once

#include <adjoint/core/base/device.h>
#include <adjoint/core/base/export.h>
#include <adjoint/core/tensor/dtype.h>
#include <adjoint/core/tensor/memory_format.h>
#include <adjoint/core/tensor/scalar.h>
#include <adjoint/core/tensor/shape.h>
#include <adjoint/core/tensor/unary_functions.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace adjoint {

class Generator;
class Index;
class Storage;
class Tensor;
struct BackwardOptions;
struct TensorImpl;

struct TensorOptions {
  /// The factory chooses omitted options: float32 unless it documents another dtype.
  std::optional<DType> dtype = {};
  Device device = kCPU;
  bool requires_grad = false;
  MemoryFormat memory_format = kContiguous;
};

/// Options of a tensor that is made like another. Options that are not set are the other tensor's.
struct LikeOptions {
  std::optional<DType> dtype = {};
  std::optional<Device> device = {};
  bool requires_grad = false;
  std::optional<MemoryFormat> memory_format = {};
};

/// Gets a gradient as it passes; returns its replacement, or an undefined Tensor to leave it unchanged. Other tensors
/// may share the gradient: changing it in place throws Error until the sweep is done.
using GradientHook = std::function<Tensor(const Tensor& gradient)>;

class ADJOINT_API Tensor {
 public:
  /// Undefined, which means "absent", such as no bias. Every other member but defined() throws Error on it.
  Tensor() = default;
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) noexcept = default;
  ~Tensor() = default;
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & noexcept = default;
  /// x[0] = y would change only the temporary handle: write x[0].copy_(y) or index_put_(x, {0}, y).
  Tensor& operator=(const Tensor&) && = delete;

  // ---- Making tensors. Every one throws Error for a negative extent or a size beyond 63 bits, and OutOfMemoryError.

  /// Uninitialised.
  static Tensor empty(const Shape& shape, const TensorOptions& options = {});
  static Tensor zeros(const Shape& shape, const TensorOptions& options = {});
  static Tensor ones(const Shape& shape, const TensorOptions& options = {});
  /// Every element is `value`, rounded to the dtype, which defaults to float32 for a real, int64 for an integer and
  /// bool for a bool. Throws Error if the dtype cannot hold the value: an integer dtype exactly, bool 0 or 1, a
  /// floating-point dtype without turning a finite number into an infinity.
  static Tensor full(const Shape& shape, const Scalar& value, const TensorOptions& options = {});
  /// Uniform on [0, 1), from the global generator (manual_seed); the same bits on every device. Floating point only.
  static Tensor rand(const Shape& shape, const TensorOptions& options = {});
  /// Standard normal (Box-Muller), from the global generator; equal within 4 ulp on every device. Floating point only.
  static Tensor randn(const Shape& shape, const TensorOptions& options = {});
  /// start, start + step, ... below `end` (above it if step is negative): float64s, rounded to the dtype, which
  /// defaults to int64 if all three are integers. Throws Error if step is 0, and if the dtype cannot hold an element,
  /// as full() does.
  static Tensor arange(const Scalar& start, const Scalar& end, const Scalar& step = 1,
                       const TensorOptions& options = {});
  static Tensor arange(const Scalar& start, const Scalar& end, const TensorOptions& options) {
    return arange(start, end, 1, options);
  }
  /// arange(0, end).
  static Tensor arange(const Scalar& end, const TensorOptions& options = {}) { return arange(0, end, 1, options); }
  /// The (n, n) identity.
  static Tensor eye(std::int64_t n, const TensorOptions& options = {});
  /// A copy of `values` in options.dtype, which defaults to float32 for floats and doubles, int64 for int32 and int64,
  /// and else the values' own dtype. Throws Error unless values.size() == shape.numel(), and if the dtype cannot hold a
  /// value, as full() does; to(dtype), in contrast, converts every value.
  template <class T>
  static Tensor from_vector(const std::vector<T>& values, const Shape& shape, const TensorOptions& options = {});
  /// from_vector({1.f, 2.f}, {2}).
  template <class T, std::size_t kCount>
  static Tensor from_vector(const T (&values)[kCount], const Shape& shape, const TensorOptions& options = {}) {
    return from_vector(std::vector<T>(values, values + kCount), shape, options);
  }
  /// full({}, value).
  static Tensor scalar(const Scalar& value, const TensorOptions& options = {});
  /// Views memory of the caller, which is in options.memory_format and on options.device and must outlive every view
  /// of it.
  static Tensor from_blob(void* data, const Shape& shape, const TensorOptions& options = {});

  // ---- Attributes.

  bool defined() const { return impl_ != nullptr; }
  const Shape& shape() const;
  const Shape& sizes() const { return shape(); }
  const Strides& strides() const;
  std::int64_t storage_offset() const;
  DType dtype() const;
  Device device() const;
  std::int64_t dim() const;
  std::int64_t ndim() const { return dim(); }
  /// The extent, and the stride, of one axis; -1 is the last.
  std::int64_t size(std::int64_t axis) const;
  std::int64_t stride(std::int64_t axis) const;
  std::int64_t numel() const;
  /// Bytes of an element, and of all.
  std::int64_t element_size() const;
  std::size_t nbytes() const;
  bool is_contiguous() const;
  /// Returns true if the elements fill memory without gaps in this format. Tensors of one channel, and 1 x 1 images,
  /// are in both formats.
  bool is_contiguous(MemoryFormat format) const;
  /// kChannelsLast if the strides, gaps allowed, have the order of channels_last and not that of contiguous tensors
  /// too; else kContiguous. Results of operators follow the first operand whose strides are in one order only.
  MemoryFormat memory_format() const;
  bool is_cpu() const { return device().is_cpu(); }
  bool is_cuda() const { return device().is_cuda(); }
  bool is_floating_point() const;
  /// Its dtype and device, both set.
  TensorOptions options() const;

  /// A tensor of another shape, by default with this tensor's dtype and device.
  Tensor new_empty(const Shape& shape, const LikeOptions& options = {}) const;
  Tensor new_zeros(const Shape& shape, const LikeOptions& options = {}) const;
  Tensor new_ones(const Shape& shape, const LikeOptions& options = {}) const;
  Tensor new_full(const Shape& shape, const Scalar& value, const LikeOptions& options = {}) const;

  // ---- Elements.

  /// The first element, on the tensor's own device. Throws Error if T is not the dtype's C++ type.
  template <class T>
  const T* data() const;
  /// Like data(), for writing: it increments the storage's version, so a gradient that needed the old values is an
  /// error.
  template <class T>
  T* mutable_data();
  /// data() without a type.
  const void* raw_data() const;
  /// mutable_data() without a type.
  void* raw_mutable_data();
  /// The only element as a T; waits for the device. Throws Error unless numel() == 1, and if T cannot hold the element,
  /// as full() does: item<int>() of 2.5 or NaN is an error.
  template <class T>
  T item() const;
  /// The same in the dtype's own kind: computes, compares and prints like a number.
  Scalar item() const;
  /// Every element in row-major order, converted to T as to(DType) converts; waits for the device.
  template <class T>
  std::vector<T> to_vector() const;

  // ---- Copies and moves. [differentiable, but for detach]

  Tensor to(Device device) const;
  Tensor cpu() const { return to(kCPU); }
  /// Copies to the CUDA device `index`; without an index to kCUDA.
  Tensor cuda(int index = 0) const { return to(Device(DeviceType::kCUDA, index)); }
  Tensor to(Device device, DType dtype) const { return to(dtype).to(device); }
  Tensor to(DType dtype, Device device) const { return to(device, dtype); }
  /// Converts elements in the same way on every device. To bool: false if the element equals 0, else true, also for
  /// NaN. To a floating-point dtype: rounded once; values that are too large become infinity. From a floating-point
  /// dtype to an integer one: truncated towards 0; beyond the range, the nearer end; NaN becomes 0. From an integer
  /// dtype to a narrower one: modulo 2^bits.
  Tensor to(DType dtype) const;
  /// Converts to the device and dtype of `other`.
  Tensor to(const Tensor& other) const { return to(other.device(), other.dtype()); }
  Tensor type_as(const Tensor& other) const { return to(other); }
  Tensor half() const { return to(kFloat16); }
  Tensor bfloat16() const { return to(kBFloat16); }
  /// A copy without gaps, in memory_format().
  Tensor clone() const;
  /// This tensor if it is contiguous in `format` already, else a copy that is. Throws Error if it has not 3 to 5 axes
  /// and `format` is kChannelsLast.
  Tensor contiguous(MemoryFormat format = kContiguous) const;
  Tensor to(MemoryFormat format) const { return contiguous(format); }
  /// The same elements outside every tape.
  Tensor detach() const;

  // ---- Differentiation.

  /// True for a leaf marked by requires_grad_(), and for a result that a tape recorded.
  bool requires_grad() const;
  /// False for a result that a tape recorded.
  bool is_leaf() const;
  /// Sweeps the tape that records on this thread, as the functions of this name (core/autograd/tape.h). Throws Error if
  /// no tape does: make the Tape before this tensor is computed.
  void backward() const;
  void backward(const BackwardOptions& options) const;
  /// From `gradient`, of this tensor's shape.
  void backward(const Tensor& gradient) const;
  /// Marks a leaf. Throws Error for a dtype that is not floating point and for a recorded tensor.
  Tensor& requires_grad_(bool value = true);
  /// The gradient that backward() has accumulated so far; undefined before the first. Leaves only. A handle:
  /// x.grad().mul_(0.5) scales the gradient itself.
  Tensor grad() const;
  void set_grad(const Tensor& gradient);
  /// Runs in each sweep once this tensor's whole gradient is known. A recorded tensor's hook lives as long as its tape.
  /// Returns an id for remove_hook. Throws Error for an empty hook, for a tensor that requires no gradient, and for one
  /// whose tape is gone or belongs to another thread.
  std::uint64_t register_hook(GradientHook hook) const;
  void remove_hook(std::uint64_t id) const;

  // ---- Views. [differentiable] Axes may be negative, counted from the end.

  // x.view(-1, 10) is x.view({-1, 10}), and likewise for reshape, permute, expand and repeat.

  /// One extent may be -1. A view if strides allow, else a copy.
  Tensor reshape(const Shape& shape) const;
  template <std::integral... Rest>
  requires(sizeof...(Rest) > 0) Tensor reshape(std::int64_t first, Rest... rest)
  const { return reshape(Shape{first, static_cast<std::int64_t>(rest)...}); }
  /// reshape() that never copies. Throws Error if strides do not allow a view.
  Tensor view(const Shape& shape) const;
  template <std::integral... Rest>
  requires(sizeof...(Rest) > 0) Tensor view(std::int64_t first, Rest... rest)
  const { return view(Shape{first, static_cast<std::int64_t>(rest)...}); }
  Tensor flatten(std::int64_t first_axis = 0, std::int64_t last_axis = -1) const;
  Tensor permute(const Dims& axes) const;
  template <std::integral... Rest>
  requires(sizeof...(Rest) > 0) Tensor permute(std::int64_t first, Rest... rest)
  const { return permute(Dims{first, static_cast<std::int64_t>(rest)...}); }
  Tensor transpose(std::int64_t a, std::int64_t b) const;
  Tensor swapaxes(std::int64_t a, std::int64_t b) const { return transpose(a, b); }
  /// The transpose of a matrix; a vector or scalar is unchanged. Throws Error for more axes.
  Tensor t() const;
  /// The last two axes transposed. Throws Error for fewer.
  Tensor mT() const { return transpose(-2, -1); }
  Tensor reshape_as(const Tensor& other) const { return reshape(other.shape()); }
  Tensor expand_as(const Tensor& other) const { return expand(other.shape()); }
  Tensor narrow(std::int64_t axis, std::int64_t start, std::int64_t length) const;
  Tensor select(std::int64_t axis, std::int64_t index) const;
  /// select(0, index): x[1][2] is one element as a tensor.
  Tensor operator[](std::int64_t index) const { return select(0, index); }
  Tensor squeeze() const;
  Tensor squeeze(std::int64_t axis) const;
  Tensor unsqueeze(std::int64_t axis) const;
  /// Repeats axes of extent 1 without copying; new axes come first; -1 keeps an extent.
  Tensor expand(const Shape& shape) const;
  template <std::integral... Rest>
  requires(sizeof...(Rest) > 0) Tensor expand(std::int64_t first, Rest... rest)
  const { return expand(Shape{first, static_cast<std::int64_t>(rest)...}); }

  // ---- Reductions. [differentiable] An empty list of axes means all of them.

  Tensor sum() const;
  Tensor sum(const Dims& axes, bool keepdim = false) const;
  Tensor mean() const;
  Tensor mean(const Dims& axes, bool keepdim = false) const;
  // Like the functions of these names (ops/reduce/reduce.h, ops/softmax, ops/scan).
  Tensor prod(const Dims& axes = {}, bool keepdim = false) const;
  Tensor norm(double p = 2.0, const Dims& axes = {}, bool keepdim = false) const;
  Tensor var(const Dims& axes = {}, std::int64_t correction = 1, bool keepdim = false) const;
  Tensor std(const Dims& axes = {}, std::int64_t correction = 1, bool keepdim = false) const;
  std::pair<Tensor, Tensor> var_mean(const Dims& axes = {}, std::int64_t correction = 1, bool keepdim = false) const;
  std::pair<Tensor, Tensor> std_mean(const Dims& axes = {}, std::int64_t correction = 1, bool keepdim = false) const;
  Tensor logsumexp(const Dims& axes = {}, bool keepdim = false) const;
  Tensor amax(const Dims& axes = {}, bool keepdim = false) const;
  Tensor amin(const Dims& axes = {}, bool keepdim = false) const;
  Tensor max() const, min() const;
  std::pair<Tensor, Tensor> max(std::int64_t axis, bool keepdim = false) const;
  std::pair<Tensor, Tensor> min(std::int64_t axis, bool keepdim = false) const;
  Tensor any(const Dims& axes = {}, bool keepdim = false) const;
  Tensor all(const Dims& axes = {}, bool keepdim = false) const;
  Tensor argmax() const, argmin() const;
  Tensor argmax(std::int64_t axis, bool keepdim = false) const, argmin(std::int64_t axis, bool keepdim = false) const;
  Tensor softmax(std::int64_t axis) const, log_softmax(std::int64_t axis) const, cumsum(std::int64_t axis) const;

  // ---- Parts, places and products. [differentiable, but for nonzero] As the functions of these names
  // (ops/view/view.h, ops/roll/roll.h, ops/index/index.h, ops/matmul/matmul.h).

  std::vector<Tensor> split(std::int64_t split_size, std::int64_t axis = 0) const;
  std::vector<Tensor> split(const std::vector<std::int64_t>& split_sizes, std::int64_t axis = 0) const;
  std::vector<Tensor> chunk(std::int64_t chunks, std::int64_t axis = 0) const;
  std::vector<Tensor> unbind(std::int64_t axis = 0) const;
  Tensor repeat(const Dims&repeats) const, flip(const Dims&axes) const;
  template <std::integral... Rest>
  requires(sizeof...(Rest) > 0) Tensor repeat(std::int64_t first, Rest... rest)
  const { return repeat(Dims{first, static_cast<std::int64_t>(rest)...}); }
  Tensor movedim(const Dims& source, const Dims& destination) const;
  Tensor roll(std::int64_t shift, std::int64_t axis) const;
  Tensor unflatten(std::int64_t axis, const Shape& sizes) const;
  /// x.index({0, Slice(1, {}, 2), kEllipsis, mask}), like x[0, 1::2, ..., mask] in Python.
  Tensor index(const std::vector<Index>& indices) const;
  Tensor index_select(std::int64_t axis, const Tensor& index) const;
  Tensor gather(std::int64_t axis, const Tensor& index) const;
  Tensor scatter(std::int64_t axis, const Tensor& index, const Tensor& src) const;
  Tensor scatter(std::int64_t axis, const Tensor& index, double value) const;
  Tensor scatter_add(std::int64_t axis, const Tensor& index, const Tensor& src) const;
  Tensor masked_select(const Tensor&mask) const, nonzero() const;
  Tensor matmul(const Tensor& other) const;
  // As the functions of these names in ops/functions.h.
  Tensor take(const Tensor&index) const, tile(const Dims&repeats) const, count_nonzero(const Dims&axes = {}) const;
  Tensor mm(const Tensor&other) const, mv(const Tensor&vector) const, dot(const Tensor&other) const;
  Tensor addmm(const Tensor& a, const Tensor& b, double beta = 1.0, double alpha = 1.0) const;

  // ---- Functions of elements. [differentiable, unless the result is bool] As the functions of these names
  // (ops/elementwise/elementwise.h), and the operators below: x.add(y), x.eq(0).

  /// This tensor + scale * other.
  Tensor add(const Tensor&other, const Scalar&scale = 1) const, add(const Scalar&other) const;
  Tensor sub(const Tensor&other, const Scalar&scale = 1) const, sub(const Scalar&other) const;
  Tensor mul(const Tensor&other) const, mul(const Scalar&other) const;
  Tensor div(const Tensor&other) const, div(const Scalar&other) const;
  Tensor eq(const Tensor&other) const, eq(const Scalar&other) const, ne(const Tensor&other) const,
      ne(const Scalar&other) const, lt(const Tensor&other) const, lt(const Scalar&other) const,
      le(const Tensor&other) const, le(const Scalar&other) const, gt(const Tensor&other) const,
      gt(const Scalar&other) const, ge(const Tensor&other) const, ge(const Scalar&other) const;

#define ADJOINT_MEMBER(Functor, function) Tensor function() const;
  ADJOINT_UNARY_MATH_FUNCTIONS(ADJOINT_MEMBER)
  ADJOINT_STEP_FUNCTIONS(ADJOINT_MEMBER)
#undef ADJOINT_MEMBER
  Tensor neg() const, tanh() const;
  Tensor gelu() const, gelu_tanh() const, hardsigmoid() const, hardswish() const, logsigmoid() const, mish() const,
      relu() const, relu6() const, selu() const, sigmoid() const, silu() const, softsign() const;
  Tensor elu(double alpha = 1.0) const, glu(std::int64_t axis = -1) const, leaky_relu(double slope = 0.01) const,
      hardtanh(double min_val = -1.0, double max_val = 1.0) const,
      softplus(double beta = 1.0, double threshold = 20.0) const, prelu(const Tensor&weight) const;
  Tensor exp2() const, frac() const, log10() const;
  Tensor isfinite() const, isinf() const, isnan() const, logical_not() const;
  Tensor logical_and(const Tensor&other) const, logical_or(const Tensor&other) const,
      logical_xor(const Tensor&other) const;
  Tensor clamp(const Scalar&low, const Scalar&high) const, clamp_min(const Scalar&low) const,
      clamp_max(const Scalar&high) const;
  Tensor clip(const Scalar& low, const Scalar& high) const { return clamp(low, high); }
  Tensor addcmul(const Tensor&a, const Tensor&b, double scale = 1.0) const,
      addcdiv(const Tensor&a, const Tensor&b, double scale = 1.0) const;
  Tensor pow(const Scalar&exponent) const, pow(const Tensor&exponent) const;
  Tensor atan2(const Tensor&x) const, maximum(const Tensor&other) const, minimum(const Tensor&other) const;
  Tensor fmod(const Tensor&other) const, fmod(const Scalar&other) const;
  Tensor remainder(const Tensor&other) const, remainder(const Scalar&other) const;
  Tensor lerp(const Tensor&end, const Tensor&weight) const, lerp(const Tensor&end, double weight) const;
  Tensor nan_to_num(double nan = 0.0, std::optional<double> posinf = {}, std::optional<double> neginf = {}) const;
  /// This tensor's elements where `condition` holds, else other's.
  Tensor where(const Tensor&condition, const Tensor&other) const,
      where(const Tensor&condition, const Scalar&other) const;
  Tensor masked_fill(const Tensor& mask, double value) const;

  // ---- In place. Never recorded: throw Error on a recorded tensor or a view of one, and, while a tape records, on a
  // leaf that requires a gradient and for an operand whose gradient would be lost. x = x + y is recorded.

  /// Throws Error if the dtype cannot hold the value, as full() does.
  Tensor& fill_(double value);
  Tensor& zero_();
  /// Copies `source`'s elements, broadcast, converted as to(DType) does and moved between devices as needed.
  Tensor& copy_(const Tensor& source);
  /// This tensor + scale * other, rounded once. Operands of the four broadcast to this tensor's shape and are converted
  /// to its dtype. They throw Error for an operand of a higher kind, such as a float32 one for an int64 tensor, and for
  /// another floating-point dtype. A scalar is rounded to the tensor's dtype, which must hold it as in full().
  Tensor& add_(const Tensor& other, double scale = 1.0);
  Tensor& sub_(const Tensor& other, double scale = 1.0);
  Tensor& mul_(const Tensor& factor);
  Tensor& div_(const Tensor& divisor);
  Tensor& add_(double term);
  Tensor& sub_(double term);
  Tensor& mul_(double factor);
  Tensor& div_(double divisor);
  Tensor& operator+=(const Tensor& other) { return add_(other); }
  Tensor& operator-=(const Tensor& other) { return sub_(other); }
  Tensor& operator*=(const Tensor& other) { return mul_(other); }
  Tensor& operator/=(const Tensor& other) { return div_(other); }
  Tensor& operator+=(double other) { return add_(other); }
  Tensor& operator-=(double other) { return sub_(other); }
  Tensor& operator*=(double other) { return mul_(other); }
  Tensor& operator/=(double other) { return div_(other); }
  /// The functions without `_`, with the result written to this tensor.
  Tensor& clamp_(const Scalar& low, const Scalar& high);
  Tensor& clamp_min_(const Scalar& low);
  Tensor& clamp_max_(const Scalar& high);
  Tensor& lerp_(const Tensor& end, const Tensor& weight);
  Tensor& lerp_(const Tensor& end, double weight);
  /// This tensor + scale * a * b, and + scale * a / b, rounded once.
  Tensor& addcmul_(const Tensor& a, const Tensor& b, double scale = 1.0);
  Tensor& addcdiv_(const Tensor& a, const Tensor& b, double scale = 1.0);
  Tensor &abs_(), &ceil_(), &cos_(), &exp_(), &floor_(), &log_(), &neg_(), &reciprocal_(), &relu_(), &round_(),
      &rsqrt_(), &sigmoid_(), &sign_(), &sin_(), &sqrt_(), &square_(), &tanh_(), &trunc_();
  Tensor &pow_(const Scalar&exponent), &masked_fill_(const Tensor&mask, double value);
  Tensor& scatter_(std::int64_t axis, const Tensor& index, const Tensor& src);
  Tensor& scatter_(std::int64_t axis, const Tensor& index, double value);
  Tensor& scatter_add_(std::int64_t axis, const Tensor& index, const Tensor& src);
  Tensor& index_fill_(std::int64_t axis, const Tensor& index, double value);
  // Numbers from the global generator: uniform on [low, high), normal, 1 with probability p and else 0, integers of
  // [low, high), and exponential ones, -log(1 - u) / rate. Floating point only, but for bernoulli_ and random_.
  Tensor& uniform_(double low = 0.0, double high = 1.0);
  Tensor& normal_(double mean = 0.0, double standard_deviation = 1.0);
  Tensor &bernoulli_(double p = 0.5), &random_(std::int64_t low, std::int64_t high), &exponential_(double rate = 1.0);

  // ---- For operators and the tape.

  explicit Tensor(std::shared_ptr<TensorImpl> impl) : impl_(std::move(impl)) {}
  TensorImpl* impl() const { return impl_.get(); }
  const std::shared_ptr<TensorImpl>& impl_ptr() const { return impl_; }
  /// A view of the same storage; the caller must ensure that the extents stay inside it. Not recorded.
  Tensor view_as(const Shape& shape, const Strides& strides, std::int64_t offset) const;

 private:
  std::shared_ptr<TensorImpl> impl_;
};

/// They have x's shape, and by default its dtype and device.
ADJOINT_API Tensor zeros_like(const Tensor& x, const LikeOptions& options = {});
ADJOINT_API Tensor ones_like(const Tensor& x, const LikeOptions& options = {});
ADJOINT_API Tensor full_like(const Tensor& x, const Scalar& value, const LikeOptions& options = {});
ADJOINT_API Tensor empty_like(const Tensor& x, const LikeOptions& options = {});
ADJOINT_API Tensor rand_like(const Tensor& x, const LikeOptions& options = {});
ADJOINT_API Tensor randn_like(const Tensor& x, const LikeOptions& options = {});

// ---- Operators. [differentiable] Tensors broadcast. Operands of several dtypes are converted to PyTorch's common one:
// integers to the dtype of a floating-point operand, bool to an integer. Quotients of integers are float32; two
// floating-point dtypes throw Error. A scalar is rounded to the tensor's dtype, which must hold it as in full(), once:
// x < 0.3 is x < Tensor::full({}, 0.3, x.options()). A scalar of a higher kind converts the tensor instead: an integer
// tensor times 0.5 is float32. Comparisons with a scalar are exact.

ADJOINT_API Tensor operator+(const Tensor& a, const Tensor& b);
ADJOINT_API Tensor operator-(const Tensor& a, const Tensor& b);
ADJOINT_API Tensor operator*(const Tensor& a, const Tensor& b);
ADJOINT_API Tensor operator/(const Tensor& a, const Tensor& b);
ADJOINT_API Tensor operator+(const Tensor& a, const Scalar& b);
ADJOINT_API Tensor operator-(const Tensor& a, const Scalar& b);
ADJOINT_API Tensor operator*(const Tensor& a, const Scalar& b);
ADJOINT_API Tensor operator/(const Tensor& a, const Scalar& b);
ADJOINT_API Tensor operator+(const Scalar& a, const Tensor& b);
ADJOINT_API Tensor operator-(const Scalar& a, const Tensor& b);
ADJOINT_API Tensor operator*(const Scalar& a, const Tensor& b);
ADJOINT_API Tensor operator/(const Scalar& a, const Tensor& b);
ADJOINT_API Tensor operator-(const Tensor& a);

// Comparisons return a bool tensor and have no gradient.
ADJOINT_API Tensor operator==(const Tensor& a, const Tensor& b);
ADJOINT_API Tensor operator!=(const Tensor& a, const Tensor& b);
ADJOINT_API Tensor operator<(const Tensor& a, const Tensor& b);
ADJOINT_API Tensor operator<=(const Tensor& a, const Tensor& b);
ADJOINT_API Tensor operator>(const Tensor& a, const Tensor& b);
ADJOINT_API Tensor operator>=(const Tensor& a, const Tensor& b);
ADJOINT_API Tensor operator==(const Tensor& a, const Scalar& b);
ADJOINT_API Tensor operator!=(const Tensor& a, const Scalar& b);
ADJOINT_API Tensor operator<(const Tensor& a, const Scalar& b);
ADJOINT_API Tensor operator<=(const Tensor& a, const Scalar& b);
ADJOINT_API Tensor operator>(const Tensor& a, const Scalar& b);
ADJOINT_API Tensor operator>=(const Tensor& a, const Scalar& b);

/// Prints like PyTorch: aligned columns, four decimals, long axes summarised, dtype and device if not the default.
ADJOINT_API std::ostream& operator<<(std::ostream& out, const Tensor& tensor);
ADJOINT_API std::string to_string(const Tensor& tensor);

}  // namespace adjoint
