// Operators that join elements.
#include <adjoint/ops/join/join.h>

#include <adjoint/ops/resample/resample.h>
#include <adjoint/ops/roll/roll.h>
#include <adjoint/tests/support/operator_cases.h>

namespace adjoint::testing {

using In = const std::vector<Tensor>&;
using Out = std::vector<Tensor>;

OperatorFamily join_operators() {
  return {
      .name = "join",
      .cases =
          {
              {.name = "cat",
               .call = [](In in) -> Out {
                 return {cat({in[0], in[1], in[0]}, 1)};
               },
               .takes = Takes::kEverything},
              {.name = "stack",
               .call = [](In in) -> Out {
                 return {stack({in[0], in[1]}, -1)};
               },
               .takes = Takes::kEverything},
              {.name = "roll", .call = [](In in) -> Out { return {roll(in[0], 2, 1)}; }, .takes = Takes::kEverything},
              {.name = "pixel_shuffle",
               .call = [](In in) -> Out { return {pixel_shuffle(in[0], 2)}; },
               .takes = Takes::kEverything},
              {.name = "pixel_unshuffle",
               .call = [](In in) -> Out { return {pixel_unshuffle(in[0], 2)}; },
               .takes = Takes::kEverything},
          },
      .bad_calls = {
          {"cat",
           [] {
             cat({Tensor::ones({2, 3}), Tensor::ones({3, 3})}, 1);
           },
           {"(2, 3)", "(3, 3)"}},
          {"stack",
           [] {
             stack({Tensor::ones({2}), Tensor::ones({3})});
           },
           {"(2,)", "(3,)"}},
          {"roll", [] { roll(Tensor::ones({2}), 1, 1); }, {"axis"}},
          {"pixel_shuffle",
           [] {
             pixel_shuffle(Tensor::ones({1, 3, 2, 2}), 2);
           },
           {"3"}},
          {"pixel_unshuffle",
           [] {
             pixel_unshuffle(Tensor::ones({1, 3, 3, 2}), 2);
           },
           {"3"}},
      }};
}

}  // namespace adjoint::testing
