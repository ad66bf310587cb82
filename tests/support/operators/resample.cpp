// Changing resolutions. Values with antialiasing are tested in resample_test.
#include <adjoint/ops/resample/resample.h>
#include <adjoint/tests/support/operator_cases.h>

namespace adjoint::testing {

using In = const std::vector<Tensor>&;
using Out = std::vector<Tensor>;

OperatorFamily resample_operators() {
  return {
      .name = "resample",
      .cases =
          {
              {.name = "interpolate",
               .call = [](In in) -> Out {
                 return {interpolate(in[0], {.size = {3, 5}, .mode = Interpolation::kBilinear})};
               }},
              {.name = "interpolate/aligned",
               .call = [](In in) -> Out {
                 return {interpolate(in[0], {.size = {3, 2}, .mode = Interpolation::kBicubic, .align_corners = true})};
               }},
              {.name = "interpolate/nearest",
               .call = [](In in) -> Out {
                 return {interpolate(in[0], {.size = {5, 4}, .mode = Interpolation::kNearest})};
               }},
              {.name = "interpolate/nearest_scale",
               .call = [](In in) -> Out {
                 return {interpolate(in[0], {.scale_factor = {0.6, 1.7}, .mode = Interpolation::kNearest})};
               }},
              {.name = "interpolate/nearest_1d",
               .call = [](In in) -> Out { return {interpolate(in[0], {.size = 7, .mode = Interpolation::kNearest})}; }},
              {.name = "interpolate/nearest_exact",
               .call = [](In in) -> Out {
                 return {interpolate(in[0], {.size = {2, 7}, .mode = Interpolation::kNearestExact})};
               }},
              {.name = "interpolate/nearest_exact_1d",
               .call = [](In in) -> Out {
                 return {interpolate(in[0], {.scale_factor = 0.4, .mode = Interpolation::kNearestExact})};
               }},
              {.name = "interpolate/linear",
               .call = [](In in) -> Out {
                 return {interpolate(in[0], {.scale_factor = 2.5, .mode = Interpolation::kLinear})};
               }},
              {.name = "interpolate/linear_aligned",
               .call = [](In in) -> Out {
                 return {interpolate(in[0], {.size = 3, .mode = Interpolation::kLinear, .align_corners = true})};
               }},
              {.name = "interpolate/area",
               .call = [](In in) -> Out {
                 return {interpolate(in[0], {.size = {2, 3}, .mode = Interpolation::kArea})};
               }},
              {.name = "interpolate/area_1d",
               .call = [](In in) -> Out {
                 return {interpolate(in[0], {.scale_factor = 0.5, .mode = Interpolation::kArea})};
               }},
              {.name = "interpolate/nearest_3d",
               .call = [](In in) -> Out {
                 return {interpolate(in[0], {.size = {3, 5, 2}, .mode = Interpolation::kNearest})};
               }},
              {.name = "interpolate/nearest_exact_3d",
               .call = [](In in) -> Out {
                 return {interpolate(in[0], {.scale_factor = {1.5, 0.5, 2.0}, .mode = Interpolation::kNearestExact})};
               }},
              {.name = "interpolate/trilinear",
               .call = [](In in) -> Out {
                 return {interpolate(in[0], {.scale_factor = 2, .mode = Interpolation::kTrilinear})};
               }},
              {.name = "interpolate/trilinear_aligned",
               .call = [](In in) -> Out {
                 return {
                     interpolate(in[0], {.size = {2, 5, 3}, .mode = Interpolation::kTrilinear, .align_corners = true})};
               }},
              {.name = "interpolate/trilinear_depth",
               .call = [](In in) -> Out {
                 return {interpolate(in[0], {.size = {5, 3, 2}, .mode = Interpolation::kTrilinear})};
               }},
              {.name = "interpolate/area_3d",
               .call = [](In in) -> Out {
                 return {interpolate(in[0], {.size = {2, 3, 1}, .mode = Interpolation::kArea})};
               }},
          },
      .bad_calls = {
          {"interpolate",
           [] {
             interpolate(Tensor::ones({2, 3}), {.size = 4, .mode = Interpolation::kNearest});
           },
           {"(N, C, L), (N, C, H, W) or (N, C, D, H, W) for mode nearest; got (2, 3)"}},
          {"interpolate",
           [] {
             interpolate(Tensor::ones({1, 1, 2, 3}), {.size = 4, .mode = Interpolation::kLinear});
           },
           {"must be (N, C, L) for mode linear; got (1, 1, 2, 3)"}},
          {"interpolate",
           [] {
             interpolate(Tensor::ones({1, 1, 3}), {.size = {4, 5}, .mode = Interpolation::kLinear});
           },
           {"one number; got size (4, 5)"}},
          {"interpolate",
           [] {
             interpolate(Tensor::ones({1, 1, 3}), {.size = 4, .mode = Interpolation::kNearest, .align_corners = true});
           },
           {"align_corners needs"}},
          {"interpolate",
           [] {
             interpolate(Tensor::ones({1, 1, 3}), {.size = 4, .mode = Interpolation::kArea, .antialias = true});
           },
           {"antialias needs"}},
          {"interpolate",
           [] {
             interpolate(Tensor::ones({1, 1, 3}), {.size = 4, .mode = static_cast<Interpolation>(9)});
           },
           {"Interpolation", "9"}},
          {"interpolate",
           [] {
             interpolate(Tensor::ones({1, 1, 2, 3}), {.size = 4, .mode = Interpolation::kTrilinear});
           },
           {"must be (N, C, D, H, W) for mode trilinear; got (1, 1, 2, 3)"}},
          {"interpolate",
           [] {
             interpolate(Tensor::ones({1, 1, 2, 3}), {.size = {4, 5, 6}});
           },
           {"of an image must be one number or {h, w}; got size (4, 5, 6)"}},
          {"interpolate",
           [] {
             interpolate(Tensor::ones({1, 1, 2, 2, 3}), {.size = {5, 6}});
           },
           {"size must be positive; got (0, 5, 6)"}},
          {"interpolate",
           [] {
             interpolate(Tensor::ones({1, 1, 0, 2, 3}), {.size = 4});
           },
           {"depth, height and width must be positive; got input (1, 1, 0, 2, 3)"}},
          {"interpolate",
           [] {
             interpolate(Tensor::ones({1, 1, 2, 2, 3}), {.size = 4, .mode = "trilinear", .antialias = true});
           },
           {"antialias needs"}},
      }};
}

}  // namespace adjoint::testing
