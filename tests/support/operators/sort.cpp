// Sorting, searching, and the functions that are built on them.
#include <adjoint/ops/sort/sort.h>
#include <adjoint/tests/support/operator_cases.h>

#include <tuple>
#include <utility>

namespace adjoint::testing {
namespace {

using In = const std::vector<Tensor>&;
using Out = std::vector<Tensor>;

constexpr auto kAny = Takes::kEverything;

Out both(const std::pair<Tensor, Tensor>& results) { return {results.first, results.second}; }
Out three(const std::tuple<Tensor, Tensor, Tensor>& results) {
  return {std::get<0>(results), std::get<1>(results), std::get<2>(results)};
}

Tensor shares(const Tensor& like) {
  return Tensor::from_vector<double>({0.0, 0.3, 0.5, 1.0}, {4}, {.dtype = kFloat64, .device = like.device()});
}

std::vector<OperatorCase> cases() {
  std::vector<OperatorCase> all{
      {.name = "sort", .call = [](In in) { return both(sort(in[0])); }, .takes = kAny},
      {.name = "sort/descending", .call = [](In in) { return both(sort(in[0], 1, true)); }, .takes = kAny},
      {.name = "sort/first_axis", .call = [](In in) { return both(sort(in[0], 0)); }, .takes = kAny},
      {.name = "argsort",
       .call = [](In in) -> Out { return {argsort(in[0], 1)}; },
       .takes = kAny,
       .differentiable = false},
      {.name = "argsort/descending",
       .call = [](In in) -> Out { return {argsort(in[0], 0, true)}; },
       .takes = kAny,
       .differentiable = false},
      {.name = "topk", .call = [](In in) { return both(topk(in[0], 2)); }, .takes = kAny},
      {.name = "topk/least", .call = [](In in) { return both(topk(in[0], 3, 0, false)); }, .takes = kAny},
      {.name = "kthvalue", .call = [](In in) { return both(kthvalue(in[0], 2, 1)); }, .takes = kAny},
      {.name = "kthvalue/keepdim", .call = [](In in) { return both(kthvalue(in[0], 4, 0, true)); }, .takes = kAny},
      {.name = "median", .call = [](In in) -> Out { return {median(in[0])}; }, .takes = kAny},
      {.name = "median/axis", .call = [](In in) { return both(median(in[0], 1)); }, .takes = kAny},
      {.name = "median/keepdim", .call = [](In in) { return both(median(in[0], 0, true)); }, .takes = kAny},
      {.name = "quantile", .call = [](In in) -> Out { return {quantile(in[0], 0.3)}; }},
      {.name = "quantile/axis", .call = [](In in) -> Out { return {quantile(in[0], 0.6, {.axis = 1})}; }},
      {.name = "quantile/several",
       .call = [](In in) -> Out { return {quantile(in[0], shares(in[0]), {.axis = 0, .keepdim = true})}; }},
      {.name = "searchsorted",
       .call = [](In in) -> Out { return {searchsorted(in[0], in[1])}; },
       .takes = Takes::kNumbers,
       .differentiable = false},
      {.name = "searchsorted/right",
       .call = [](In in) -> Out { return {searchsorted(in[0], in[1], true)}; },
       .takes = Takes::kNumbers,
       .differentiable = false},
      {.name = "unique", .call = [](In in) { return three(unique(in[0])); }, .takes = kAny, .differentiable = false},
      {.name = "unique/axis",
       .call = [](In in) { return three(unique(in[0], 0)); },
       .takes = kAny,
       .differentiable = false},
      {.name = "unique/last_axis",
       .call = [](In in) { return three(unique(in[0], -1)); },
       .takes = kAny,
       .differentiable = false},
  };
  for (const char* name : {"lower", "higher", "nearest", "midpoint"}) {
    all.push_back({.name = std::string("quantile/") + name, .call = [name](In in) -> Out {
                     return {quantile(in[0], shares(in[0]), {.axis = 1, .interpolation = name})};
                   }});
  }
  return all;
}

Tensor ones(const Shape& shape) { return Tensor::ones(shape); }

}  // namespace

OperatorFamily sort_operators() {
  return {.name = "sort",
          .cases = cases(),
          .bad_calls = {
              {"sort", [] { sort(ones({2}), 1); }, {"axis", "1"}},
              {"argsort", [] { argsort(Tensor{}); }, {"x"}},
              {"topk", [] { topk(ones({3}), 4); }, {"[0, 3]", "got 4", "(3,)"}},
              {"topk", [] { topk(ones({3}), -1); }, {"got -1"}},
              {"kthvalue", [] { kthvalue(ones({3}), 0); }, {"[1, 3]", "got 0"}},
              {"median", [] { median(ones({0})); }, {"an element", "(0,)"}},
              {"median",
               [] {
                 median(ones({2, 0}), 1);
               },
               {"an element", "(2, 0)"}},
              {"quantile", [] { quantile(ones({3}), 1.5); }, {"[0, 1]", "1.5"}},
              {"quantile", [] { quantile(ones({0}), 0.5); }, {"an element", "(0,)"}},
              {"quantile", [] { quantile(Tensor::ones({3}, {.dtype = kInt64}), 0.5); }, {"floating point", "int64"}},
              {"quantile", [] { quantile(ones({3}), 0.5, {.interpolation = "cubic"}); }, {"\"linear\"", "\"cubic\""}},
              {"quantile",
               [] {
                 quantile(ones({3}), Tensor::ones({1, 1}));
               },
               {"one axis", "(1, 1)"}},
              {"searchsorted",
               [] {
                 searchsorted(ones({2, 3}), ones({3, 3}));
               },
               {"(2, 3)", "(3, 3)"}},
              {"searchsorted", [] { searchsorted(ones({}), ones({3})); }, {"one axis", "()"}},
              {"searchsorted",
               [] { searchsorted(ones({3}), Tensor::ones({3}, {.dtype = kFloat64})); },
               {"share a dtype", "float64"}},
              {"unique", [] { unique(ones({3}), 1); }, {"axis", "1"}},
              {"unique", [] { unique(Tensor{}); }, {"x"}},
          }};
}

}  // namespace adjoint::testing
