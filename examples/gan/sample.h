// Pictures from a generator.
#pragma once

#include "networks.h"

#include <adjoint/core/base/device.h>
#include <adjoint/core/tensor/tensor.h>

#include <cstdint>

namespace gan {

/// Noise (N, latent) -> pictures (N, 3, 32, 32), uint8, on the CPU, computed on the model's `device`.
adjoint::Tensor generate(const Generator& model, const adjoint::Tensor& noise, adjoint::Device device);

}  // namespace gan
