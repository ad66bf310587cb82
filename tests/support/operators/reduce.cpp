// Reductions.
#include <adjoint/ops/reduce/close.h>
#include <adjoint/ops/reduce/reduce.h>
#include <adjoint/ops/scan/scan.h>
#include <adjoint/ops/softmax/softmax.h>
#include <adjoint/tests/support/operator_cases.h>

#include <cmath>
#include <limits>
#include <utility>

namespace adjoint::testing {
namespace {

using In = const std::vector<Tensor>&;
using Out = std::vector<Tensor>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Out both(std::pair<Tensor, Tensor> results) { return {std::move(results.first), std::move(results.second)}; }

}  // namespace

OperatorFamily reduce_operators() {
  return {
      .name = "reduce",
      .cases =
          {
              {.name = "sum",
               .call = [](In in) -> Out {
                 return {in[0].sum({0, 2})};
               }},
              {.name = "sum/all", .call = [](In in) -> Out { return {sum(in[0])}; }, .takes = Takes::kEverything},
              {.name = "sum/keepdim",
               .call = [](In in) -> Out { return {in[0].sum({1}, true)}; },
               .takes = Takes::kEverything},
              {.name = "mean", .call = [](In in) -> Out { return {mean(in[0], -1)}; }},
              {.name = "prod", .call = [](In in) -> Out { return {prod(in[0], 1)}; }, .takes = Takes::kEverything},
              {.name = "prod/axes",
               .call = [](In in) -> Out {
                 return {prod(in[0], {0, 2}, true)};
               }},
              {.name = "prod/all", .call = [](In in) -> Out { return {prod(in[0])}; }},
              {.name = "norm", .call = [](In in) -> Out { return {norm(in[0], 2.0, 1)}; }},
              {.name = "norm/one", .call = [](In in) -> Out { return {norm(in[0], 1.0, 1)}; }},
              {.name = "norm/infinity", .call = [](In in) -> Out { return {norm(in[0], kInfinity, 1)}; }},
              {.name = "norm/minus_infinity", .call = [](In in) -> Out { return {norm(in[0], -kInfinity, 1)}; }},
              {.name = "norm/three", .call = [](In in) -> Out { return {norm(in[0], 3.0, 1)}; }},
              {.name = "norm/half", .call = [](In in) -> Out { return {norm(in[0], 0.5, 1)}; }},
              {.name = "norm/three_halves", .call = [](In in) -> Out { return {norm(in[0], 1.5, 1)}; }},
              {.name = "norm/minus_one", .call = [](In in) -> Out { return {norm(in[0], -1.0, 1)}; }},
              {.name = "norm/zero",
               .call = [](In in) -> Out {
                 return {norm(in[0], 0.0, {0, 2}, true)};
               }},
              {.name = "norm/all", .call = [](In in) -> Out { return {norm(in[0])}; }},
              {.name = "logsumexp", .call = [](In in) -> Out { return {logsumexp(in[0], 1)}; }},
              {.name = "logsumexp/axes",
               .call = [](In in) -> Out {
                 return {logsumexp(in[0], {0, 2}, true)};
               }},
              {.name = "logsumexp/infinite",
               .call = [](In in) -> Out { return {logsumexp(in[0].detach(), 1)}; },
               .differentiable = false},
              {.name = "var",
               .call = [](In in) -> Out {
                 return {var(in[0], {0, 2})};
               }},
              {.name = "var/population", .call = [](In in) -> Out { return {var(in[0], {1}, 0, true)}; }},
              {.name = "std",
               .call = [](In in) -> Out {
                 return {std(in[0], {0, 2})};
               }},
              {.name = "std/population", .call = [](In in) -> Out { return {std(in[0], {1}, 0, true)}; }},
              {.name = "var_mean",
               .call = [](In in) -> Out {
                 return both(var_mean(in[0], {0, 2}));
               }},
              {.name = "var_mean/keepdim", .call = [](In in) -> Out { return both(var_mean(in[0], 1, 0, true)); }},
              {.name = "std_mean", .call = [](In in) -> Out { return both(std_mean(in[0], -1)); }},
              {.name = "max/all", .call = [](In in) -> Out { return {max(in[0])}; }, .takes = Takes::kEverything},
              {.name = "max/axis",
               .call = [](In in) -> Out { return both(max(in[0], 0, true)); },
               .takes = Takes::kEverything},
              {.name = "max/last_axis",
               .call = [](In in) -> Out { return both(max(in[0], 1)); },
               .takes = Takes::kEverything},
              {.name = "min", .call = [](In in) -> Out { return {min(in[0])}; }, .takes = Takes::kEverything},
              {.name = "min/axis",
               .call = [](In in) -> Out { return both(min(in[0], 0, true)); },
               .takes = Takes::kEverything},
              {.name = "min/last_axis",
               .call = [](In in) -> Out { return both(min(in[0], 1)); },
               .takes = Takes::kEverything},
              {.name = "amax",
               .call = [](In in) -> Out {
                 return {amax(in[0], {0, 2}, true)};
               },
               .takes = Takes::kEverything},
              {.name = "amax/last_axis",
               .call = [](In in) -> Out { return {amax(in[0], 1)}; },
               .takes = Takes::kEverything},
              {.name = "amin",
               .call = [](In in) -> Out {
                 return {amin(in[0], {0, 2})};
               },
               .takes = Takes::kEverything},
              {.name = "amin/last_axis",
               .call = [](In in) -> Out { return {amin(in[0], 1)}; },
               .takes = Takes::kEverything},
              {.name = "argmax",
               .call = [](In in) -> Out { return {argmax(in[0], 1)}; },
               .takes = Takes::kEverything,
               .differentiable = false},
              {.name = "argmax/all",
               .call = [](In in) -> Out { return {argmax(in[0])}; },
               .takes = Takes::kEverything,
               .differentiable = false},
              {.name = "argmin",
               .call = [](In in) -> Out { return {argmin(in[0], 1, true)}; },
               .takes = Takes::kEverything,
               .differentiable = false},
              {.name = "argmin/all",
               .call = [](In in) -> Out { return {argmin(in[0])}; },
               .takes = Takes::kEverything,
               .differentiable = false},
              {.name = "any",
               .call = [](In in) -> Out { return {any(in[0], 1)}; },
               .takes = Takes::kEverything,
               .differentiable = false},
              {.name = "any/all",
               .call = [](In in) -> Out { return {any(in[0])}; },
               .takes = Takes::kEverything,
               .differentiable = false},
              {.name = "all",
               .call = [](In in) -> Out { return {all(in[0], 1, true)}; },
               .takes = Takes::kEverything,
               .differentiable = false},
              {.name = "all/all",
               .call = [](In in) -> Out { return {all(in[0])}; },
               .takes = Takes::kEverything,
               .differentiable = false},
              {.name = "softmax", .call = [](In in) -> Out { return {softmax(in[0], 1)}; }},
              {.name = "softmax/last_axis", .call = [](In in) -> Out { return {softmax(in[0], -1)}; }},
              {.name = "softmax/first_axis", .call = [](In in) -> Out { return {softmax(in[0], 0)}; }},
              {.name = "softmax/infinite",
               .call = [](In in) -> Out { return {softmax(in[0].detach(), 1)}; },
               .differentiable = false},
              {.name = "log_softmax", .call = [](In in) -> Out { return {log_softmax(in[0], 1)}; }},
              {.name = "log_softmax/last_axis", .call = [](In in) -> Out { return {log_softmax(in[0], -1)}; }},
              {.name = "log_softmax/first_axis", .call = [](In in) -> Out { return {log_softmax(in[0], 0)}; }},
              {.name = "log_softmax/infinite",
               .call = [](In in) -> Out { return {log_softmax(in[0].detach(), 1)}; },
               .differentiable = false},
              {.name = "isclose",
               .call = [](In in) -> Out { return {isclose(in[0], in[1])}; },
               .takes = Takes::kEverything,
               .differentiable = false},
              {.name = "isclose/tolerances",
               .call = [](In in) -> Out {
                 return {isclose(in[0], in[1], {.rtol = 0.0, .atol = 0.5, .equal_nan = true})};
               },
               .takes = Takes::kEverything,
               .differentiable = false},
              {.name = "cumsum", .call = [](In in) -> Out { return {cumsum(in[0], 1)}; }, .takes = Takes::kEverything},
              {.name = "cumsum/first_axis",
               .call = [](In in) -> Out { return {cumsum(in[0], 0)}; },
               .takes = Takes::kEverything},
              {.name = "cumsum/last_axis",
               .call = [](In in) -> Out { return {cumsum(in[0], -1)}; },
               .takes = Takes::kEverything},
          },
      .bad_calls = {
          {"softmax",
           [] {
             (void)softmax(Tensor::ones({2, 3}), 2);
           },
           {"axis", "2"}},
          {"log_softmax", [] { (void)log_softmax(Tensor::ones({2}, {.dtype = kInt32}), 0); }, {"floating point"}},
          {"cumsum", [] { (void)cumsum(Tensor{}, 0); }, {"x"}},
          {"isclose", [] { (void)isclose(Tensor::ones({2}), Tensor{}); }, {"b"}},
          {"isclose",
           [] { (void)isclose(Tensor::ones({2}), Tensor::ones({2}), {.rtol = -1.0}); },
           {"negative", "rtol -1"}},
          {"isclose", [] { (void)isclose(Tensor::ones({2}), Tensor::ones({3})); }, {"(2,)", "(3,)"}},
          {"allclose", [] { (void)allclose(Tensor::ones({2}), Tensor::ones({3})); }, {"(2,)", "(3,)"}},
          {"equal", [] { (void)equal(Tensor{}, Tensor::ones({3})); }, {"a"}},
          {"sum",
           [] {
             (void)Tensor::ones({2, 3}).sum({2});
           },
           {"axis", "2"}},
          {"mean", [] { (void)Tensor::ones({2}, {.dtype = kInt32}).mean(); }, {"floating point"}},
          {"max", [] { (void)Tensor::ones({0}).max(); }, {"elements"}},
          {"max",
           [] {
             (void)max(Tensor::ones({2, 3}), 2);
           },
           {"axis", "2"}},
          {"min",
           [] {
             (void)min(Tensor::ones({2, 0}), 1);
           },
           {"elements"}},
          {"amax",
           [] {
             (void)amax(Tensor::ones({2, 0}), 1);
           },
           {"elements"}},
          {"amin", [] { (void)amin(Tensor{}); }, {"input"}},
          {"var",
           [] {
             (void)var(Tensor::ones({2, 3}), {0, 0});
           },
           {"differ"}},
          {"std", [] { (void)std(Tensor::ones({2}, {.dtype = kBool})); }, {"floating point", "bool"}},
          {"var_mean", [] { (void)var_mean(Tensor::ones({2}, {.dtype = kInt64})); }, {"floating point"}},
          {"std_mean", [] { (void)std_mean(Tensor::ones({2}), 1); }, {"axis", "1"}},
          {"argmax",
           [] {
             (void)argmax(Tensor::ones({2, 0}), 1);
           },
           {"elements"}},
          {"argmin", [] { (void)argmin(Tensor::ones({0})); }, {"elements"}},
          {"prod", [] { (void)prod(Tensor::ones({2}), -2); }, {"axis", "-2"}},
          {"norm", [] { (void)norm(Tensor::ones({2}, {.dtype = kInt32})); }, {"floating point"}},
          {"norm", [] { (void)norm(Tensor::ones({0}), -1.0); }, {"elements"}},
          {"norm", [] { (void)norm(Tensor::ones({2}), std::nan("")); }, {"p must be"}},
          {"logsumexp", [] { (void)logsumexp(Tensor::ones({2}, {.dtype = kUInt8})); }, {"floating point", "uint8"}},
          {"any", [] { (void)any(Tensor::ones({2}), 1); }, {"axis", "1"}},
          {"all",
           [] {
             (void)all(Tensor::ones({2}), {0, -1});
           },
           {"differ"}},
      }};
}

}  // namespace adjoint::testing
