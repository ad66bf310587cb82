// The one table of convolution problems that drives the oracle tests, the gradient checks and CPU against CUDA.
#pragma once

#include <adjoint/ops/conv/geometry.h>

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace adjoint::testing {

/// One problem, as a call of conv_transpose states it; 1-D uses index 1 of each Extent2.
struct ConvCase {
  std::string name;
  int rank = 2;
  std::int64_t batch = 2;
  std::int64_t in_channels = 1;   // of conv_transpose's input: the feature
  std::int64_t out_channels = 1;  // of its result: the image
  std::int64_t groups = 1;
  Extent2 input{1, 1};
  Extent2 kernel{1, 1};
  Extent2 stride{1, 1};
  Extent2 padding{0, 0};
  Extent2 output_padding{0, 0};
  Extent2 dilation{1, 1};
};

/// PyTorch's documented formula for ConvTranspose's result.
Extent2 output_extents(const ConvCase& c);
ConvGeometry geometry(const ConvCase& c);
/// Products in S, counting taps that fall outside the image.
std::int64_t multiply_adds(const ConvCase& c);

/// At least 200 cases, each with its own name; the same on every machine.
const std::vector<ConvCase>& conv_cases();
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
