// Makes pictures with a trained denoiser.
#pragma once

#include "denoiser.h"

#include <adjoint/core/base/device.h>
#include <adjoint/core/tensor/tensor.h>

#include <cstdint>

namespace diffusion {

/// Normal numbers (count, 3, 32, 32), float32, on the CPU, which the seed alone decides.
adjoint::Tensor picture_noise(std::uint64_t seed, std::int64_t count);

/// Pictures (N, 3, 32, 32), uint8, on the CPU, of noise (N, 3, 32, 32) on the CPU. `model` is in eval mode, on the
/// device and in the memory format.
adjoint::Tensor generate(const Denoiser& model, const adjoint::Tensor& noise, std::int64_t steps,
                         adjoint::Device device);

}  // namespace diffusion
