#include <adjoint/ops/conv/cpu/kernel_table.h>

namespace adjoint::cpu::baseline {

constinit const Kernels<float> float_kernels = kernel_table<float>();
constinit const Kernels<double> double_kernels = kernel_table<double>();

}  // namespace adjoint::cpu::baseline
