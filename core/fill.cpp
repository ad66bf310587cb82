#include <adjoint/core/fill.h>

#include <adjoint/core/check.h>
#include <adjoint/core/convert.h>
#include <adjoint/core/copy.h>
#include <adjoint/core/philox.h>
#include <adjoint/core/random.h>
#include <adjoint/core/strided.h>
#include <adjoint/core/tensor_impl.h>

#include <algorithm>
#include <cmath>

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
// every device. Others are drawn apart and copied in.
constexpr std::int64_t kRandomGrain = 8192;

template <class Draw>
void fill_random(Tensor& tensor, Generator& generator, Draw draw) {
  if (tensor.numel() == 0) return;
  const auto blocks =
      static_cast<std::uint64_t>((tensor.numel() + philox::kNumbersPerBlock - 1) / philox::kNumbersPerBlock);
  const std::uint64_t offset = generator.reserve(blocks);
  if (tensor.is_contiguous()) return draw(tensor, offset);
  Tensor contiguous = make_tensor({tensor.shape(), tensor.dtype()}, tensor.device());
  draw(contiguous, offset);
  copy_into(contiguous, tensor);
}

template <class Number>
void fill_random_cpu(Tensor& tensor, std::uint64_t seed, std::uint64_t offset, Number number) {
  visit_floating(tensor.dtype(), [&]<class T>() {
    T* data = tensor.mutable_data<T>();
    const std::int64_t numel = tensor.numel();
    parallel_ranges((numel + 1) / 2, kRandomGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b) {
        const philox::Block block = philox::generate(seed, offset + static_cast<std::uint64_t>(b));
        data[2 * b] = number.template operator()<T>(block, 0);
        if (2 * b + 1 < numel) data[2 * b + 1] = number.template operator()<T>(block, 1);
      }
    });
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

void fill_uniform(Tensor& tensor, double low, double high, Generator& generator) {
  fill_random(tensor, generator, [&](Tensor& contiguous, std::uint64_t offset) {
#if defined(ADJOINT_WITH_CUDA)
    if (contiguous.device().is_cuda()) {
      contiguous.raw_mutable_data();
      return cuda::fill_uniform(contiguous, low, high, generator.seed(), offset);
    }
#endif
    fill_random_cpu(contiguous, generator.seed(), offset, [&]<class T>(const philox::Block& block, int i) {
      return philox::to_uniform<T>(philox::uniform(block, i), low, high);
    });
  });
}

void fill_normal(Tensor& tensor, double mean, double standard_deviation, Generator& generator) {
  fill_random(tensor, generator, [&](Tensor& contiguous, std::uint64_t offset) {
#if defined(ADJOINT_WITH_CUDA)
    if (contiguous.device().is_cuda()) {
      contiguous.raw_mutable_data();
      return cuda::fill_normal(contiguous, mean, standard_deviation, generator.seed(), offset);
    }
#endif
    fill_random_cpu(contiguous, generator.seed(), offset, [&]<class T>(const philox::Block& block, int i) {
      return convert<T>(std::fma(standard_deviation, philox::normal(block, i), mean));
    });
  });
}

}  // namespace adjoint
