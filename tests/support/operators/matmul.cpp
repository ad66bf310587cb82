// Matrix products.
#include <adjoint/ops/attention/attention.h>
#include <adjoint/ops/matmul/einsum.h>
#include <adjoint/ops/matmul/linear.h>
#include <adjoint/ops/matmul/matmul.h>
#include <adjoint/ops/matmul/rotary.h>
#include <adjoint/tests/support/operator_cases.h>

#include <string>
#include <utility>

namespace adjoint::testing {
namespace {

using In = const std::vector<Tensor>&;
using Out = std::vector<Tensor>;

Tensor ones(const Shape& shape) { return Tensor::ones(shape); }

std::vector<OperatorCase> product_cases() {
  std::vector<OperatorCase> cases{
      {.name = "bmm", .call = [](In in) -> Out { return {bmm(in[0], in[1])}; }},
      {.name = "outer", .call = [](In in) -> Out { return {outer(in[0], in[1])}; }, .takes = Takes::kNumbers},
  };
  for (const auto& [name, equation] : std::vector<std::pair<std::string, std::string>>{{"", "bik, bkj -> bij"},
                                                                                       {"/implicit", "ba,ca"},
                                                                                       {"/trace", "ii->"},
                                                                                       {"/diagonal", "iji->ji"},
                                                                                       {"/ellipsis", "...ij,jk->...ik"},
                                                                                       {"/ellipses", "a...,...b"},
                                                                                       {"/three", "ij,jk,kl->il"},
                                                                                       {"/shared", "ni,nj,n->ij"},
                                                                                       {"/sums", "aijk->ka"},
                                                                                       {"/outer", "i,jk->kij"},
                                                                                       {"/broadcast", "bij,bjk->bik"},
                                                                                       {"/scalar", ",i->i"}}) {
    cases.push_back({.name = "einsum" + name,
                     .call = [equation = equation](In in) -> Out { return {einsum(equation, in)}; },
                     .takes = Takes::kNumbers,
                     .roundings = 16});
  }
  return cases;
}

std::vector<BadCall> product_bad_calls() {
  return {
      {"bmm",
       [] {
         bmm(ones({2, 3}), ones({3, 2}));
       },
       {"(B, M, K)", "(2, 3)", "(3, 2)"}},
      {"bmm",
       [] {
         bmm(ones({2, 2, 3}), ones({1, 3, 2}));
       },
       {"(1, 3, 2)"}},
      {"outer",
       [] {
         outer(ones({2}), ones({2, 1}));
       },
       {"one axis", "(2, 1)"}},
      {"einsum",
       [] {
         einsum("ij,jk", {ones({2, 3})});
       },
       {"a term for each", "1 operands", "ij,jk"}},
      {"einsum", [] { einsum("", {}); }, {"0 operands"}},
      {"einsum",
       [] {
         einsum("i1->i", {ones({2, 3})});
       },
       {"letters", "i1"}},
      {"einsum",
       [] {
         einsum("..i->i", {ones({2, 3})});
       },
       {"ellipsis", "..i"}},
      {"einsum",
       [] {
         einsum("i->i", {ones({2, 3})});
       },
       {"each axis", "(2, 3)"}},
      {"einsum",
       [] {
         einsum("ijk...->i", {ones({2, 3})});
       },
       {"each axis", "(2, 3)"}},
      {"einsum",
       [] {
         einsum("ij,jk->ik", {ones({2, 3}), ones({2, 3})});
       },
       {"one extent", "3 and 2"}},
      {"einsum",
       [] {
         einsum("ii->i", {ones({1, 3})});
       },
       {"one extent", "(1, 3)"}},
      {"einsum",
       [] {
         einsum("ij->k", {ones({2, 3})});
       },
       {"'k'"}},
      {"einsum",
       [] {
         einsum("ij->ii", {ones({2, 3})});
       },
       {"stand once", "'i'"}},
      {"einsum",
       [] {
         einsum("i,i", {ones({2}), Tensor::ones({2}, {.dtype = kFloat64})});
       },
       {"share a dtype", "float64"}},
      {"einsum",
       [] {
         einsum("abcde,fghij->abcdefghij", {ones({1, 1, 1, 1, 1}), ones({1, 1, 1, 1, 1})});
       },
       {"10", "8 axes"}},
  };
}

OperatorFamily plain_products() {
  return {.name = "matmul",
          .cases =
              {
                  {.name = "matmul", .call = [](In in) -> Out { return {matmul(in[0], in[1])}; }},
                  {.name = "linear", .call = [](In in) -> Out { return {linear(in[0], in[1], in[2])}; }},
                  {.name = "linear/plain", .call = [](In in) -> Out { return {linear(in[0], in[1])}; }},
                  {.name = "scaled_dot_product_attention",
                   .call = [](In in) -> Out { return {scaled_dot_product_attention(in[0], in[1], in[2])}; },
                   .roundings = 16},
                  {.name = "scaled_dot_product_attention/mask",
                   .call = [](In in) -> Out { return {scaled_dot_product_attention(in[0], in[1], in[2], in[3])}; },
                   .roundings = 16},
                  {.name = "scaled_dot_product_attention/bool",
                   .call = [](In in) -> Out {
                     const Tensor later = Tensor::from_vector<bool>({0, 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 1}, {3, 4},
                                                                    {.dtype = kBool, .device = in[0].device()});
                     return {scaled_dot_product_attention(in[0], in[1], in[2], later)};
                   },
                   .roundings = 16},
                  {.name = "scaled_dot_product_attention/causal",
                   .call = [](In in) -> Out {
                     return {scaled_dot_product_attention(in[0], in[1], in[2], {}, 0.0, true, 0.5)};
                   },
                   .roundings = 16},
                  {.name = "scaled_dot_product_attention/gqa",
                   .call = [](In in) -> Out {
                     return {
                         scaled_dot_product_attention(in[0], in[1], in[2], {.is_causal = true, .enable_gqa = true})};
                   },
                   .roundings = 16},
                  {.name = "scaled_dot_product_attention/gqa_mask",
                   .call = [](In in) -> Out {
                     return {scaled_dot_product_attention(in[0], in[1], in[2], in[3], 0.0, false, {}, true)};
                   },
                   .roundings = 16},
                  {.name = "rotary_embedding", .call = [](In in) -> Out { return {rotary_embedding(in[0])}; }},
                  {.name = "rotary_embedding/interleaved",
                   .call = [](In in) -> Out {
                     return {rotary_embedding(in[0], {.base = 100.0, .offset = 5, .interleaved = true, .dim = 4})};
                   }},
                  {.name = "rotary_embedding/positions",
                   .call = [](In in) -> Out { return {rotary_embedding(in[0], {.positions = in[1]})}; }},
              },
          .bad_calls = {
              {"matmul",
               [] {
                 matmul(ones({2, 3}), ones({2, 3}));
               },
               {"last axis", "(2, 3)"}},
              {"matmul",
               [] {
                 matmul(ones({2, 2, 3}), ones({3, 3, 2}));
               },
               {"broadcast"}},
              {"linear",
               [] {
                 linear(ones({2, 3}), ones({4, 2}));
               },
               {"in_features", "(2, 3)", "(4, 2)"}},
              {"linear",
               [] {
                 linear(ones({2, 3}), ones({4, 3}), ones({3}));
               },
               {"bias", "(3,)"}},
              {"linear",
               [] {
                 linear(ones({2, 3}), {});
               },
               {"weight"}},
              {"linear",
               [] {
                 linear(ones({2, 3}), ones({3}));
               },
               {"two axes"}},
              {"scaled_dot_product_attention",
               [] {
                 scaled_dot_product_attention(ones({2, 3}), ones({2, 4}), ones({2, 4}));
               },
               {"last extent", "(2, 4)"}},
              {"scaled_dot_product_attention",
               [] {
                 scaled_dot_product_attention(ones({2, 3}), ones({2, 3}), ones({4, 3}));
               },
               {"key and value", "(4, 3)"}},
              {"scaled_dot_product_attention",
               [] {
                 scaled_dot_product_attention(ones({2, 3}), ones({2, 3}), ones({2, 3}), ones({2, 2}), 0.0, true);
               },
               {"is_causal"}},
              {"scaled_dot_product_attention",
               [] {
                 scaled_dot_product_attention(ones({2, 3}), ones({2, 3}), ones({2, 3}), ones({5, 2, 2}));
               },
               {"attn_mask", "(5, 2, 2)"}},
              {"scaled_dot_product_attention",
               [] {
                 scaled_dot_product_attention(ones({2, 3}), ones({2, 3}), ones({2, 3}), {}, 1.5);
               },
               {"dropout_p", "1.5"}},
              {"scaled_dot_product_attention",
               [] {
                 scaled_dot_product_attention(ones({3}), ones({2, 3}), ones({2, 3}));
               },
               {"query", "two axes"}},
              {"scaled_dot_product_attention",
               [] {
                 scaled_dot_product_attention(ones({4, 2, 3}), ones({3, 2, 3}), ones({3, 2, 3}), {.enable_gqa = true});
               },
               {"heads, which divides", "(4, 2, 3)", "(3, 2, 3)"}},
              {"scaled_dot_product_attention",
               [] {
                 scaled_dot_product_attention(ones({4, 2, 3}), ones({2, 3}), ones({2, 3}), {.enable_gqa = true});
               },
               {"axis of heads", "(2, 3)"}},
              {"rotary_embedding",
               [] {
                 rotary_embedding(ones({2, 3}));
               },
               {"even", "(2, 3)"}},
              {"rotary_embedding", [] { rotary_embedding(ones({4})); }, {"two axes", "(4,)"}},
              {"rotary_embedding",
               [] {
                 rotary_embedding(ones({2, 4}), {.dim = 6});
               },
               {"at most", "6"}},
              {"rotary_embedding",
               [] {
                 rotary_embedding(ones({2, 4}), {.positions = ones({3})});
               },
               {"broadcast", "(2,)"}},
              {"rotary_embedding",
               [] {
                 rotary_embedding(ones({2, 4}), {.base = 0.0});
               },
               {"base", "0"}},
          }};
}

}  // namespace

OperatorFamily matmul_operators() {
  OperatorFamily family = plain_products();
  for (const OperatorCase& c : product_cases()) family.cases.push_back(c);
  for (const BadCall& bad : product_bad_calls()) family.bad_calls.push_back(bad);
  return family;
}

}  // namespace adjoint::testing
