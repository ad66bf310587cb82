// The names of sound files. Internal.
#pragma once

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string>

namespace adjoint::data::audio {

/// In lower case.
inline std::string extension_of(const std::filesystem::path& path) {
  std::string extension = path.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension;
}

inline bool is_audio(const std::string& extension) {
  return extension == ".wav" || extension == ".flac" || extension == ".ogg";
}

}  // namespace adjoint::data::audio
