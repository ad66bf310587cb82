#include <adjoint/core/tensor/fill.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/graph/step_capture.h>
#include <adjoint/core/tensor/convert.h>
#include <adjoint/core/tensor/copy.h>
#include <adjoint/core/tensor/philox.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/core/tensor/strided.h>
#include <adjoint/core/tensor/tensor_impl.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>

#if defined(ADJOINT_WITH_CUDA)
#include <adjoint/core/cuda/backend.h>
#endif

namespace adjoint {
namespace {

template <class T>
void fill_rows(const StridedPlan<1>& plan, T* data, T value) {
  for_each_row(plan, [&](const std::array<std::int64_t, 1>& offset, std::int64_t length) {
    T* row = data + offset[0];
    const std::int64_t step = plan.strides[0][0];
    if (step == 1) {
      std::fill(row, row + length, value);
    } else {
      for (std::int64_t i = 0; i < length; ++i) row[i * step] = value;
    }
  });
}

// Random numbers are drawn for contiguous tensors: number i of the tensor is number i % 2 of block offset + i / 2, on
// every device. Other tensors are drawn separately and copied in.
constexpr std::int64_t kRandomGrain = 8192;

// Returns true if every number of `values` is finite in `dtype`.
bool finite_in(DType dtype, std::initializer_list<double> values) {
  return visit_floating(dtype, [&]<class T>() {
    return std::all_of(values.begin(), values.end(),
                       [](double value) { return std::isfinite(convert<double>(convert<T>(value))); });
  });
}

void check_floating(const char* op, const Tensor& tensor) {
  ADJOINT_CHECK(is_floating_point(tensor.dtype()), "{}: the dtype must be floating point; got {}; convert with to()",
                op, tensor.dtype());
}

// fill(contiguous, position) draws.
template <class Fill>
void fill_random(Tensor& tensor, Generator& generator, const Fill& fill) {
  Tensor contiguous = tensor;
  if (!tensor.is_contiguous()) contiguous = make_tensor({tensor.shape(), tensor.dtype()}, tensor.device());
  // Reserves only once no allocation is left to fail, so that a failed call draws nothing.
  const philox::Position at = reserve_numbers(tensor.shape(), tensor.device(), generator);
  if (tensor.numel() == 0) return;
  fill(contiguous, at);
  if (contiguous.impl() != tensor.impl()) copy_into(contiguous, tensor);
}

template <class T, class Number>
void draw_cpu(Tensor& tensor, const philox::Position& at, const Number& number) {
  T* data = tensor.mutable_data<T>();
  const std::int64_t numel = tensor.numel();
  parallel_ranges((numel + 1) / 2, kRandomGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      const philox::Block block = philox::generate(at.seed, at.offset + static_cast<std::uint64_t>(b));
      data[2 * b] = number(block, 0);
      if (2 * b + 1 < numel) data[2 * b + 1] = number(block, 1);
    }
  });
}

}  // namespace

void fill(Tensor& tensor, double value) {
  if (tensor.numel() == 0) return;
  if (tensor.device().is_cuda()) {
#if defined(ADJOINT_WITH_CUDA)
    tensor.raw_mutable_data();  // counts the write
    cuda::fill(tensor, value);
#endif
    return;
  }
  const StridedPlan<1> plan = make_strided_plan<1>(tensor.shape(), {tensor.strides()});
  visit(tensor.dtype(), [&]<class T>() { fill_rows(plan, tensor.mutable_data<T>(), convert<T>(value)); });
}

void fill_arange(Tensor& tensor, double start, double step) {
  if (tensor.numel() == 0) return;
  if (tensor.device().is_cuda()) {
#if defined(ADJOINT_WITH_CUDA)
    tensor.raw_mutable_data();
    cuda::arange(tensor, start, step);
#endif
    return;
  }
  visit(tensor.dtype(), [&]<class T>() {
    T* data = tensor.mutable_data<T>();
    for (std::int64_t i = 0; i < tensor.numel(); ++i)
      data[i] = convert<T>(std::fma(static_cast<double>(i), step, start));
  });
}

philox::Position reserve_numbers(const Shape& shape, Device device, Generator& generator) {
  ADJOINT_CHECK(
      generator.device_base() == nullptr || device.is_cuda(),
      "uniform_: a generator with a device base draws for tensors on that device alone; got a tensor of shape {} on "
      "{}",
      shape, device);
  const std::int64_t count = shape.numel();
  ADJOINT_CHECK(count == 0 || detail::StepCapture::current() == nullptr || generator.device_base() != nullptr,
                "uniform_: a captured step (GraphedStep) must draw from the thread's default generator, as it was when "
                "the step began; got one with seed {} for a tensor of shape {}",
                generator.seed(), shape);
  const auto blocks = static_cast<std::uint64_t>((count + philox::kNumbersPerBlock - 1) / philox::kNumbersPerBlock);
  return {generator.seed(), generator.reserve(blocks), generator.device_base()};
}

void draw_uniform(Tensor& tensor, double low, double high, Generator& generator) {
  check_floating("uniform_", tensor);
  ADJOINT_CHECK(
      low <= high && std::isfinite(high - low) && finite_in(tensor.dtype(), {low, high}),
      "uniform_: low must not be above high, and both and their distance must be finite in {}; got low {}, high {}",
      tensor.dtype(), low, high);
  fill_random(tensor, generator, [&](Tensor& contiguous, const philox::Position& at) {
#if defined(ADJOINT_WITH_CUDA)
    if (contiguous.device().is_cuda()) {
      contiguous.raw_mutable_data();
      return cuda::fill_uniform(contiguous, low, high, at);
    }
#endif
    visit_floating(contiguous.dtype(), [&]<class T>() { draw_cpu<T>(contiguous, at, philox::Uniform<T>(low, high)); });
  });
}

void draw_normal(Tensor& tensor, double mean, double standard_deviation, Generator& generator) {
  check_floating("normal_", tensor);
  ADJOINT_CHECK(
      standard_deviation >= 0.0 && finite_in(tensor.dtype(), {mean, standard_deviation}),
      "normal_: the mean and the standard deviation must be finite in {}, and the latter not negative; got mean {}, "
      "standard deviation {}",
      tensor.dtype(), mean, standard_deviation);
  fill_random(tensor, generator, [&](Tensor& contiguous, const philox::Position& at) {
#if defined(ADJOINT_WITH_CUDA)
    if (contiguous.device().is_cuda()) {
      contiguous.raw_mutable_data();
      return cuda::fill_normal(contiguous, mean, standard_deviation, at);
    }
#endif
    visit_floating(contiguous.dtype(),
                   [&]<class T>() { draw_cpu<T>(contiguous, at, philox::Normal<T>(mean, standard_deviation)); });
  });
}

void draw_integers(Tensor& tensor, std::int64_t low, std::int64_t high, Generator& generator) {
  fill_random(tensor, generator, [&](Tensor& contiguous, const philox::Position& at) {
#if defined(ADJOINT_WITH_CUDA)
    if (contiguous.device().is_cuda()) {
      contiguous.raw_mutable_data();
      return cuda::fill_integers(contiguous, low, high, at);
    }
#endif
    visit(contiguous.dtype(), [&]<class T>() { draw_cpu<T>(contiguous, at, philox::Integers<T>(low, high)); });
  });
}

void fill_uniform(Tensor& tensor, double low, double high, Generator& generator) {
  const OpScope scope("fill_uniform");
  check_writable("fill_uniform", tensor);
  draw_uniform(tensor, low, high, generator);
}

void fill_normal(Tensor& tensor, double mean, double standard_deviation, Generator& generator) {
  const OpScope scope("fill_normal");
  check_writable("fill_normal", tensor);
  draw_normal(tensor, mean, standard_deviation, generator);
}

}  // namespace adjoint
