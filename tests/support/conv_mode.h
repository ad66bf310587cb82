// The arithmetics of the tensor-core kernels, for tests with and without a GPU.
#pragma once

#include <adjoint/bench/conv_modes.h>

namespace adjoint::testing {

using bench::ConvMode;
using bench::kConvModes;

}  // namespace adjoint::testing
