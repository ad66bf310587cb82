// Makes the driver encode tensor maps.
#include <adjoint/core/cuda/tensor_map.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/cuda/runtime.h>

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace adjoint::cuda {
namespace {

/// From the process's driver, because the library is not linked with one.
decltype(&cuTensorMapEncodeTiled) encode_function() {
  constexpr unsigned kSince = 12000;  // CUDA 12.0
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  ADJOINT_CUDA(
      cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, kSince, cudaEnableDefault, &found));
  ADJOINT_CHECK(found == cudaDriverEntryPointSuccess,
                "cuda: the driver must know tensor maps; got one older than CUDA 12.0; update it");
  return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
}

CUtensorMapDataType data_type(const TensorMapLayout& layout) {
  switch (layout.dtype) {
    case kBFloat16: return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case kFloat16: return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case kFloat64: return CU_TENSOR_MAP_DATA_TYPE_FLOAT64;
    default: return layout.rounds_to_tf32 ? CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 : CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  }
}

CUtensorMapSwizzle swizzle(const TensorMapLayout& layout) {
  if (!layout.swizzled) return CU_TENSOR_MAP_SWIZZLE_NONE;
  const std::int64_t bytes = layout.box[0] * element_size(layout.dtype);
  return bytes <= 32 ? CU_TENSOR_MAP_SWIZZLE_32B : bytes <= 64 ? CU_TENSOR_MAP_SWIZZLE_64B : CU_TENSOR_MAP_SWIZZLE_128B;
}

}  // namespace

TensorMap encode_tensor_map(const TensorMapLayout& layout) {
  static const auto encode = encode_function();
  cuuint64_t extents[kTensorMapAxes], strides[kTensorMapAxes - 1];
  cuuint32_t box[kTensorMapAxes], steps[kTensorMapAxes];
  for (int i = 0; i < kTensorMapAxes; ++i) {
    extents[i] = static_cast<cuuint64_t>(layout.extents[i]);
    box[i] = static_cast<cuuint32_t>(layout.box[i]);
    steps[i] = 1;
    if (i == 1) {
      steps[i] = static_cast<cuuint32_t>(layout.row_step);
      box[i] = (box[i] - 1) * steps[i] + 1;
    }
    if (i > 0) strides[i - 1] = static_cast<cuuint64_t>(layout.strides[i] * element_size(layout.dtype));
  }
  TensorMap map;
  static_assert(sizeof(map) == sizeof(CUtensorMap) && alignof(TensorMap) >= alignof(CUtensorMap));
  const auto try_encoding = [&] {
    return encode(reinterpret_cast<CUtensorMap*>(&map), data_type(layout), kTensorMapAxes,
                  const_cast<void*>(layout.data), extents, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                  swizzle(layout), CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  };
  CUresult status = try_encoding();
  if (status == CUDA_ERROR_INVALID_CONTEXT) {  // this thread has not called the runtime yet
    int device = 0;
    ADJOINT_CUDA(cudaGetDevice(&device));
    ADJOINT_CUDA(cudaSetDevice(device));
    status = try_encoding();
  }
  ADJOINT_CHECK(status == CUDA_SUCCESS,
                "cuda: the driver must accept a tensor map's layout; got error {}; report it as a fault of the library",
                static_cast<int>(status));
  return map;
}

}  // namespace adjoint::cuda
