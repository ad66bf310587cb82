// Tensors of constants, of random numbers, and tensors like others.
#include <adjoint/core/tensor/factories.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/convert.h>
#include <adjoint/core/tensor/fill.h>
#include <adjoint/core/tensor/promote.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/core/tensor/tensor_impl.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace adjoint {
namespace {

// `options` with a dtype: its own, or `dtype` if it has no dtype.
TensorOptions named(const TensorOptions& options, DType dtype) {
  TensorOptions all = options;
  all.dtype = options.dtype.value_or(dtype);
  return all;
}

void check_real(const char* op, const TensorOptions& options) {
  const DType dtype = options.dtype.value_or(kFloat32);
  ADJOINT_CHECK(is_floating_point(dtype), "{}: the dtype must be floating point; got {}; use randint for integers", op,
                dtype);
}

}  // namespace

Tensor Tensor::empty(const Shape& shape, const TensorOptions& options) {
  const OpScope scope("empty");
  Tensor tensor = make_tensor({shape, options.dtype.value_or(kFloat32), {}, options.memory_format}, options.device);
  if (options.requires_grad) tensor.requires_grad_();
  return tensor;
}

Tensor Tensor::full(const Shape& shape, const Scalar& value, const TensorOptions& options) {
  const OpScope scope("full");
  const TensorOptions as = named(options, value.dtype());
  if (as.dtype == kInt64 && !value.is_floating_point()) {
    const auto integer = value.to<std::int64_t>();
    if (integer > kExactIntegers || integer < -kExactIntegers) {  // fill() cannot represent it
      Tensor tensor = empty(shape, {.dtype = kInt64, .device = options.device});
      tensor.copy_(from_vector(std::vector<std::int64_t>{integer}, {}));
      return tensor.requires_grad_(options.requires_grad);
    }
  }
  const double fitting = fit_scalar("full", value, *as.dtype, shape);
  Tensor tensor = empty(shape, as);
  fill(tensor, fitting);
  return tensor;
}

Tensor Tensor::zeros(const Shape& shape, const TensorOptions& options) {
  const OpScope scope("zeros");
  return full(shape, 0.0, named(options, kFloat32));
}

Tensor Tensor::ones(const Shape& shape, const TensorOptions& options) {
  const OpScope scope("ones");
  return full(shape, 1.0, named(options, kFloat32));
}

Tensor Tensor::scalar(const Scalar& value, const TensorOptions& options) {
  const OpScope scope("scalar");
  return full(Shape{}, value, options);
}

Tensor Tensor::rand(const Shape& shape, const TensorOptions& options) {
  const OpScope scope("rand");
  check_real("rand", options);
  Tensor tensor = empty(shape, options);
  draw_uniform(tensor, 0.0, 1.0, default_generator());
  return tensor;
}

Tensor Tensor::randn(const Shape& shape, const TensorOptions& options) {
  const OpScope scope("randn");
  check_real("randn", options);
  Tensor tensor = empty(shape, options);
  draw_normal(tensor, 0.0, 1.0, default_generator());
  return tensor;
}

Tensor Tensor::arange(const Scalar& from, const Scalar& to, const Scalar& by, const TensorOptions& options) {
  const OpScope scope("arange");
  const double start = from, end = to, step = by;
  ADJOINT_CHECK(step != 0.0 && std::isfinite(start) && std::isfinite(end) && std::isfinite(step),
                "arange: start, end and step must be finite and step not 0; got {}, {}, {}", start, end, step);
  const double count = std::max(0.0, std::ceil((end - start) / step));
  ADJOINT_CHECK(count < 0x1p62, "arange: the number of elements must fit in 63 bits; got {}, {}, {}", start, end, step);
  const Shape shape{static_cast<std::int64_t>(count)};
  const bool real = from.is_floating_point() || to.is_floating_point() || by.is_floating_point();
  const TensorOptions as = named(options, real ? kFloat32 : kInt64);
  // If the ends and one step are whole and in range, so is everything between.
  for (const double i : {0.0, 1.0, count - 1.0}) {
    if (i >= 0.0 && i < count) fit_scalar("arange", std::fma(i, step, start), *as.dtype, shape);
  }
  Tensor tensor = empty(shape, as);
  fill_arange(tensor, start, step);
  return tensor;
}

Tensor Tensor::eye(std::int64_t n, const TensorOptions& options) {
  const OpScope scope("eye");
  Tensor tensor = zeros({n, n}, options);
  if (n > 0) {
    Tensor diagonal = tensor.view_as({n}, {n + 1}, 0);
    fill(diagonal, 1.0);
  }
  return tensor;
}

Values::Values(std::initializer_list<Values> parts) : shape_{static_cast<std::int64_t>(parts.size())} {
  for (const Values& part : parts) {
    const Shape& first = parts.begin()->shape_;
    ADJOINT_CHECK(part.shape_ == first, "tensor: the parts of a list must have one shape; got {} and {}", first,
                  part.shape_);
    scalars_.insert(scalars_.end(), part.scalars_.begin(), part.scalars_.end());
  }
  if (parts.size() > 0) {
    for (const std::int64_t extent : parts.begin()->shape_) shape_.push_back(extent);
  }
}

Tensor tensor(const Values& values, const TensorOptions& options) {
  const OpScope scope("tensor");
  const std::vector<Scalar>& all = values.scalars_;
  const bool real =
      all.empty() || std::any_of(all.begin(), all.end(), [](const Scalar& s) { return s.is_floating_point(); });
  const bool truths = std::all_of(all.begin(), all.end(), [](const Scalar& s) { return s.is_bool(); });
  const TensorOptions as = named(options, real ? kFloat32 : truths ? kBool : kInt64);
  if (!real) {
    std::vector<std::int64_t> integers;
    for (const Scalar& s : all) integers.push_back(s.to<std::int64_t>());
    return Tensor::from_vector(integers, values.shape_, as);
  }
  return Tensor::from_vector(std::vector<double>(all.begin(), all.end()), values.shape_, as);
}

Tensor linspace(double start, double end, std::int64_t steps, const TensorOptions& options) {
  const OpScope scope("linspace");
  ADJOINT_CHECK(steps >= 0 && std::isfinite(end - start),
                "linspace: steps must not be negative, and the ends and their distance must be finite; got {} steps "
                "from {} to {}",
                steps, start, end);
  const Shape shape{steps};
  const DType dtype = options.dtype.value_or(kFloat32);
  for (const double value : {start, end}) fit_scalar("linspace", value, dtype, shape);
  const double step = steps > 1 ? (end - start) / static_cast<double>(steps - 1) : 0.0;
  if (steps > 2) fit_scalar("linspace", start + step, dtype, shape);
  Tensor tensor = Tensor::empty(shape, options);
  fill_arange(tensor, start, step);
  if (steps > 1) {  // exact, independent of the earlier steps' sum
    Tensor last = tensor.view_as({1}, {1}, steps - 1);
    fill(last, end);
  }
  return tensor;
}

namespace {

void check_holds(const char* op, std::int64_t value, DType dtype) {
  const bool held = dtype != kBool && visit(dtype, [value]<class T>() { return holds<T>(value); });
  ADJOINT_CHECK(held, "{}: the dtype must be numeric and hold every element; got {} for {}", op, dtype, value);
}

}  // namespace

Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, const TensorOptions& options) {
  const OpScope scope("randint");
  const TensorOptions as = named(options, kInt64);
  ADJOINT_CHECK(low < high, "randint: low must be below high; got {} and {} for shape {}", low, high, shape);
  check_holds("randint", low, *as.dtype);
  check_holds("randint", high - 1, *as.dtype);
  Tensor tensor = Tensor::empty(shape, as);
  draw_integers(tensor, low, high, default_generator());
  return tensor;
}

Tensor randint(std::int64_t high, const Shape& shape, const TensorOptions& options) {
  return randint(0, high, shape, options);
}

Tensor randperm(std::int64_t n, const TensorOptions& options) {
  const OpScope scope("randperm");
  const DType dtype = options.dtype.value_or(kInt64);
  ADJOINT_CHECK(n >= 0, "randperm: n must not be negative; got {}", n);
  check_holds("randperm", std::max<std::int64_t>(n - 1, 0), dtype);
  Tensor numbers = Tensor::arange(n);
  auto* const data = numbers.mutable_data<std::int64_t>();
  Generator& generator = default_generator();
  for (std::int64_t i = n - 1; i > 0; --i) {
    std::swap(data[i], data[static_cast<std::int64_t>(generator.below(static_cast<std::uint64_t>(i) + 1))]);
  }
  Tensor result = numbers.to(dtype).to(options.device);
  if (options.requires_grad) result.requires_grad_();
  return result;
}

namespace {

TensorOptions like(const char* op, const Tensor& x, const LikeOptions& options, MemoryFormat format) {
  check_defined(op, "x", x);
  return {.dtype = options.dtype.value_or(x.dtype()),
          .device = options.device.value_or(x.device()),
          .requires_grad = options.requires_grad,
          .memory_format = options.memory_format.value_or(format)};
}

}  // namespace

// A factory checks the rest.
#define ADJOINT_LIKE(name, ...)                                                                              \
  const OpScope scope(#name "_like");                                                                        \
  const TensorOptions made = like(#name "_like", x, options, x.defined() ? x.memory_format() : kContiguous); \
  return Tensor::name(x.shape(), __VA_ARGS__ made)

Tensor zeros_like(const Tensor& x, const LikeOptions& options) { ADJOINT_LIKE(zeros, ); }
Tensor ones_like(const Tensor& x, const LikeOptions& options) { ADJOINT_LIKE(ones, ); }
Tensor empty_like(const Tensor& x, const LikeOptions& options) { ADJOINT_LIKE(empty, ); }
Tensor rand_like(const Tensor& x, const LikeOptions& options) { ADJOINT_LIKE(rand, ); }
Tensor randn_like(const Tensor& x, const LikeOptions& options) { ADJOINT_LIKE(randn, ); }
Tensor full_like(const Tensor& x, const Scalar& value, const LikeOptions& options) { ADJOINT_LIKE(full, value, ); }
#undef ADJOINT_LIKE

#define ADJOINT_NEW(name, ...)                                                \
  const OpScope scope("new_" #name);                                          \
  const TensorOptions made = like("new_" #name, *this, options, kContiguous); \
  return Tensor::name(shape, __VA_ARGS__ made)

Tensor Tensor::new_zeros(const Shape& shape, const LikeOptions& options) const { ADJOINT_NEW(zeros, ); }
Tensor Tensor::new_ones(const Shape& shape, const LikeOptions& options) const { ADJOINT_NEW(ones, ); }
Tensor Tensor::new_empty(const Shape& shape, const LikeOptions& options) const { ADJOINT_NEW(empty, ); }
Tensor Tensor::new_full(const Shape& shape, const Scalar& value, const LikeOptions& options) const {
  ADJOINT_NEW(full, value, );
}
#undef ADJOINT_NEW

}  // namespace adjoint
