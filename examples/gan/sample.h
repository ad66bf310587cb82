// Pictures from a generator.
#pragma once

#include "networks.h"

#include <adjoint/core/device.h>
#include <adjoint/core/tensor.h>

#include <cstdint>

namespace gan {

/// (count, latent), float32, on the CPU: normal numbers that the seed alone decides. Draws from no default generator.
adjoint::Tensor noise_of(std::uint64_t seed, std::int64_t count, std::int64_t latent);

/// Noise (N, latent) -> pictures (N, 3, 32, 32), uint8, on the CPU, computed on `device`, where the model is.
adjoint::Tensor generate(const Generator& model, const adjoint::Tensor& noise, adjoint::Device device);

/// `steps` points (steps, latent) from a to b, (latent) each, along a great circle, lengths between theirs (White:
/// "Sampling generative networks", 2016): between two normal vectors a straight line is shorter than such vectors are.
adjoint::Tensor great_circle(const adjoint::Tensor& a, const adjoint::Tensor& b, std::int64_t steps);

/// Pictures (N, 3, h, w), uint8, in rows of `columns`, two pixels of white between and around them: (3, H, W).
adjoint::Tensor tiled(const adjoint::Tensor& pictures, std::int64_t columns);

}  // namespace gan
