#include <adjoint/ops/conv/cuda/product_launch.cuh>

namespace adjoint::cuda {
template void run_product_in<Arithmetic::kTF32>(const ProductPlan&, const ConvProblem&, const void*, const void*,
                                                float*);
}  // namespace adjoint::cuda
