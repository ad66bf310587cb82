// Applies a trained model: to a whole sound, and block by block as a plug-in does.
#pragma once

#include "model.h"
#include "recordings.h"

#include <adjoint/core/base/device.h>
#include <adjoint/core/tensor/tensor.h>

#include <cstdint>
#include <vector>

namespace amp {

/// The model's result for a recording's input (samples), in one piece on the model's device; (samples) on the CPU.
adjoint::Tensor modelled(const Amp& model, const adjoint::Tensor& input, adjoint::Device device);

/// The error-to-signal ratio: the energy of made - target, divided by the target's. Tensors of one shape, on the CPU;
/// infinite for a silent target.
double error_to_signal(const adjoint::Tensor& made, const adjoint::Tensor& target);

/// The factor by which `input` comes nearest to `target`.
double best_gain(const adjoint::Tensor& input, const adjoint::Tensor& target);

/// Sound (C, L) through nn::Streaming in blocks of `block` samples, on the CPU and on this thread; (C, L). Each channel
/// is a signal of its own. Appends the seconds of each block to `times`. Throws Error unless block is from 1 to 65536.
adjoint::Tensor processed(const Amp& model, const adjoint::Tensor& sound, std::int64_t block,
                          std::vector<double>& times);

}  // namespace amp
