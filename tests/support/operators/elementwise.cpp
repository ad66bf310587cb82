// Elementwise functions that the table of elementwise_cases.cpp has no form for.
#include <adjoint/ops/elementwise/elementwise.h>

#include <adjoint/tests/support/operator_cases.h>

namespace adjoint::testing {

using In = const std::vector<Tensor>&;
using Out = std::vector<Tensor>;

OperatorFamily elementwise_operators() {
  return {.name = "elementwise",
          .cases =
              {
                  {.name = "prelu", .call = [](In in) -> Out { return {prelu(in[0], in[1])}; }},
                  {.name = "glu", .call = [](In in) -> Out { return {glu(in[0], 1)}; }},
                  {.name = "isnan", .call = [](In in) -> Out { return {isnan(in[0])}; }, .differentiable = false},
                  {.name = "isinf", .call = [](In in) -> Out { return {isinf(in[0])}; }, .differentiable = false},
                  {.name = "isfinite", .call = [](In in) -> Out { return {isfinite(in[0])}; }, .differentiable = false},
                  {.name = "nan_to_num", .call = [](In in) -> Out { return {nan_to_num(in[0], 2.0, 3.0, -4.0)}; }},
              },
          .bad_calls = {
              {"prelu",
               [] {
                 prelu(Tensor::ones({2, 3}), Tensor::ones({2}));
               },
               {"3", "2"}},
              {"glu",
               [] {
                 glu(Tensor::ones({2, 3}), 1);
               },
               {"3"}},
              {"isnan", [] { isnan(Tensor{}); }, {"defined"}},
              {"isinf", [] { isinf(Tensor{}); }, {"defined"}},
              {"isfinite", [] { isfinite(Tensor{}); }, {"defined"}},
              {"nan_to_num", [] { nan_to_num(Tensor{}); }, {"defined"}},
          }};
}

}  // namespace adjoint::testing
