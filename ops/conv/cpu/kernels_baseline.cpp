#include <adjoint/ops/conv/cpu/kernel_table.h>

namespace adjoint::cpu::baseline {

constinit const KernelTable<ConvKernels> conv_table = make_conv_table();

}  // namespace adjoint::cpu::baseline
