// One picture, read in every way, for the fuzzers of PNG and JPEG.
#pragma once

#include "check.h"

#include <adjoint/core/base/error.h>
#include <adjoint/data/image.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace adjoint::fuzz {

/// The picture, or nothing if reading it is an Error that reports damage.
inline std::optional<Tensor> read(std::span<const std::uint8_t> file, const data::ReadImageOptions& options) {
  try {
    Tensor image = data::decode_image(file, options, "file");
    const Shape& shape = image.shape();
    check(shape.size() == 3 && shape[0] >= 1 && shape[0] <= 4 && image.numel() > 0, "a picture has three axes");
    check(shape[1] * shape[2] <= options.max_pixels, "a picture keeps to max_pixels");
    const auto channels = static_cast<std::int64_t>(options.channels);
    check(channels == 0 || shape[0] == channels, "a picture has the channels that were asked for");
    check(image.dtype() == options.dtype, "a picture has the dtype that was asked for");
    return image;
  } catch (const Error& error) {
    check(std::string(error.what()).starts_with("decode_image: 'file' "), error.what());
    return std::nullopt;
  }
}

/// Reads a file of `format` unchanged, and then its readable part; a sound file is read alike both ways.
inline int read_every_way(data::ImageFormat format, std::span<const std::uint8_t> file) {
  if (data::image_format(file) != format) return -1;  // not a file to keep
  data::ReadImageOptions options{.max_pixels = 1 << 18, .max_bytes = 1 << 23};
  const auto sound = read(file, options);
  options.damaged = true;
  const auto there = read(file, options);
  check(!sound || (there && there->to_vector<int>() == sound->to_vector<int>()), "a sound file holds what is there");
  options = {.channels = static_cast<data::Channels>(1 + file.back() % 4),
             .dtype = kFloat32,
             .max_pixels = 1 << 14,
             .max_bytes = 1 << 20};
  read(file, options);
  return 0;
}

}  // namespace adjoint::fuzz
