// Reductions.
#include <adjoint/ops/reduce/reduce.h>
#include <adjoint/tests/support/operator_cases.h>

namespace adjoint::testing {

using In = const std::vector<Tensor>&;
using Out = std::vector<Tensor>;

OperatorFamily reduce_operators() {
  return {.name = "reduce",
          .cases =
              {
                  {.name = "sum",
                   .call = [](In in) -> Out {
                     return {in[0].sum({0, 2})};
                   }},
                  {.name = "sum/all", .call = [](In in) -> Out { return {in[0].sum()}; }},
                  {.name = "sum/keepdim", .call = [](In in) -> Out { return {in[0].sum({1}, true)}; }},
                  {.name = "mean", .call = [](In in) -> Out { return {in[0].mean({-1})}; }},
                  {.name = "max", .call = [](In in) -> Out { return {in[0].max({1})}; }, .takes = Takes::kEverything},
                  {.name = "var",
                   .call = [](In in) -> Out {
                     return {var(in[0], {0, 2})};
                   }},
                  {.name = "var/population", .call = [](In in) -> Out { return {var(in[0], {1}, 0, true)}; }},
                  {.name = "argmax",
                   .call = [](In in) -> Out { return {argmax(in[0], 1)}; },
                   .takes = Takes::kEverything,
                   .differentiable = false},
              },
          .bad_calls = {
              {"sum",
               [] {
                 Tensor::ones({2, 3}).sum({2});
               },
               {"axis", "2"}},
              {"mean", [] { Tensor::ones({2}, {.dtype = kInt32}).mean(); }, {"floating point"}},
              {"max", [] { Tensor::ones({0}).max(); }, {"elements"}},
              {"var",
               [] {
                 var(Tensor::ones({2, 3}), {0, 0});
               },
               {"differ"}},
              {"argmax",
               [] {
                 argmax(Tensor::ones({2, 0}), 1);
               },
               {"elements"}},
          }};
}

}  // namespace adjoint::testing
