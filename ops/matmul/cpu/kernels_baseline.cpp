#include <adjoint/ops/matmul/cpu/kernel_table.h>

namespace adjoint::cpu::baseline {

constinit const KernelTable<ProductKernels> product_table = make_product_table();

}  // namespace adjoint::cpu::baseline
