// The one table of convolution problems that drives the oracle tests, the gradient checks and CPU against CUDA.
#pragma once

#include <adjoint/ops/conv/geometry.h>

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace adjoint::testing {

/// One problem, as a call of conv_transpose states it.
struct ConvCase {
  std::string name;
  int rank = 2;
  std::int64_t batch = 2;
  std::int64_t in_channels = 1;   // of conv_transpose's input: the feature
  std::int64_t out_channels = 1;  // of its result: the image
  std::int64_t groups = 1;
  Extents input, kernel, stride;
  Margins padding, output_padding;
  Extents dilation;
};

/// PyTorch's documented formula for ConvTranspose's result.
Extents output_extents(const ConvCase& c);
ConvGeometry geometry(const ConvCase& c);
/// Products in S, counting taps that fall outside the image.
std::int64_t multiply_adds(const ConvCase& c);

/// At least 200 cases, each with its own name; the same on every machine.
const std::vector<ConvCase>& conv_cases();
/// Those of 1-D and 2-D problems.
const std::vector<ConvCase>& planar_conv_cases();
/// Those small enough for Jacobians.
const std::vector<ConvCase>& small_conv_cases();

/// The case as code to paste into a test.
std::ostream& operator<<(std::ostream& out, const ConvCase& c);

/// For INSTANTIATE_TEST_SUITE_P.
struct ConvCaseName {
  template <class Info>
  std::string operator()(const Info& info) const {
    return info.param.name;
  }
};

}  // namespace adjoint::testing
