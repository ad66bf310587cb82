// Functions that only rearrange elements.
#include <adjoint/ops/view/diagonal.h>
#include <adjoint/ops/view/view.h>
#include <adjoint/tests/support/operator_cases.h>

namespace adjoint::testing {

using In = const std::vector<Tensor>&;
using Out = std::vector<Tensor>;

namespace {

constexpr auto kAny = Takes::kEverything;

std::vector<OperatorCase> matrix_cases() {
  return {
      {.name = "diagonal", .call = [](In in) -> Out { return {diagonal(in[0])}; }, .takes = kAny},
      {.name = "diagonal/axes", .call = [](In in) -> Out { return {diagonal(in[0], -1, 2, 0)}; }, .takes = kAny},
      {.name = "diagonal/outside", .call = [](In in) -> Out { return {diagonal(in[0], 7, 0, -1)}; }, .takes = kAny},
      {.name = "diag", .call = [](In in) -> Out { return {diag(in[0], 1)}; }, .takes = kAny},
      {.name = "diag/below", .call = [](In in) -> Out { return {diag(in[0], -2)}; }, .takes = kAny},
      {.name = "tril", .call = [](In in) -> Out { return {tril(in[0])}; }, .takes = kAny},
      {.name = "tril/offset", .call = [](In in) -> Out { return {tril(in[0], 1)}; }, .takes = kAny},
      {.name = "triu", .call = [](In in) -> Out { return {triu(in[0])}; }, .takes = kAny},
      {.name = "triu/offset", .call = [](In in) -> Out { return {triu(in[0], -1)}; }, .takes = kAny},
      {.name = "repeat_interleave",
       .call = [](In in) -> Out { return {repeat_interleave(in[0], 2, 1)}; },
       .takes = kAny},
      {.name = "repeat_interleave/all",
       .call = [](In in) -> Out { return {repeat_interleave(in[0], 3)}; },
       .takes = kAny},
      {.name = "repeat_interleave/tensor",
       .call = [](In in) -> Out { return {repeat_interleave(in[0], in[1], 0)}; },
       .takes = kAny},
      {.name = "meshgrid", .call = [](In in) { return meshgrid(in); }, .takes = kAny},
      {.name = "meshgrid/xy", .call = [](In in) { return meshgrid(in, "xy"); }, .takes = kAny},
  };
}

std::vector<BadCall> matrix_bad_calls() {
  const auto counts = [](const std::vector<std::int64_t>& values) {
    return Tensor::from_vector(values, {static_cast<std::int64_t>(values.size())});
  };
  return {
      {"diagonal",
       [] {
         diagonal(Tensor::ones({3, 3}), 0, 1, -1);
       },
       {"differ", "1 and -1", "(3, 3)"}},
      {"diagonal", [] { diagonal(Tensor::ones({3})); }, {"axis"}},
      {"diag",
       [] {
         diag(Tensor::ones({3, 3, 3}));
       },
       {"one or two axes", "(3, 3, 3)"}},
      {"diag", [] { diag(Tensor::ones({3}), INT64_MAX); }, {"63 bits", "(3,)"}},
      {"tril", [] { tril(Tensor::ones({3})); }, {"two axes", "(3,)"}},
      {"triu", [] { triu(Tensor{}); }, {"x"}},
      {"repeat_interleave", [] { repeat_interleave(Tensor::ones({3}), -1); }, {"negative", "-1", "(3,)"}},
      {"repeat_interleave",
       [=] {
         repeat_interleave(Tensor::ones({3}), counts({1, 2}));
       },
       {"each of 3", "(2,)"}},
      {"repeat_interleave",
       [=] {
         repeat_interleave(Tensor::ones({3}), counts({1, -2, 0}));
       },
       {"-2 for element 1"}},
      {"repeat_interleave", [] { repeat_interleave(Tensor::ones({3}), Tensor::ones({3})); }, {"int64", "float32"}},
      {"meshgrid", [] { meshgrid({}); }, {"1 to 8 tensors; got 0"}},
      {"meshgrid", [] { meshgrid({Tensor::ones({3})}, "ji"); }, {"\"ij\"", "\"ji\""}},
      {"meshgrid",
       [] {
         meshgrid({Tensor::ones({3, 1})});
       },
       {"one axis", "(3, 1)"}},
      {"meshgrid",
       [] {
         meshgrid({Tensor::ones({3}), Tensor::ones({3}, {.dtype = kFloat64})});
       },
       {"float32", "float64"}},
  };
}

OperatorFamily rearranging() {
  return {.name = "view",
          .cases =
              {
                  {.name = "slice", .call = [](In in) -> Out { return {slice(in[0], 1, 1, 7, 3)}; }, .takes = kAny},
                  {.name = "slice/backwards",
                   .call = [](In in) -> Out { return {slice(in[0], 0, -5, -1)}; },
                   .takes = kAny},
                  {.name = "split", .call = [](In in) { return split(in[0], 2, -1); }, .takes = kAny},
                  {.name = "split/sizes",
                   .call =
                       [](In in) {
                         return split(in[0], {1, 0, 3}, 0);
                       },
                   .takes = kAny},
                  {.name = "chunk", .call = [](In in) { return chunk(in[0], 3, 1); }, .takes = kAny},
                  {.name = "unbind", .call = [](In in) { return unbind(in[0], 1); }, .takes = kAny},
                  {.name = "repeat",
                   .call = [](In in) -> Out {
                     return {repeat(in[0], {2, 1, 3})};
                   },
                   .takes = kAny},
                  {.name = "repeat/expands",
                   .call = [](In in) -> Out {
                     return {repeat(in[0], {4, 1})};
                   },
                   .takes = kAny},
                  {.name = "repeat/many_axes",
                   .call = [](In in) -> Out {
                     return {repeat(in[0], {2, 1, 2, 1, 3})};
                   },
                   .takes = kAny},
                  {.name = "flip",
                   .call = [](In in) -> Out {
                     return {flip(in[0], {0, -1})};
                   },
                   .takes = kAny},
                  {.name = "movedim",
                   .call = [](In in) -> Out {
                     return {movedim(in[0], {0, -1}, {2, 0})};
                   },
                   .takes = kAny},
                  {.name = "unflatten",
                   .call = [](In in) -> Out {
                     return {unflatten(in[0], 1, {2, -1})};
                   },
                   .takes = kAny},
                  {.name = "embed",
                   .call = [](In in) -> Out { return {embed(in[0], 0, 1, 2 * in[0].size(0) + 2, 2)}; },
                   .takes = kAny},
                  {.name = "sum_to",
                   .call = [](In in) -> Out {
                     return {sum_to(in[0], {3, 1})};
                   }},
              },
          .bad_calls = {
              {"slice", [] { slice(Tensor::ones({3}), 0, {}, {}, -1); }, {"step must be at least 1; got -1", "(3,)"}},
              {"split", [] { split(Tensor::ones({3}), 0); }, {"split_size", "0"}},
              {"split",
               [] {
                 split(Tensor::ones({3}), {1, 1}, 0);
               },
               {"add up", "2", "(3,)"}},
              {"split",
               [] {
                 split(Tensor::ones({3}), {4, -1}, 0);
               },
               {"add up"}},
              {"chunk", [] { chunk(Tensor::ones({3}), 0); }, {"chunks must be at least 1; got 0"}},
              {"chunk", [] { chunk(Tensor::ones({0}), INT64_MAX); }, {"1048576", "(0,)"}},
              {"unbind", [] { unbind(Tensor::scalar(1.0)); }, {"axis"}},
              {"repeat",
               [] {
                 repeat(Tensor::ones({2, 3}), {2});
               },
               {"(2,)", "(2, 3)"}},
              {"repeat",
               [] {
                 repeat(Tensor::ones({2, 3}), {2, -1});
               },
               {"negative", "-1"}},
              {"flip",
               [] {
                 flip(Tensor::ones({2, 3}), {1, -1});
               },
               {"differ", "(1, -1)"}},
              {"movedim",
               [] {
                 movedim(Tensor::ones({2, 3}), {0, 1}, {0});
               },
               {"as many"}},
              {"movedim",
               [] {
                 movedim(Tensor::ones({2, 3}), {0, 0}, {0, 1});
               },
               {"differ"}},
              {"unflatten",
               [] {
                 unflatten(Tensor::ones({2, 6}), 1, {4, -1});
               },
               {"multiply", "(4, -1)", "axis 1 of x (2, 6)"}},
              {"unflatten",
               [] {
                 unflatten(Tensor::ones({2, 6}), 1, {2, 2});
               },
               {"multiply", "(2, 2)"}},
              {"unflatten", [] { unflatten(Tensor::ones({6}), 0, {}); }, {"an extent at least"}},
              {"embed", [] { embed(Tensor::ones({3}), 0, 0, 4, 2); }, {"fit", "2 apart"}},
              {"embed", [] { embed(Tensor::ones({3}), 0, 0, 4, 0); }, {"step must be at least 1; got 0"}},
              {"embed", [] { embed(Tensor::ones({3}), 0, 0, INT64_MAX, INT64_MAX); }, {"fit"}},
              {"sum_to",
               [] {
                 sum_to(Tensor::ones({2, 3}), {2});
               },
               {"broadcast", "(2,)"}},
          }};
}

}  // namespace

OperatorFamily view_operators() {
  OperatorFamily family = rearranging();
  for (const OperatorCase& c : matrix_cases()) family.cases.push_back(c);
  for (const BadCall& bad : matrix_bad_calls()) family.bad_calls.push_back(bad);
  return family;
}

}  // namespace adjoint::testing
