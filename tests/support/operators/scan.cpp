// Running products and extremes.
#include <adjoint/ops/scan/scan.h>
#include <adjoint/tests/support/operator_cases.h>

#include <utility>

namespace adjoint::testing {
namespace {

using In = const std::vector<Tensor>&;
using Out = std::vector<Tensor>;

Out both(const std::pair<Tensor, Tensor>& results) { return {results.first, results.second}; }

}  // namespace

OperatorFamily scan_operators() {
  constexpr auto kAny = Takes::kEverything;
  return {
      .name = "scan",
      .cases =
          {
              {.name = "cumprod", .call = [](In in) -> Out { return {cumprod(in[0], 1)}; }, .takes = kAny},
              {.name = "cumprod/first_axis", .call = [](In in) -> Out { return {cumprod(in[0], 0)}; }, .takes = kAny},
              {.name = "cumprod/one", .call = [](In in) -> Out { return {cumprod(in[0], -1)}; }, .takes = kAny},
              {.name = "cumprod/infinite",
               .call = [](In in) -> Out { return {cumprod(in[0].detach(), 1)}; },
               .differentiable = false},
              {.name = "logcumsumexp", .call = [](In in) -> Out { return {logcumsumexp(in[0], 1)}; }},
              {.name = "logcumsumexp/first_axis", .call = [](In in) -> Out { return {logcumsumexp(in[0], 0)}; }},
              {.name = "logcumsumexp/infinite",
               .call = [](In in) -> Out { return {logcumsumexp(in[0].detach(), 1)}; },
               .differentiable = false},
              {.name = "cummax", .call = [](In in) { return both(cummax(in[0], 1)); }, .takes = kAny},
              {.name = "cummax/first_axis", .call = [](In in) { return both(cummax(in[0], 0)); }, .takes = kAny},
              {.name = "cummin", .call = [](In in) { return both(cummin(in[0], 1)); }, .takes = kAny},
              {.name = "cummin/first_axis", .call = [](In in) { return both(cummin(in[0], 0)); }, .takes = kAny},
          },
      .bad_calls = {
          {"cumprod", [] { cumprod(Tensor{}, 0); }, {"x"}},
          {"cumprod", [] { cumprod(Tensor::ones({2}), 1); }, {"axis", "1"}},
          {"logcumsumexp", [] { logcumsumexp(Tensor::ones({2}, {.dtype = kInt32}), 0); }, {"floating point", "int32"}},
          {"logcumsumexp", [] { logcumsumexp(Tensor::ones({2}), -2); }, {"axis", "-2"}},
          {"cummax", [] { cummax(Tensor::ones({2}), 1); }, {"axis", "1"}},
          {"cummin", [] { cummin(Tensor{}, 0); }, {"x"}},
      }};
}

}  // namespace adjoint::testing
