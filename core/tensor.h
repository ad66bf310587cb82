// Tensor: a value-like handle on shared storage with a shape, strides, a dtype and a device.
//
// Copying a Tensor copies the handle; clone() copies the elements. Views (reshape, permute, narrow, ...) share storage.
// Members marked [differentiable] are recorded by the innermost live Tape of the thread; they are declared here and
// defined in ops/.
#pragma once

#include <adjoint/core/device.h>
#include <adjoint/core/dtype.h>
#include <adjoint/core/export.h>
#include <adjoint/core/shape.h>

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
struct TensorImpl;

struct TensorOptions {
  DType dtype = kFloat32;
  Device device = kCPU;
  bool requires_grad = false;
};

/// Sees a gradient as it passes; returns its replacement, or an undefined Tensor to leave it as it is. Other tensors
/// may share the gradient: changing it in place throws Error until the sweep is done.
using GradientHook = std::function<Tensor(const Tensor& gradient)>;

class ADJOINT_API Tensor {
 public:
  /// Undefined: 'none', such as no bias. Every other member but defined() throws Error on it.
  Tensor() = default;

  // ---- Making tensors. Every one throws Error for a negative extent or a size beyond 63 bits, and OutOfMemoryError.

  /// Uninitialised.
  static Tensor empty(const Shape& shape, const TensorOptions& options = {});
  static Tensor zeros(const Shape& shape, const TensorOptions& options = {});
  static Tensor ones(const Shape& shape, const TensorOptions& options = {});
  /// Every element is `value`, rounded to the dtype. Throws Error where the dtype cannot hold it: an integer dtype
  /// exactly, bool 0 or 1, a floating-point dtype anything but a finite number that would become infinite.
  static Tensor full(const Shape& shape, double value, const TensorOptions& options = {});
  /// Uniform on [0, 1), from the global generator (manual_seed); the same bits on every device. Floating point only.
  static Tensor rand(const Shape& shape, const TensorOptions& options = {});
  /// Standard normal (Box-Muller), from the global generator; equal within 4 ulp on every device. Floating point only.
  static Tensor randn(const Shape& shape, const TensorOptions& options = {});
  /// start, start + step, ... below `end` (above it where step is negative): float64s, rounded to the dtype. Throws
  /// Error where step is 0, and where the dtype cannot hold an element, as full() does.
  static Tensor arange(double start, double end, double step = 1.0, const TensorOptions& options = {});
  /// arange(0, end).
  static Tensor arange(double end, const TensorOptions& options = {}) { return arange(0.0, end, 1.0, options); }
  /// The (n, n) identity.
  static Tensor eye(std::int64_t n, const TensorOptions& options = {});
  /// A copy of `values` in options.dtype. Throws Error unless values.size() == shape.numel(), and where the dtype
  /// cannot hold a value, as full() does; what to(dtype) makes of it is another matter.
  template <class T>
  static Tensor from_vector(const std::vector<T>& values, const Shape& shape, const TensorOptions& options = {});
  /// from_vector({1.f, 2.f}, {2}).
  template <class T, std::size_t kCount>
  static Tensor from_vector(const T (&values)[kCount], const Shape& shape, const TensorOptions& options = {}) {
    return from_vector(std::vector<T>(values, values + kCount), shape, options);
  }
  /// A scalar tensor (shape ()).
  static Tensor scalar(double value, const TensorOptions& options = {});
  /// Views memory of the caller's, contiguous and on options.device; it must outlive every view of it.
  static Tensor from_blob(void* data, const Shape& shape, const TensorOptions& options = {});

  // ---- What a tensor is.

  bool defined() const { return impl_ != nullptr; }
  const Shape& shape() const;
  const Strides& strides() const;
  std::int64_t storage_offset() const;
  DType dtype() const;
  Device device() const;
  std::int64_t dim() const;
  /// The extent of one axis; -1 is the last.
  std::int64_t size(std::int64_t axis) const;
  std::int64_t numel() const;
  /// numel() times the bytes of an element.
  std::size_t nbytes() const;
  bool is_contiguous() const;
  TensorOptions options() const;

  // ---- Elements.

  /// The first element, on the tensor's own device. Throws Error where T is not the dtype's C++ type.
  template <class T>
  const T* data() const;
  /// As data(), for writing: the storage's version moves on, so a gradient that needed the old values is an error.
  template <class T>
  T* mutable_data();
  /// data() without a type.
  const void* raw_data() const;
  /// mutable_data() without a type.
  void* raw_mutable_data();
  /// The only element as a T; waits for the device. Throws Error unless numel() == 1, and where T cannot hold the
  /// element, as full() does: item<int>() of 2.5 or NaN is an error.
  template <class T>
  T item() const;
  /// Every element in row-major order, converted to T as to(DType) converts; waits for the device.
  template <class T>
  std::vector<T> to_vector() const;

  // ---- Copies and moves. [differentiable, but for detach]

  Tensor to(Device device) const;
  /// On every device alike. To bool: false where the element equals 0, else true, for NaN too. To a floating-point
  /// dtype: rounded once; what is too large becomes infinity. From a floating-point dtype to an integer one: cut
  /// towards 0; beyond the range, the end that is nearer; NaN becomes 0. From an integer dtype to a narrower one:
  /// modulo 2^bits.
  Tensor to(DType dtype) const;
  /// A contiguous copy.
  Tensor clone() const;
  /// This tensor where it is contiguous already, else a contiguous copy.
  Tensor contiguous() const;
  /// The same elements outside every tape.
  Tensor detach() const;

  // ---- Differentiation.

  /// True for a leaf that was told to, and for a result that a tape recorded.
  bool requires_grad() const;
  /// Marks a leaf. Throws Error for a dtype that is not floating point and for a recorded tensor.
  Tensor& requires_grad_(bool value = true);
  /// What backward() has added up so far; undefined before the first. Leaves only. A handle: x.grad().mul_(0.5) scales
  /// the gradient itself.
  Tensor grad() const;
  void set_grad(const Tensor& gradient);
  /// Runs in each sweep once this tensor's whole gradient is known. A recorded tensor's hook lives as long as its tape.
  /// Returns an id for remove_hook. Throws Error for an empty hook, for a tensor that requires no gradient, and for one
  /// whose tape is gone or another thread's.
  std::uint64_t register_hook(GradientHook hook) const;
  void remove_hook(std::uint64_t id) const;

  // ---- Views. [differentiable] Axes may be negative, counted from the end.

  /// One extent may be -1. A view where strides allow, else a copy.
  Tensor reshape(const Shape& shape) const;
  /// reshape() that never copies. Throws Error where strides do not allow a view.
  Tensor view(const Shape& shape) const;
  Tensor flatten(std::int64_t first_axis = 0, std::int64_t last_axis = -1) const;
  Tensor permute(const Dims& axes) const;
  Tensor transpose(std::int64_t a, std::int64_t b) const;
  /// The transpose of a matrix; a vector or scalar as it is. Throws Error for more axes.
  Tensor t() const;
  Tensor narrow(std::int64_t axis, std::int64_t start, std::int64_t length) const;
  Tensor select(std::int64_t axis, std::int64_t index) const;
  /// select(0, index): x[1][2] is one element as a tensor.
  Tensor operator[](std::int64_t index) const { return select(0, index); }
  Tensor squeeze() const;
  Tensor squeeze(std::int64_t axis) const;
  Tensor unsqueeze(std::int64_t axis) const;
  /// Repeats axes of extent 1 without copying; new axes come first; -1 keeps an extent.
  Tensor expand(const Shape& shape) const;

  // ---- Reductions. [differentiable] An empty list of axes means all of them.

  Tensor sum() const;
  Tensor sum(const Dims& axes, bool keepdim = false) const;
  Tensor mean() const;
  Tensor mean(const Dims& axes, bool keepdim = false) const;
  // As the functions of these names (ops/reduce/reduce.h, ops/softmax, ops/scan).
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
  Tensor movedim(const Dims& source, const Dims& destination) const;
  Tensor roll(std::int64_t shift, std::int64_t axis) const;
  Tensor unflatten(std::int64_t axis, const Shape& sizes) const;
  /// x.index({0, Slice(1, {}, 2), kEllipsis, mask}), as x[0, 1::2, ..., mask] in Python.
  Tensor index(const std::vector<Index>& indices) const;
  Tensor index_select(std::int64_t axis, const Tensor& index) const;
  Tensor gather(std::int64_t axis, const Tensor& index) const;
  Tensor scatter(std::int64_t axis, const Tensor& index, const Tensor& src) const;
  Tensor scatter(std::int64_t axis, const Tensor& index, double value) const;
  Tensor scatter_add(std::int64_t axis, const Tensor& index, const Tensor& src) const;
  Tensor masked_select(const Tensor&mask) const, nonzero() const;
  Tensor matmul(const Tensor& other) const;

  // ---- Functions of elements. [differentiable, but for what is bool] As the functions of these names
  // (ops/elementwise/elementwise.h).

  Tensor abs() const, acos() const, asin() const, atan() const, ceil() const, cos() const, cosh() const, erf() const,
      exp() const, expm1() const, floor() const, log() const, log1p() const, log2() const, neg() const,
      reciprocal() const, round() const, rsqrt() const, sign() const, sin() const, sinh() const, sqrt() const,
      square() const, tan() const, tanh() const, trunc() const;
  Tensor gelu() const, gelu_tanh() const, hardsigmoid() const, hardswish() const, logsigmoid() const, mish() const,
      relu() const, relu6() const, selu() const, sigmoid() const, silu() const, softsign() const;
  Tensor elu(double alpha = 1.0) const, glu(std::int64_t axis = -1) const, leaky_relu(double slope = 0.01) const,
      hardtanh(double min_val = -1.0, double max_val = 1.0) const,
      softplus(double beta = 1.0, double threshold = 20.0) const, prelu(const Tensor&weight) const;
  Tensor isfinite() const, isinf() const, isnan() const, logical_not() const;
  Tensor logical_and(const Tensor&other) const, logical_or(const Tensor&other) const,
      logical_xor(const Tensor&other) const;
  Tensor clamp(double low, double high) const, clamp_min(double low) const, clamp_max(double high) const;
  Tensor pow(double exponent) const, pow(const Tensor&exponent) const;
  Tensor atan2(const Tensor&x) const, maximum(const Tensor&other) const, minimum(const Tensor&other) const;
  Tensor fmod(const Tensor&other) const, fmod(double other) const;
  Tensor remainder(const Tensor&other) const, remainder(double other) const;
  Tensor lerp(const Tensor&end, const Tensor&weight) const, lerp(const Tensor&end, double weight) const;
  Tensor nan_to_num(double nan = 0.0, std::optional<double> posinf = {}, std::optional<double> neginf = {}) const;
  /// This tensor's elements where `condition` holds, else other's.
  Tensor where(const Tensor&condition, const Tensor&other) const, where(const Tensor&condition, double other) const;
  Tensor masked_fill(const Tensor& mask, double value) const;

  // ---- In place. Never recorded: throw Error on a recorded tensor, a view of one, or, while a tape records, a leaf
  // that requires a gradient.

  /// Throws Error where the dtype cannot hold the value, as full() does.
  Tensor& fill_(double value);
  Tensor& zero_();
  /// Copies `source`'s elements, broadcast, converted as to(DType) does and moved between devices as needed.
  Tensor& copy_(const Tensor& source);
  /// This tensor + scale * other, rounded once. Operands of the four broadcast to this tensor's shape and have its
  /// dtype; a scalar is rounded to it, as by the operators below.
  Tensor& add_(const Tensor& other, double scale = 1.0);
  Tensor& sub_(const Tensor& other, double scale = 1.0) { return add_(other, -scale); }
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
  Tensor& uniform_(double low, double high);
  Tensor& normal_(double mean, double standard_deviation);

  // ---- For operators and the tape.

  explicit Tensor(std::shared_ptr<TensorImpl> impl) : impl_(std::move(impl)) {}
  TensorImpl* impl() const { return impl_.get(); }
  const std::shared_ptr<TensorImpl>& impl_ptr() const { return impl_; }
  /// A view of the same storage; the caller answers for the extents staying inside it. Not recorded.
  Tensor view_as(const Shape& shape, const Strides& strides, std::int64_t offset) const;

 private:
  std::shared_ptr<TensorImpl> impl_;
};

/// Of x's shape, dtype and device.
ADJOINT_API Tensor zeros_like(const Tensor& x);
ADJOINT_API Tensor ones_like(const Tensor& x);
ADJOINT_API Tensor full_like(const Tensor& x, double value);
ADJOINT_API Tensor empty_like(const Tensor& x);
ADJOINT_API Tensor rand_like(const Tensor& x);
ADJOINT_API Tensor randn_like(const Tensor& x);

// ---- Operators. [differentiable] Tensors broadcast; a scalar is rounded to the tensor's dtype, which must hold it as
// in full(), once: x < 0.3 is x < Tensor::full({}, 0.3, x.options()).

ADJOINT_API Tensor operator+(const Tensor& a, const Tensor& b);
ADJOINT_API Tensor operator-(const Tensor& a, const Tensor& b);
ADJOINT_API Tensor operator*(const Tensor& a, const Tensor& b);
ADJOINT_API Tensor operator/(const Tensor& a, const Tensor& b);
ADJOINT_API Tensor operator+(const Tensor& a, double b);
ADJOINT_API Tensor operator-(const Tensor& a, double b);
ADJOINT_API Tensor operator*(const Tensor& a, double b);
ADJOINT_API Tensor operator/(const Tensor& a, double b);
ADJOINT_API Tensor operator+(double a, const Tensor& b);
ADJOINT_API Tensor operator-(double a, const Tensor& b);
ADJOINT_API Tensor operator*(double a, const Tensor& b);
ADJOINT_API Tensor operator/(double a, const Tensor& b);
ADJOINT_API Tensor operator-(const Tensor& a);

// Comparisons give a bool tensor and have no gradient.
ADJOINT_API Tensor operator==(const Tensor& a, const Tensor& b);
ADJOINT_API Tensor operator!=(const Tensor& a, const Tensor& b);
ADJOINT_API Tensor operator<(const Tensor& a, const Tensor& b);
ADJOINT_API Tensor operator<=(const Tensor& a, const Tensor& b);
ADJOINT_API Tensor operator>(const Tensor& a, const Tensor& b);
ADJOINT_API Tensor operator>=(const Tensor& a, const Tensor& b);
ADJOINT_API Tensor operator==(const Tensor& a, double b);
ADJOINT_API Tensor operator!=(const Tensor& a, double b);
ADJOINT_API Tensor operator<(const Tensor& a, double b);
ADJOINT_API Tensor operator<=(const Tensor& a, double b);
ADJOINT_API Tensor operator>(const Tensor& a, double b);
ADJOINT_API Tensor operator>=(const Tensor& a, double b);

/// Prints like PyTorch: aligned columns, four decimals, long axes summarised, dtype and device where not the default.
ADJOINT_API std::ostream& operator<<(std::ostream& out, const Tensor& tensor);
ADJOINT_API std::string to_string(const Tensor& tensor);

}  // namespace adjoint
