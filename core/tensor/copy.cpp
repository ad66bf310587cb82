#include <adjoint/core/tensor/copy.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/graph/step_capture.h>
#include <adjoint/core/tensor/convert_spans.h>
#include <adjoint/core/tensor/strided.h>
#include <adjoint/core/tensor/tensor_impl.h>

#include <algorithm>
#include <cstring>

#if defined(ADJOINT_WITH_CUDA)
#include <adjoint/core/cuda/backend.h>
#endif

namespace adjoint {
namespace {

// Rows whose elements keep their bits.
template <class Word>
void copy_rows(const StridedPlan<2>& plan, const Word* src, Word* dst) {
  for_each_row(plan, [&](const std::array<std::int64_t, 2>& offsets, std::int64_t length) {
    Word* const to = dst + offsets[0];
    const Word* const from = src + offsets[1];
    const std::int64_t to_step = plan.strides[0][0], from_step = plan.strides[1][0];
    if (to_step == 1 && from_step == 1) {
      std::memcpy(to, from, static_cast<std::size_t>(length) * sizeof(Word));
    } else {
      for (std::int64_t i = 0; i < length; ++i) to[i * to_step] = from[i * from_step];
    }
  });
}

// Rows that change their dtype. Rows that are not contiguous go through buffers, a block at a time.
template <class From, class To>
void convert_rows(const StridedPlan<2>& plan, const SpanConverter& convert, const From* src, To* dst) {
  for_each_row(plan, [&](const std::array<std::int64_t, 2>& offsets, std::int64_t length) {
    To* const to = dst + offsets[0];
    const From* const from = src + offsets[1];
    const std::int64_t to_step = plan.strides[0][0], from_step = plan.strides[1][0];
    if (to_step == 1 && from_step == 1) return convert(from, to, length);
    From gathered[kConvertBlock];
    To converted[kConvertBlock];
    for (std::int64_t begin = 0; begin < length; begin += kConvertBlock) {
      const std::int64_t count = std::min(kConvertBlock, length - begin);
      for (std::int64_t i = 0; i < count; ++i) gathered[i] = from[(begin + i) * from_step];
      convert(gathered, converted, count);
      for (std::int64_t i = 0; i < count; ++i) to[(begin + i) * to_step] = converted[i];
    }
  });
}

void copy_cpu(const Tensor& src, Tensor& dst) {
  const StridedPlan<2> plan = make_strided_plan<2>(dst.shape(), {dst.strides(), src.strides()});
  const void* from = src.raw_data();
  void* to = dst.raw_mutable_data();
  if (src.dtype() == dst.dtype()) {
    return visit_bits(dst.dtype(),
                      [&]<class Word>() { copy_rows(plan, static_cast<const Word*>(from), static_cast<Word*>(to)); });
  }
  const SpanConverter convert(src.dtype(), dst.dtype());
  visit_bits(dst.dtype(), [&]<class To>() {
    visit_bits(src.dtype(), [&]<class From>() {
      convert_rows(plan, convert, static_cast<const From*>(from), static_cast<To*>(to));
    });
  });
}

// Only bytes move between devices; strides and dtypes are converted on the side that has, or will have, the data.
void copy_between_devices(const Tensor& src, Tensor& dst) {
#if defined(ADJOINT_WITH_CUDA)
  detail::StepCapture::refuse_copy(src, dst);
  Tensor from = src;
  if (src.dtype() != dst.dtype() || !src.is_contiguous()) {
    from = make_tensor({src.shape(), dst.dtype()}, src.device());
    copy_into(src, from);
  }
  Tensor to = dst.is_contiguous() ? dst : make_tensor({dst.shape(), dst.dtype()}, dst.device());
  cuda::copy_bytes(to.raw_mutable_data(), to.device(), from.raw_data(), from.device(),
                   static_cast<std::size_t>(to.numel() * element_size(to.dtype())));
  if (!dst.is_contiguous()) copy_into(to, dst);
#else
  ADJOINT_ASSERT(false, "copy from {} to {} in a build without CUDA", src.device(), dst.device());
#endif
}

}  // namespace

void copy_into(const Tensor& src, Tensor& dst) {
  ADJOINT_ASSERT(src.shape() == dst.shape(), "copy_into: {} to {}", src.shape(), dst.shape());
  if (dst.numel() == 0) return;
  if (src.device() != dst.device()) {
    copy_between_devices(src, dst);
  } else if (src.device().is_cpu()) {
    copy_cpu(src, dst);
  } else {
#if defined(ADJOINT_WITH_CUDA)
    dst.raw_mutable_data();  // counts the write
    cuda::copy_strided(src, dst);
#endif
  }
}

Tensor contiguous_copy(const Tensor& tensor) {
  if (tensor.is_contiguous()) return tensor;
  Tensor copy = make_tensor({tensor.shape(), tensor.dtype()}, tensor.device());
  copy_into(tensor, copy);
  return copy;
}

}  // namespace adjoint
