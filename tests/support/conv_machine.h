// The machine that tests plan for to make small problems look large.
#pragma once

#include <adjoint/ops/conv/base/machine.h>

namespace adjoint::testing {

/// Problems of any size leave no part of it without work: they get the tiles of large ones, and few slices or splits.
inline constexpr cuda::Machine kOneMultiprocessor{.multiprocessors = 1};

}  // namespace adjoint::testing
