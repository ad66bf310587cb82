// Pooling in ONNX, whose pools take batches, and windows of one size. Internal to ops/pool.
#pragma once

#include <adjoint/core/graph/onnx_call.h>
#include <adjoint/ops/pool/kernels.h>

#include <cstdint>

namespace adjoint {

OnnxValue max_pool_onnx(OnnxCall& call, const PoolAttr& attr);
OnnxValue avg_pool_onnx(OnnxCall& call, const PoolAttr& attr);
OnnxValue max_unpool_places_onnx(OnnxCall& call, const UnpoolAttr& attr);
OnnxValue max_unpool_take_onnx(OnnxCall& call, const std::int64_t& planes);

}  // namespace adjoint
