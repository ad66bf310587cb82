// Image metrics.
#include <adjoint/ops/loss/image.h>
#include <adjoint/tests/support/operator_cases.h>

namespace adjoint::testing {
namespace {

using In = const std::vector<Tensor>&;
using Out = std::vector<Tensor>;

template <Reduction kReduction>
void add(std::vector<OperatorCase>& cases, const std::string& r) {
  cases.push_back({.name = "ssim/" + r, .call = [](In in) -> Out {
                     return {ssim(in[0], in[1], {.data_range = 16.0, .window_size = 3, .reduction = kReduction})};
                   }});
  cases.push_back({.name = "psnr/" + r, .call = [](In in) -> Out {
                     return {psnr(in[0], in[1], {.data_range = 4.0, .reduction = kReduction})};
                   }});
  cases.push_back(
      {.name = "total_variation/" + r, .call = [](In in) -> Out { return {total_variation(in[0], kReduction)}; }});
}

std::vector<OperatorCase> cases() {
  std::vector<OperatorCase> all = {
      {.name = "ssim/default", .call = [](In in) -> Out { return {ssim(in[0], in[1])}; }},
      {.name = "ssim/empty",
       .call = [](In in) -> Out { return {ssim(in[0], in[1], {.window_size = 3, .reduction = Reduction::kSum})}; }},
      {.name = "psnr/default",
       .call = [](In in) -> Out { return {psnr(in[0], in[1], {.reduction = Reduction::kNone})}; }},
      {.name = "psnr/empty", .call = [](In in) -> Out { return {psnr(in[0], in[1], {.reduction = Reduction::kSum})}; }},
      {.name = "total_variation/default", .call = [](In in) -> Out { return {total_variation(in[0])}; }},
  };
  add<Reduction::kMean>(all, "mean");
  add<Reduction::kSum>(all, "sum");
  add<Reduction::kNone>(all, "none");
  return all;
}

Tensor ones(const Shape& shape) { return Tensor::ones(shape); }

}  // namespace

OperatorFamily image_operators() {
  return {.name = "image",
          .cases = cases(),
          .bad_calls = {
              {"ssim",
               [] {
                 ssim(ones({1, 1, 12, 12}), ones({1, 1, 12, 1}));
               },
               {"one shape", "(1, 1, 12, 1)"}},
              {"ssim",
               [] {
                 ssim(ones({1, 1, 12, 10}), ones({1, 1, 12, 10}));
               },
               {"window_size", "11"}},
              {"ssim",
               [] {
                 ssim(ones({1, 1, 9, 9}), ones({1, 1, 9, 9}), {.window_size = 4});
               },
               {"odd", "4"}},
              {"ssim",
               [] {
                 ssim(ones({9, 9}), ones({9, 9}));
               },
               {"four axes", "(9, 9)"}},
              {"psnr",
               [] {
                 psnr(ones({1, 1, 2, 2}), ones({1, 1, 1, 2}));
               },
               {"one shape", "(1, 1, 1, 2)"}},
              {"psnr",
               [] {
                 psnr(ones({1, 1, 2, 2}), ones({1, 1, 2, 2}), {.data_range = 0.0});
               },
               {"data_range", "0"}},
              {"total_variation",
               [] {
                 total_variation(ones({2, 2}));
               },
               {"four axes", "(2, 2)"}},
          }};
}

}  // namespace adjoint::testing
