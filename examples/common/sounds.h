// Sound files. Reading them needs Adjoint::audio, and so libsndfile: a build without it writes WAV files of 16 bits and
// reads nothing.
#pragma once

#include <adjoint/core/tensor/tensor.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace examples {

struct Sound {
  std::string name;
  adjoint::Tensor samples;  // (C, L), float32
};

bool can_read_sound();
/// A WAV, FLAC or OGG file at this rate in Hz, resampled if it has another one. Throws Error, naming the file, if it
/// cannot be read or holds no samples or a sample that is not finite, and if the build reads none.
Sound read_sound(const std::filesystem::path& path, std::int64_t sample_rate);
/// (L) or (C, L), as the extension says; see data::write_audio. Throws Error, naming the file.
void write_sound(const std::filesystem::path& path, const adjoint::Tensor& samples, std::int64_t sample_rate);
/// The extensions that write_sound takes, for check_output.
const std::vector<std::string>& sound_extensions();
/// FNV-1a of lengths and samples.
std::uint64_t fingerprint(const std::vector<Sound>& sounds);

}  // namespace examples
