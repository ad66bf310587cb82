// Picking elements by index.
#include <adjoint/ops/index/index.h>
#include <adjoint/tests/support/operator_cases.h>

#include <limits>

namespace adjoint::testing {

using In = const std::vector<Tensor>&;
using Out = std::vector<Tensor>;

namespace {

constexpr auto kAny = Takes::kEverything;

Tensor ints(const std::vector<std::int64_t>& values) {
  return Tensor::from_vector(values, {static_cast<std::int64_t>(values.size())}, {.dtype = kInt64});
}

Out put(const Tensor& x, const std::vector<Index>& indices, const auto& value, bool accumulate = false) {
  Tensor y = x.detach().clone();
  return {index_put_(y, indices, value, accumulate)};
}

std::vector<OperatorCase> picking_cases() {
  return {
      {.name = "index_select", .call = [](In in) -> Out { return {index_select(in[0], 1, in[1])}; }, .takes = kAny},
      {.name = "gather", .call = [](In in) -> Out { return {gather(in[0], 1, in[1])}; }, .takes = kAny},
      {.name = "gather/scalar", .call = [](In in) -> Out { return {gather(in[0], 0, in[1])}; }, .takes = kAny},
      {.name = "scatter", .call = [](In in) -> Out { return {scatter(in[0], 0, in[1], in[2])}; }, .takes = kAny},
      {.name = "scatter/value", .call = [](In in) -> Out { return {scatter(in[0], -1, in[1], 2.5)}; }},
      {.name = "scatter_add",
       .call = [](In in) -> Out { return {scatter_add(in[0], 1, in[1], in[2])}; },
       .takes = Takes::kNumbers},
      {.name = "take_along_dim", .call = [](In in) -> Out { return {take_along_dim(in[0], in[1], 1)}; }, .takes = kAny},
      {.name = "take_along_dim/broadcast",
       .call = [](In in) -> Out { return {take_along_dim(in[0], in[1], -1)}; },
       .takes = kAny},
      {.name = "take_along_dim/all",
       .call = [](In in) -> Out { return {take_along_dim(in[0], in[1])}; },
       .takes = kAny},
      {.name = "index_add",
       .call = [](In in) -> Out { return {index_add(in[0], 1, in[1], in[2])}; },
       .takes = Takes::kNumbers},
      {.name = "index_add/alpha",
       .call = [](In in) -> Out { return {index_add(in[0], 0, in[1], in[2], 2)}; },
       .takes = Takes::kNumbers},
      {.name = "embedding", .call = [](In in) -> Out { return {embedding(in[0], in[1])}; }, .takes = kAny},
      {.name = "embedding/padding", .call = [](In in) -> Out { return {embedding(in[0], in[1], -2)}; }, .takes = kAny},
      {.name = "embedding_renorm_",
       .call = [](In in) -> Out {
         Tensor weight = in[0].detach().clone();
         return {embedding_renorm_(weight, in[1], 1.5)};
       },
       .differentiable = false},
      {.name = "embedding_renorm_/largest",
       .call = [](In in) -> Out {
         Tensor weight = in[0].detach().clone();
         return {embedding_renorm_(weight, in[1], 1.0, std::numeric_limits<double>::infinity())};
       },
       .differentiable = false},
      {.name = "one_hot", .call = [](In in) -> Out { return {one_hot(in[0], 4)}; }, .differentiable = false},
      {.name = "one_hot/counted", .call = [](In in) -> Out { return {one_hot(in[0])}; }, .differentiable = false},
      {.name = "nonzero",
       .call = [](In in) -> Out { return {nonzero(in[0])}; },
       .takes = kAny,
       .differentiable = false},
      {.name = "masked_select", .call = [](In in) -> Out { return {masked_select(in[0], in[1])}; }, .takes = kAny},
  };
}

std::vector<OperatorCase> indexing_cases() {
  return {
      {.name = "index",
       .call = [](In in) -> Out {
         return {index(in[0], {Slice(), in[1]})};
       },
       .takes = kAny},
      {.name = "index/views",
       .call = [](In in) -> Out {
         return {index(in[0], {0, Slice(1, {}, 2), kEllipsis, kNewAxis, Slice(-2)})};
       },
       .takes = kAny},
      {.name = "index/apart",
       .call = [](In in) -> Out {
         return {index(in[0], {in[1], Slice(1), in[2]})};
       },
       .takes = kAny},
      {.name = "index/together",
       .call = [](In in) -> Out {
         return {index(in[0], {Slice(), in[1], in[2]})};
       },
       .takes = kAny},
      {.name = "index/mask", .call = [](In in) -> Out { return {index(in[0], {in[1]})}; }, .takes = kAny},
      {.name = "index/mask_and_tensor",
       .call = [](In in) -> Out {
         return {index(in[0], {kEllipsis, in[1], in[2], Slice()})};
       },
       .takes = kAny},
      {.name = "index/scalars",
       .call = [](In in) -> Out {
         return {index(in[0], {in[1], in[2]})};
       },
       .takes = kAny},
      {.name = "index_put_",
       .call =
           [](In in) {
             return put(in[0], {Slice(), Slice({}, {}, 2)}, in[1].detach());
           },
       .takes = kAny,
       .differentiable = false},
      {.name = "index_put_/tensors",
       .call =
           [](In in) {
             return put(in[0], {in[2], Slice(), in[3]}, in[1].detach());
           },
       .takes = kAny,
       .differentiable = false},
      {.name = "index_put_/accumulate",
       .call =
           [](In in) {
             return put(in[0], {in[2], in[3]}, in[1].detach(), true);
           },
       .takes = Takes::kNumbers,
       .differentiable = false},
      {.name = "index_put_/accumulate_slice",
       .call =
           [](In in) {
             return put(in[0], {Slice(), Slice({}, {}, 2)}, in[1].detach(), true);
           },
       .takes = Takes::kNumbers,
       .differentiable = false},
      {.name = "index_put_/mask",
       .call = [](In in) { return put(in[0], {in[1]}, 2.0); },
       .takes = Takes::kNumbers,
       .differentiable = false},
  };
}

std::vector<BadCall> bad_calls() {
  return {
      {"index_select", [] { index_select(Tensor::ones({3}), 0, ints({3})); }, {"[0, 3)", "got 3"}},
      {"index_select", [] { index_select(Tensor::ones({3}), 0, ints({-1})); }, {"[0, 3)", "got -1"}},
      {"index_select", [] { index_select(Tensor::ones({3}), 0, Tensor::ones({1})); }, {"int64", "float32"}},
      {"index_select",
       [] {
         index_select(Tensor::ones({3}), 0, ints({1, 2}).reshape({1, 2}));
       },
       {"one axis", "(1, 2)"}},
      {"gather",
       [] {
         gather(Tensor::ones({3, 2}), 0, ints({1, 2}));
       },
       {"axes", "(2,)", "(3, 2)"}},
      {"gather",
       [] {
         gather(Tensor::ones({3, 2}), 0, ints({1, 2, 0}).reshape({1, 3}));
       },
       {"(1, 3)", "(3, 2)"}},
      {"gather", [] { gather(Tensor::ones({3}), 0, ints({-1})); }, {"[0, 3)", "got -1"}},
      {"scatter",
       [] {
         scatter(Tensor::ones({3}), 0, ints({0, 1}), Tensor::ones({1}));
       },
       {"src", "(2,)", "(1,)"}},
      {"scatter", [] { scatter(Tensor::ones({3}), 0, ints({5}), Tensor::ones({1})); }, {"[0, 3)", "got 5"}},
      {"scatter",
       [] { scatter(Tensor::ones({3}), 0, ints({0}), Tensor::ones({1}, {.dtype = kFloat64})); },
       {"dtype", "float32", "float64"}},
      {"scatter", [] { scatter(Tensor::ones({3}, {.dtype = kInt32}), 0, ints({0}), 0.5); }, {"0.5", "int32"}},
      {"scatter_add", [] { scatter_add(Tensor::ones({3}), 1, ints({0}), Tensor::ones({1})); }, {"axis"}},
      {"scatter_add", [] { scatter_add(Tensor::ones({3}), 0, ints({3}), Tensor::ones({1})); }, {"[0, 3)", "got 3"}},
      {"take_along_dim",
       [] {
         take_along_dim(Tensor::ones({3, 2}), ints({1}), 0);
       },
       {"axes", "(1,)", "(3, 2)"}},
      {"take_along_dim", [] { take_along_dim(Tensor::ones({3}), ints({3})); }, {"[0, 3)", "got 3"}},
      {"index_add",
       [] {
         index_add(Tensor::ones({3, 2}), 0, ints({0}), Tensor::ones({2, 2}));
       },
       {"along axis 0", "(1,)", "(2, 2)"}},
      {"index_add", [] { index_add(Tensor::ones({3}), 0, ints({3}), Tensor::ones({1})); }, {"[0, 3)", "got 3"}},
      {"index_add",
       [] { index_add(Tensor::ones({3}, {.dtype = kInt64}), 0, ints({0}), ints({1}), 0.5); },
       {"0.5", "int64"}},
      {"index_put_",
       [] {
         Tensor x = Tensor::ones({3}, {.dtype = kBool});
         index_put_(x, {0}, 1.0, true);
       },
       {"bool", "(3,)"}},
      {"embedding",
       [] {
         embedding(ints({4}), Tensor::ones({4, 2}));
       },
       {"[0, 4)", "got 4"}},
      {"embedding",
       [] {
         embedding(ints({1}), Tensor::ones({4, 2}), 4);
       },
       {"padding_idx", "4"}},
      {"embedding", [] { embedding(ints({1}), Tensor::scalar(1.0)); }, {"axis", "()"}},
      {"embedding_renorm_",
       [] {
         Tensor weight = Tensor::ones({3, 2});
         embedding_renorm_(weight, ints({0}), -1.0);
       },
       {"max_norm", "-1"}},
      {"embedding_renorm_",
       [] {
         Tensor weight = Tensor::ones({3, 2});
         embedding_renorm_(weight, ints({3}), 1.0);
       },
       {"[0, 3)", "got 3"}},
      {"embedding_renorm_",
       [] {
         Tensor weight = Tensor::ones({3, 2}, {.dtype = kInt32});
         embedding_renorm_(weight, ints({0}), 1.0);
       },
       {"floating", "int32"}},
      {"one_hot", [] { one_hot(ints({4}), 4); }, {"[0, 4)", "got 4"}},
      {"one_hot", [] { one_hot(ints({})); }, {"num_classes", "-1"}},
      {"one_hot", [] { one_hot(ints({1}), -2); }, {"num_classes", "-2"}},
      {"nonzero", [] { nonzero(Tensor()); }, {"defined"}},
      {"masked_select", [] { masked_select(Tensor::ones({3}), ints({1})); }, {"bool", "int64"}},
      {"masked_select",
       [] { masked_select(Tensor::ones({3}), Tensor::ones({2}, {.dtype = kBool})); },
       {"(3,)", "(2,)"}},
      {"index", [] { index(Tensor::ones({3}), {3}); }, {"[-3, 3)", "got 3"}},
      {"index",
       [] {
         index(Tensor::ones({3}), {0, 0});
       },
       {"no more indices than axes", "2 indices", "(3,)"}},
      {"index",
       [] {
         index(Tensor::ones({3}), {kEllipsis, kEllipsis});
       },
       {"2 ellipses"}},
      {"index", [] { index(Tensor::ones({3}), {Slice({}, {}, -1)}); }, {"step must be at least 1; got -1"}},
      {"index", [] { index(Tensor::ones({3}), {Slice({}, {}, 0)}); }, {"step must be at least 1; got 0"}},
      {"index", [] { index(Tensor::ones({3}), {Tensor::ones({1})}); }, {"int64, int32 or bool", "float32"}},
      {"index", [] { index(Tensor::ones({3}), {Tensor()}); }, {"defined"}},
      {"index", [] { index(Tensor::ones({3}), {ints({-4})}); }, {"[-3, 3)", "got -4"}},
      {"index", [] { index(Tensor::ones({3}), {Tensor::ones({2}, {.dtype = kBool})}); }, {"mask", "(2,)", "(3,)"}},
      {"index",
       [] {
         index(Tensor::ones({3, 3}), {ints({0, 1}), ints({0, 1, 2})});
       },
       {"(2,)", "(3,)"}},
      {"index_put_",
       [] {
         Tensor x = Tensor::ones({3});
         index_put_(x, {ints({0, 1})}, Tensor::ones({3}));
       },
       {"broadcast", "(3,)", "(2,)"}},
      {"index_put_",
       [] {
         Tensor x = Tensor::ones({3}, {.dtype = kInt32});
         index_put_(x, {0}, 0.5);
       },
       {"0.5", "int32"}},
      {"index_put_",
       [] {
         Tensor x = Tensor::ones({1}).expand({3});
         index_put_(x, {0}, 1.0);
       },
       {"share memory"}},
  };
}

}  // namespace

OperatorFamily index_operators() {
  OperatorFamily family{.name = "index", .cases = picking_cases(), .bad_calls = bad_calls()};
  for (const OperatorCase& c : indexing_cases()) family.cases.push_back(c);
  return family;
}

}  // namespace adjoint::testing
