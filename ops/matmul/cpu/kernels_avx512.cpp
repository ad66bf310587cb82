#include <adjoint/ops/matmul/cpu/kernel_table.h>

namespace adjoint::cpu::avx512 {

constinit const KernelTable<ProductKernels> product_table = make_product_table();

}  // namespace adjoint::cpu::avx512
