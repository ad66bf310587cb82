// Matrix products.
#include <adjoint/ops/matmul/attention.h>
#include <adjoint/ops/matmul/linear.h>
#include <adjoint/ops/matmul/matmul.h>
#include <adjoint/tests/support/operator_cases.h>

namespace adjoint::testing {
namespace {

using In = const std::vector<Tensor>&;
using Out = std::vector<Tensor>;

Tensor ones(const Shape& shape) { return Tensor::ones(shape); }

}  // namespace

OperatorFamily matmul_operators() {
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
          }};
}

}  // namespace adjoint::testing
