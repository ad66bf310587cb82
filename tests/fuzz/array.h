// The checks that a fuzzer of array files makes for one.
#pragma once

#include "check.h"

#include <adjoint/core/base/error.h>
#include <adjoint/data/array_files.h>

#include <cstdint>
#include <numeric>
#include <span>
#include <string>

namespace adjoint::fuzz {

template <class Decode>
int decode(const std::string& op, Decode decode, std::span<const std::uint8_t> file) {
  constexpr std::int64_t kMaxBytes = std::int64_t{1} << 22;
  try {
    const Tensor array = decode(file, {.max_bytes = kMaxBytes}, "file");
    const auto count = static_cast<std::size_t>(array.numel() * element_size(array.dtype()));
    const auto* first = static_cast<const std::uint8_t*>(array.raw_data());
    // Every byte is there to be read.
    check(std::accumulate(first, first + count, std::size_t{0}) <= 255 * count, "a byte is at most 255");
    check(array.numel() == 0 || count <= kMaxBytes, "an array takes what it may");
  } catch (const OutOfMemoryError& error) {
    check(false, error.what());
  } catch (const Error& error) {
    check(std::string(error.what()).starts_with(op + ": 'file' must "), error.what());
  }
  return 0;
}

}  // namespace adjoint::fuzz
