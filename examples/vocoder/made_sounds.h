// Synthetic sound for training without sound files: voices and music. The same on every machine up to rounding.
#pragma once

#include <adjoint/core/tensor/tensor.h>

#include <cstdint>

namespace vocoder {

/// Sound (samples), float32, its peak between 0.3 and 0.9, that the number decides: even ones are voices, odd ones
/// music.
///
/// A voice is a source and a filter (Fant: "Acoustic theory of speech production", 1960): pulses of a glottis, of
/// gliding pitch, and breath go through resonances that move from vowel to vowel; between them are hissed and voiced
/// consonants, bursts and pauses. Music is up to three instruments, plucked, blown, bell-like or drums, on a scale.
adjoint::Tensor made_sound(std::uint64_t number, std::int64_t samples, std::int64_t sample_rate);

}  // namespace vocoder
