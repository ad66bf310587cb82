// The sound that the program learns from if it is given none: plucked strings, and the same through an amplifier. The
// same on every machine up to rounding.
#pragma once

#include <adjoint/core/tensor/tensor.h>

#include <cstdint>

namespace amp {

/// Sound (samples), float32, with a peak of 0.9, that the number decides: notes, fifths and chords, open and damped, of
/// six strings (Karplus, Strong: "Digital synthesis of plucked-string and drum timbres", 1983).
adjoint::Tensor plucked(std::uint64_t number, std::int64_t samples, std::int64_t sample_rate);

/// Sound (samples) through an amplifier: two stages that saturate, and a tone control. Each stage has a high-pass
/// filter in front and a bias that a loud signal shifts for some milliseconds, as grid current does in a tube. The
/// saturation is the mean of tanh between successive samples, which folds fewer overtones back into the audible range
/// (Parker, Zavalishin, Le Bivic: "Reducing the aliasing of nonlinear waveshaping using continuous-time convolution",
/// 2016).
adjoint::Tensor amplified(const adjoint::Tensor& sound, std::int64_t sample_rate);

}  // namespace amp
