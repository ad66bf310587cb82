// Distances, and losses based on them.
#include <adjoint/ops/distance/distance.h>
#include <adjoint/ops/loss/metric.h>
#include <adjoint/tests/support/operator_cases.h>

#include <cmath>
#include <limits>

namespace adjoint::testing {
namespace {

using In = const std::vector<Tensor>&;
using Out = std::vector<Tensor>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Tensor ones(const Shape& shape) { return Tensor::ones(shape); }

template <Reduction kReduction>
void add(std::vector<OperatorCase>& cases, const std::string& r) {
  cases.push_back({.name = "triplet_margin_loss/" + r, .call = [](In in) -> Out {
                     return {triplet_margin_loss(in[0], in[1], in[2], {.reduction = kReduction})};
                   }});
  cases.push_back({.name = "cosine_embedding_loss/" + r, .call = [](In in) -> Out {
                     return {cosine_embedding_loss(in[0], in[1], in[2], {.margin = 0.25, .reduction = kReduction})};
                   }});
}

std::vector<OperatorCase> cases() {
  std::vector<OperatorCase> all{
      {.name = "normalize", .call = [](In in) -> Out { return {normalize(in[0])}; }},
      {.name = "normalize/one", .call = [](In in) -> Out { return {normalize(in[0], 1.0, 0, 0.5)}; }},
      {.name = "normalize/infinity", .call = [](In in) -> Out { return {normalize(in[0], kInfinity, -1)}; }},
      {.name = "cosine_similarity", .call = [](In in) -> Out { return {cosine_similarity(in[0], in[1])}; }},
      {.name = "cosine_similarity/broadcast",
       .call = [](In in) -> Out { return {cosine_similarity(in[0], in[1], 0, 0.5)}; }},
      {.name = "pairwise_distance", .call = [](In in) -> Out { return {pairwise_distance(in[0], in[1])}; }},
      {.name = "pairwise_distance/one",
       .call = [](In in) -> Out { return {pairwise_distance(in[0], in[1], 1.0, 0.0, true)}; }},
      {.name = "pairwise_distance/vectors",
       .call = [](In in) -> Out { return {pairwise_distance(in[0], in[1], 3.0)}; }},
      {.name = "cdist", .call = [](In in) -> Out { return {cdist(in[0], in[1])}; }},
      {.name = "cdist/one", .call = [](In in) -> Out { return {cdist(in[0], in[1], 1.0)}; }},
      {.name = "cdist/infinity", .call = [](In in) -> Out { return {cdist(in[0], in[1], kInfinity)}; }},
      {.name = "cdist/three", .call = [](In in) -> Out { return {cdist(in[0], in[1], 3.0)}; }},
      {.name = "cdist/zero", .call = [](In in) -> Out { return {cdist(in[0], in[1], 0.0)}; }},
      {.name = "triplet_margin_loss/swap",
       .call = [](In in) -> Out {
         return {triplet_margin_loss(in[0], in[1], in[2], {.margin = 2.0, .p = 1.0, .swap = true})};
       }},
      {.name = "triplet_margin_loss/vectors",
       .call = [](In in) -> Out { return {triplet_margin_loss(in[0], in[1], in[2])}; }},
      {.name = "cosine_embedding_loss/vectors",
       .call = [](In in) -> Out { return {cosine_embedding_loss(in[0], in[1], in[2])}; }},
  };
  add<Reduction::kMean>(all, "mean");
  add<Reduction::kSum>(all, "sum");
  add<Reduction::kNone>(all, "none");
  for (OperatorCase& c : all) c.roundings = 16;  // of differences and norms
  return all;
}

}  // namespace

OperatorFamily distance_operators() {
  return {.name = "distance",
          .cases = cases(),
          .bad_calls = {
              {"normalize", [] { normalize(ones({3})); }, {"axis"}},
              {"normalize",
               [] {
                 normalize(ones({3, 2}), -1.0);
               },
               {"negative", "-1"}},
              {"normalize",
               [] {
                 normalize(Tensor::ones({3, 2}, {.dtype = kInt64}));
               },
               {"floating point", "int64"}},
              {"cosine_similarity",
               [] {
                 cosine_similarity(ones({3, 2}), ones({2, 2}));
               },
               {"(3, 2)", "(2, 2)"}},
              {"cosine_similarity",
               [] {
                 cosine_similarity(ones({3, 2}), Tensor::ones({3, 2}, {.dtype = kFloat64}));
               },
               {"one dtype", "float64"}},
              {"pairwise_distance", [] { pairwise_distance(ones({3}), ones({2})); }, {"(3,)", "(2,)"}},
              {"pairwise_distance", [] { pairwise_distance(ones({}), ones({})); }, {"an axis"}},
              {"pairwise_distance", [] { pairwise_distance(ones({3}), ones({3}), std::nan("")); }, {"p must"}},
              {"cdist",
               [] {
                 cdist(ones({3}), ones({2, 3}));
               },
               {"(..., P, D)", "(3,)"}},
              {"cdist",
               [] {
                 cdist(ones({3, 2}), ones({3, 3}));
               },
               {"(3, 2)", "(3, 3)"}},
              {"cdist",
               [] {
                 cdist(ones({3, 2}), ones({3, 2}), -1.0);
               },
               {"negative", "-1"}},
              {"triplet_margin_loss",
               [] { triplet_margin_loss(ones({3}), ones({3}), ones({3}), {.margin = 0.0}); },
               {"margin", "0"}},
              {"triplet_margin_loss",
               [] {
                 triplet_margin_loss(ones({2, 3}), ones({2, 3}), ones({2, 2}));
               },
               {"(2, 2)"}},
              {"triplet_margin_loss",
               [] {
                 triplet_margin_loss(ones({1, 2, 3}), ones({3}), ones({3}));
               },
               {"(N, D)", "(1, 2, 3)"}},
              {"triplet_margin_loss",
               [] { triplet_margin_loss(ones({3}), ones({3}), ones({3}), {.reduction = Reduction::kBatchMean}); },
               {"kBatchMean"}},
              {"cosine_embedding_loss",
               [] {
                 cosine_embedding_loss(ones({2, 3}), ones({2, 3}), ones({3}));
               },
               {"target", "(3,)", "(2, 3)"}},
              {"cosine_embedding_loss",
               [] {
                 cosine_embedding_loss(ones({2, 3}), ones({3}), ones({2}));
               },
               {"one shape", "(2, 3)"}},
          }};
}

}  // namespace adjoint::testing
