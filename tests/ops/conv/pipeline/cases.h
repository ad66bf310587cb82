// Problems that reach every form of the pipeline, and the order of its operands, channels innermost.
#pragma once

#include <adjoint/tests/support/conv_cases.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace adjoint::testing {

inline const ConvCase kPipelineCases[] = {
    {.name = "three", .in_channels = 72, .out_channels = 40, .input = {9, 17}, .kernel = {3, 3}, .padding = {1, 1}},
    {.name = "blocks", .batch = 1, .in_channels = 128, .out_channels = 136, .input = {5, 9}, .kernel = {1, 3}},
    {.name = "large", .batch = 1, .in_channels = 16, .out_channels = 64, .input = {36, 40}, .kernel = {3, 3}},
    {.name = "tall", .batch = 1, .in_channels = 128, .out_channels = 128, .input = {33, 8}, .kernel = {2, 1}},
    {.name = "stride",
     .in_channels = 8,
     .out_channels = 64,
     .input = {7, 6},
     .kernel = {3, 3},
     .stride = {2, 2},
     .padding = {1, 1},
     .output_padding = {1, 0}},
    {.name = "four",
     .in_channels = 64,
     .out_channels = 16,
     .input = {5, 9},
     .kernel = {4, 4},
     .stride = {2, 2},
     .padding = {1, 1}},
    {.name = "two", .in_channels = 24, .out_channels = 8, .input = {4, 11}, .kernel = {2, 2}, .stride = {2, 2}},
    {.name = "uneven",
     .in_channels = 8,
     .out_channels = 8,
     .input = {6, 9},
     .kernel = {3, 5},
     .stride = {1, 3},
     .padding = {2, 1},
     .dilation = {2, 1}},
    {.name = "rank1",
     .rank = 1,
     .in_channels = 16,
     .out_channels = 16,
     .input = {1, 50},
     .kernel = {1, 7},
     .padding = {0, 3}},
    {.name = "volume",
     .rank = 3,
     .batch = 1,
     .in_channels = 16,
     .out_channels = 8,
     .input = {9, 3, 5},
     .kernel = {3, 2, 3},
     .stride = {1, 2, 1},
     .padding = {1, 0, 2}},
    // Strips of samples have the fewest tiles.
    {.name = "samples", .batch = 9, .in_channels = 16, .out_channels = 8, .input = {9, 3}, .kernel = {3, 2}},
};

/// (outer, channels, inner) with channels last, and back; and (first, second, inner) as (second, inner, first).
inline std::vector<double> channels_last(const std::vector<double>& values, std::int64_t channels, std::int64_t inner) {
  std::vector<double> result(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i), place = at % inner, rest = at / inner;
    result[static_cast<std::size_t>((rest / channels * inner + place) * channels + rest % channels)] = values[i];
  }
  return result;
}

/// (first, second, inner) as (second, inner, first).
inline std::vector<double> first_last(const std::vector<double>& values, std::int64_t first, std::int64_t inner) {
  const std::int64_t second = static_cast<std::int64_t>(values.size()) / (first * inner);
  std::vector<double> result(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const std::int64_t f = at / (second * inner), s = at / inner % second;
    result[static_cast<std::size_t>((s * inner + at % inner) * first + f)] = values[i];
  }
  return result;
}

}  // namespace adjoint::testing
