// Applies a trained autoencoder to whole sets of pictures. Sets are (N, 3, 32, 32), uint8, on the CPU; the model is in
// eval mode, on `device`.
#pragma once

#include "model.h"

#include <adjoint/core/base/device.h>
#include <adjoint/core/tensor/tensor.h>

#include <cstdint>

namespace autoencoder {

/// The result of Model::compress for each picture, on the CPU, and the pictures that Model::decompress makes from it.
adjoint::Tensor compress(const Model& model, const adjoint::Tensor& pictures, adjoint::Device device);
adjoint::Tensor decompress(const Model& model, const adjoint::Tensor& kept, adjoint::Device device);
/// decompress(compress(pictures)).
adjoint::Tensor reconstruct(const Model& model, const adjoint::Tensor& pictures, adjoint::Device device);

/// `count` new pictures, which the seed decides. Draws from no default generator.
adjoint::Tensor sample(const Model& model, std::int64_t count, std::uint64_t seed, adjoint::Device device);

/// `steps` pictures on the straight line between the codes of two pictures (3, 32, 32).
adjoint::Tensor walk(const Model& model, const adjoint::Tensor& from, const adjoint::Tensor& to, std::int64_t steps,
                     adjoint::Device device);

/// Mean of the pictures' PSNRs, in dB.
double psnr_of(const adjoint::Tensor& pictures, const adjoint::Tensor& truth);

/// Pictures in rows of `columns`, and their reconstructions in a row below each: (3, H, W).
adjoint::Tensor compared(const adjoint::Tensor& pictures, const adjoint::Tensor& reconstructed, std::int64_t columns);

}  // namespace autoencoder
