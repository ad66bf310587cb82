// Sampling at computed positions.
#include <adjoint/ops/grid/grid.h>
#include <adjoint/tests/support/operator_cases.h>

namespace adjoint::testing {

using In = const std::vector<Tensor>&;
using Out = std::vector<Tensor>;

namespace {

template <GridSampleMode kMode, GridSamplePadding kPadding, bool kAligned>
Out sample(In in) {
  return {grid_sample(in[0], in[1], {.mode = kMode, .padding_mode = kPadding, .align_corners = kAligned})};
}

std::vector<OperatorCase> cases() {
  using enum GridSampleMode;
  using enum GridSamplePadding;
  std::vector<OperatorCase> all{
      {.name = "grid_sample", .call = [](In in) -> Out { return {grid_sample(in[0], in[1])}; }},
      {.name = "grid_sample/nearest", .call = sample<kNearest, kZeros, false>},
      {.name = "grid_sample/bicubic", .call = sample<kBicubic, kZeros, false>},
      {.name = "grid_sample/border", .call = sample<kBilinear, kBorder, false>},
      {.name = "grid_sample/reflection", .call = sample<kBilinear, kReflection, false>},
      {.name = "grid_sample/aligned", .call = sample<kBilinear, kZeros, true>},
      {.name = "grid_sample/nearest_border", .call = sample<kNearest, kBorder, true>},
      {.name = "grid_sample/bicubic_border", .call = sample<kBicubic, kBorder, false>},
      {.name = "grid_sample/bicubic_reflection", .call = sample<kBicubic, kReflection, false>},
      {.name = "grid_sample/reflection_aligned", .call = sample<kBilinear, kReflection, true>},
      {.name = "grid_sample/kinks", .call = sample<kBilinear, kBorder, true>},
      {.name = "grid_sample/of_nothing", .call = sample<kBilinear, kZeros, false>},
      {.name = "grid_sample/volume", .call = sample<kBilinear, kZeros, false>},
      {.name = "grid_sample/volume_nearest", .call = sample<kNearest, kBorder, true>},
      {.name = "grid_sample/volume_border", .call = sample<kBilinear, kBorder, false>},
      {.name = "grid_sample/volume_reflection", .call = sample<kBilinear, kReflection, true>},
  };
  for (OperatorCase& c : all) c.roundings = 64;  // of positions, which the weights' slopes multiply
  all.push_back({.name = "affine_grid", .call = [](In in) -> Out { return {affine_grid(in[0], {2, 1, 3, 4})}; }});
  all.push_back({.name = "affine_grid/aligned", .call = [](In in) -> Out {
                   return {affine_grid(in[0], {2, 1, 3, 1}, true)};
                 }});
  all.push_back({.name = "affine_grid/of_nothing", .call = [](In in) -> Out {
                   return {affine_grid(in[0], {0, 1, 2, 3})};
                 }});
  all.push_back({.name = "affine_grid/volume", .call = [](In in) -> Out {
                   return {affine_grid(in[0], {2, 1, 2, 3, 4})};
                 }});
  all.push_back({.name = "affine_grid/volume_aligned", .call = [](In in) -> Out {
                   return {affine_grid(in[0], {2, 1, 1, 3, 2}, true)};
                 }});
  return all;
}

}  // namespace

OperatorFamily grid_operators() {
  return {.name = "grid",
          .cases = cases(),
          .bad_calls = {
              {"grid_sample",
               [] {
                 grid_sample(Tensor::ones({1, 1, 2, 2}), Tensor::ones({1, 2, 2, 3}));
               },
               {"(N, H', W', 2)", "(1, 2, 2, 3)"}},
              {"grid_sample",
               [] {
                 grid_sample(Tensor::ones({1, 1, 2, 2}), Tensor::ones({2, 2, 2, 2}));
               },
               {"(1, 1, 2, 2)", "(2, 2, 2, 2)"}},
              {"grid_sample",
               [] {
                 grid_sample(Tensor::ones({1, 1, 0, 2}), Tensor::ones({1, 2, 2, 2}));
               },
               {"height and width", "(1, 1, 0, 2)"}},
              {"grid_sample",
               [] {
                 grid_sample(Tensor::ones({1, 1, 2, 2}), Tensor::ones({1, 2, 2, 2}, {.dtype = kFloat64}));
               },
               {"dtype", "float32", "float64"}},
              {"grid_sample",
               [] {
                 grid_sample(Tensor::ones({1, 1, 2, 2}), Tensor::ones({1, 2, 2, 2}),
                             {.mode = static_cast<GridSampleMode>(3)});
               },
               {"GridSampleMode", "3"}},
              {"grid_sample",
               [] {
                 grid_sample(Tensor::ones({1, 1, 2, 2, 2}), Tensor::ones({1, 2, 2, 2, 2}));
               },
               {"(N, D', H', W', 3)", "(1, 2, 2, 2, 2)"}},
              {"grid_sample",
               [] {
                 grid_sample(Tensor::ones({1, 1, 2, 2, 2}), Tensor::ones({1, 2, 2, 2}));
               },
               {"(1, 1, 2, 2, 2)", "(1, 2, 2, 2)"}},
              {"grid_sample",
               [] {
                 grid_sample(Tensor::ones({1, 1, 0, 2, 2}), Tensor::ones({1, 2, 2, 2, 3}));
               },
               {"depth, height and width", "(1, 1, 0, 2, 2)"}},
              {"grid_sample",
               [] {
                 grid_sample(Tensor::ones({1, 1, 2, 2, 2}), Tensor::ones({1, 2, 2, 2, 3}), {.mode = "bicubic"});
               },
               {"kBicubic needs an image", "(1, 1, 2, 2, 2)"}},
              {"affine_grid",
               [] {
                 affine_grid(Tensor::ones({1, 2, 3}), {1, 1, 2, 2, 2});
               },
               {"(N, 3, 4)", "(1, 2, 3)"}},
              {"affine_grid",
               [] {
                 affine_grid(Tensor::ones({1, 3, 3}), {1, 1, 2, 2});
               },
               {"(N, 2, 3)", "(1, 3, 3)"}},
              {"affine_grid",
               [] {
                 affine_grid(Tensor::ones({1, 2, 3}), {1, 1, 0, 2});
               },
               {"pixels", "(1, 1, 0, 2)"}},
          }};
}

}  // namespace adjoint::testing
