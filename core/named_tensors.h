// NamedTensors: an ordered list of names and tensors, the form in which modules and optimisers give out their state.
#pragma once

#include <adjoint/core/tensor.h>

#include <string>
#include <utility>
#include <vector>

namespace adjoint {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

}  // namespace adjoint
