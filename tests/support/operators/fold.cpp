// Blocks of images.
#include <adjoint/ops/fold/fold.h>
#include <adjoint/tests/support/operator_cases.h>

namespace adjoint::testing {

using In = const std::vector<Tensor>&;
using Out = std::vector<Tensor>;

OperatorFamily fold_operators() {
  static constexpr UnfoldParams kMixed{.kernel_size = {2, 3}, .dilation = {2, 1}, .padding = {1, 2}, .stride = {1, 2}};
  static constexpr UnfoldParams kPlain{.kernel_size = 2, .stride = 2};
  constexpr auto kAny = Takes::kEverything;
  return {
      .name = "fold",
      .cases =
          {
              {.name = "unfold", .call = [](In in) -> Out { return {unfold(in[0], kMixed)}; }, .takes = kAny},
              {.name = "unfold/unbatched", .call = [](In in) -> Out { return {unfold(in[0], kPlain)}; }, .takes = kAny},
              {.name = "fold",
               .call = [](In in) -> Out {
                 return {fold(in[0], {3, 4}, kMixed)};
               }},
              {.name = "fold/unbatched",
               .call = [](In in) -> Out {
                 return {fold(in[0], {4, 5}, kPlain)};
               }},
              {.name = "fold/apart",
               .call = [](In in) -> Out {
                 return {fold(in[0], {5, 6}, {.kernel_size = {1, 2}, .stride = {2, 4}})};
               }},
          },
      .bad_calls = {
          {"unfold",
           [] {
             unfold(Tensor::ones({3, 3}), kPlain);
           },
           {"(N, C, H, W)", "(3, 3)"}},
          {"unfold",
           [] {
             unfold(Tensor::ones({1, 1, 3, 3}), {.kernel_size = 4});
           },
           {"height", "hold a block", "3", "4"}},
          {"unfold",
           [] {
             unfold(Tensor::ones({1, 1, 3, 3}), {});
           },
           {"kernel_size", "0"}},
          {"unfold",
           [] {
             unfold(Tensor::ones({1, 1, 3, 3}), {.kernel_size = 2, .padding = {0, -1}});
           },
           {"padding", "-1", "width"}},
          {"unfold",
           [] {
             unfold(Tensor::ones({1, 1, 3, 3}), {.kernel_size = 2, .stride = INT64_MAX});
           },
           {"below 2^31"}},
          {"fold",
           [] {
             fold(Tensor::ones({1, 6, 4}), {4, 4}, kPlain);
           },
           {"multiple of the kernel's 4", "(1, 6, 4)"}},
          {"fold",
           [] {
             fold(Tensor::ones({1, 4, 5}), {4, 4}, kPlain);
           },
           {"4 blocks", "(1, 4, 5)"}},
          {"fold",
           [] {
             fold(Tensor::ones({1, 4, 5}, {.dtype = kInt32}), {4, 4}, kPlain);
           },
           {"floating point"}},
      }};
}

}  // namespace adjoint::testing
