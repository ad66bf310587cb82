// Normalisation.
#include <adjoint/ops/norm/norm.h>
#include <adjoint/tests/support/operator_cases.h>

namespace adjoint::testing {
namespace {

using In = const std::vector<Tensor>&;
using Out = std::vector<Tensor>;

constexpr double kMomentum = 0.1, kEps = 1e-5;

// norm.py's running statistics.
Tensor running_mean(const Tensor& x) { return Tensor::from_vector<double>({0.5, -1.0, 0.25}, {3}).to(x.device()); }
Tensor running_var(const Tensor& x) { return Tensor::from_vector<double>({1.5, 0.5, 2.0}, {3}).to(x.device()); }

Out train(const Tensor& x, const Tensor& weight, const Tensor& bias, const NormFusion& behind = {}) {
  return {batch_norm(x, {}, {}, weight, bias, true, kMomentum, kEps, behind)};
}

}  // namespace

OperatorFamily norm_operators() {
  return {.name = "norm",
          .cases =
              {
                  {.name = "batch_norm", .call = [](In in) { return train(in[0], in[1], in[2]); }, .roundings = 16},
                  {.name = "batch_norm/plain",
                   .call = [](In in) -> Out { return {batch_norm(in[0], {}, {}, {}, {}, true, kMomentum, 0.25)}; }},
                  {.name = "batch_norm/eval",
                   .call = [](In in) -> Out {
                     return {batch_norm(in[0], running_mean(in[0]), running_var(in[0]), in[1], in[2])};
                   }},
                  {.name = "batch_norm/fused",
                   .call =
                       [](In in) {
                         return train(in[0], in[1], in[2], {.activation = Activation::tanh(), .residual = in[3]});
                       }},
                  {.name = "batch_norm/eval_fused",
                   .call = [](In in) -> Out {
                     return {batch_norm(in[0], running_mean(in[0]), running_var(in[0]), {}, {}, false, kMomentum, kEps,
                                        {.activation = Activation::silu(), .residual = in[1]})};
                   }},
                  {.name = "batch_norm/gelu",
                   .call = [](In in) { return train(in[0], in[1], {}, {.activation = Activation::gelu()}); }},
                  {.name = "layer_norm",
                   .call = [](In in) -> Out {
                     return {layer_norm(in[0], {3, 4}, in[1], in[2])};
                   }},
                  {.name = "layer_norm/plain", .call = [](In in) -> Out { return {layer_norm(in[0], {5})}; }},
                  {.name = "layer_norm/fused",
                   .call = [](In in) -> Out {
                     return {layer_norm(in[0], {7}, in[1], {}, kEps,
                                        {.activation = Activation::leaky_relu(), .residual = in[2]})};
                   }},
                  {.name = "group_norm", .call = [](In in) -> Out { return {group_norm(in[0], 2, in[1], in[2])}; }},
                  {.name = "group_norm/fused",
                   .call = [](In in) -> Out {
                     return {group_norm(in[0], 2, in[1], in[2], kEps,
                                        {.activation = Activation::sigmoid(), .residual = in[3]})};
                   }},
                  {.name = "instance_norm",
                   .call = [](In in) -> Out { return {instance_norm(in[0], {}, {}, in[1], in[2])}; }},
                  {.name = "instance_norm/empty", .call = [](In in) -> Out { return {instance_norm(in[0])}; }},
                  {.name = "instance_norm/running",
                   .call = [](In in) -> Out {
                     return {instance_norm(in[0], running_mean(in[0]), running_var(in[0]), in[1], {}, false)};
                   }},
                  {.name = "rms_norm",
                   .call = [](In in) -> Out {
                     return {rms_norm(in[0], {3, 4}, in[1], 1e-6)};
                   }},
                  {.name = "rms_norm/fused",
                   .call = [](In in) -> Out {
                     return {rms_norm(in[0], {5}, in[1], 1e-6, {.activation = Activation::silu(), .residual = in[2]})};
                   }},
              },
          .bad_calls = {
              {"batch_norm",
               [] {
                 batch_norm(Tensor::ones({1, 3, 1}), {}, {}, {}, {}, true);
               },
               {"more than 1 value", "(1, 3, 1)"}},
              {"batch_norm",
               [] {
                 batch_norm(Tensor::ones({2, 3}), {}, {});
               },
               {"running_mean", "defined"}},
              {"batch_norm",
               [] {
                 batch_norm(Tensor::ones({2, 3}), Tensor::ones({3}), {});
               },
               {"together"}},
              {"batch_norm",
               [] {
                 batch_norm(Tensor::ones({2, 3}), Tensor::ones({2}), Tensor::ones({2}));
               },
               {"(3,)"}},
              {"batch_norm", [] { batch_norm(Tensor::ones({2}), {}, {}, {}, {}, true); }, {"(N, C, ...)"}},
              {"batch_norm",
               [] {
                 batch_norm(Tensor::ones({2, 3}), {}, {}, Tensor::ones({2}), {}, true);
               },
               {"weight", "3 in input (2, 3)", "(2,)"}},
              {"batch_norm",
               [] {
                 batch_norm(Tensor::ones({2, 3}, {.dtype = kInt64}), {}, {}, {}, {}, true);
               },
               {"floating point"}},
              {"batch_norm",
               [] {
                 batch_norm(Tensor::ones({2, 3}), {}, {}, {}, {}, true, 0.1, 1e-5, {.residual = Tensor::ones({3})});
               },
               {"residual", "(2, 3)"}},
              {"layer_norm",
               [] {
                 layer_norm(Tensor::ones({2, 3}), {2});
               },
               {"normalized_shape", "(2,)", "(2, 3)"}},
              {"layer_norm",
               [] {
                 layer_norm(Tensor::ones({2, 3}), Shape{});
               },
               {"normalized_shape"}},
              {"layer_norm",
               [] {
                 layer_norm(Tensor::ones({2, 3}), {3}, Tensor::ones({3}, {.dtype = kFloat64}));
               },
               {"weight", "float64"}},
              {"group_norm",
               [] {
                 group_norm(Tensor::ones({2, 3}), 2);
               },
               {"num_groups", "2 groups"}},
              {"group_norm",
               [] {
                 group_norm(Tensor::ones({2, 3}), 0);
               },
               {"num_groups", "0 groups"}},
              {"instance_norm",
               [] {
                 instance_norm(Tensor::ones({2, 3, 1}));
               },
               {"more than 1 value"}},
              {"rms_norm", [] { rms_norm({}, {2}); }, {"input"}},
          }};
}

}  // namespace adjoint::testing
