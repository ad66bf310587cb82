// A sound file, read whole, in part and unchanged, for the fuzzers of WAV, FLAC and OGG.
#pragma once

#include "file.h"

#include <adjoint/core/base/error.h>
#include <adjoint/data/audio/audio.h>

#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace adjoint::fuzz {

/// The sound, or nothing if reading it is an Error that reports damage.
inline std::optional<data::Audio> read(const std::string& path, const data::ReadAudioOptions& options) {
  try {
    data::Audio audio = data::read_audio(path, options);
    check(audio.samples.dim() == 2 && audio.samples.size(0) >= 1 && audio.sample_rate >= 1, "sound has channels");
    check(audio.samples.numel() <= options.max_samples, "sound keeps to max_samples");
    return audio;
  } catch (const OutOfMemoryError& error) {
    check(false, error.what());
  } catch (const Error& error) {
    check(std::string(error.what()).starts_with("read_audio: '"), error.what());
  }
  return std::nullopt;
}

inline bool same(const Tensor& a, const Tensor& b) {
  const Tensor x = a.contiguous(), y = b.contiguous();
  return x.shape() == y.shape() &&
         (x.numel() == 0 ||
          std::memcmp(x.raw_data(), y.raw_data(), static_cast<std::size_t>(x.numel() * element_size(x.dtype()))) == 0);
}

/// `exact`: a part of the file has the samples that it has in the whole.
inline int read_every_way(std::string_view form, bool exact, const std::uint8_t* data, std::size_t size) {
  if (std::string_view(reinterpret_cast<const char*>(data), size).substr(0, form.size()) != form) return -1;
  const std::string& path = in_memory(data, size);
  data::ReadAudioOptions options{.max_samples = 1 << 18};
  const auto whole = read(path, options);
  options.damaged = true;
  const auto there = read(path, options);
  if (!whole) return 0;
  check(there && same(there->samples, whole->samples), "a sound file holds what is there");
  const std::int64_t frames = whole->samples.size(1);
  check(data::audio_info(path).frames == frames, "a file says how long it is");
  options = {.start = frames / 3, .frames = frames / 2, .max_samples = 1 << 18};
  const auto part = read(path, options);
  if (!exact) return 0;
  check(part && same(part->samples, whole->samples.narrow(1, options.start, options.frames)), "a part is of the whole");
  return 0;
}

}  // namespace adjoint::fuzz
