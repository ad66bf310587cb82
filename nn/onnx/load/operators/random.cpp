// ONNX's random operators. They draw from the global generator (manual_seed): seeds of the file are not read, because
// each engine draws other numbers from them.
#include <adjoint/nn/onnx/load/operators.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/random/random.h>
#include <adjoint/ops/softmax/softmax.h>

namespace adjoint::nn::detail {
namespace {

DType chosen_dtype(const OnnxArgs& x, DType otherwise) {
  if (!x.has_attribute("dtype")) return otherwise;
  return dtype_of_onnx(x.integer("dtype", 0), x.node.type + " node '" + x.node.name + "'");
}

Tensor made_normal(const OnnxArgs& x, const Tensor& standard) {
  return standard * x.number("scale", 1.0) + x.number("mean", 0.0);
}
Tensor made_uniform(const OnnxArgs& x, const Tensor& standard) {
  const double low = x.number("low", 0.0);
  return standard * (x.number("high", 1.0) - low) + low;
}

// Operator sets before 12 have an attribute for the ratio. A file can forbid dropping, but only the module's training
// mode drops.
OnnxResults dropped(const OnnxArgs& args) {
  const Tensor& x = args[0];
  const double ratio = args.has(1) ? double{args[1].item()} : args.number("ratio", 0.5);
  const bool drops = args.training && (!args.has(2) || args[2].item<bool>());
  if (args.node.outputs.size() < 2) return {dropout(x, ratio, drops)};
  const Tensor mask = bernoulli(x, drops ? 1.0 - ratio : 1.0).to(kBool);
  if (!drops) return {x, mask};
  const double scale = ratio < 1.0 ? 1.0 / (1.0 - ratio) : 1.0;
  return {where(mask, x * scale, 0), mask};
}

constexpr OnnxOperator kRandomOperators[] = {
    {.type = "Bernoulli",
     .run = [](const OnnxArgs& x) -> OnnxResults { return {bernoulli(x[0]).to(chosen_dtype(x, x[0].dtype()))}; },
     .attributes = "dtype seed"},
    {.type = "Dropout", .run = dropped, .attributes = "ratio seed", .settings = 6},
    {.type = "Multinomial",
     .run = [](const OnnxArgs& x) -> OnnxResults {
       const Tensor drawn = multinomial(softmax(x[0], -1), x.integer("sample_size", 1), /*replacement=*/true);
       return {drawn.to(chosen_dtype(x, kInt32))};
     },
     .attributes = "dtype sample_size seed"},
    {.type = "RandomNormal",
     .run = [](const OnnxArgs& x) -> OnnxResults {
       return {made_normal(x, Tensor::randn(x.integers("shape"), {.dtype = chosen_dtype(x, kFloat32)}))};
     },
     .attributes = "dtype mean scale seed shape"},
    {.type = "RandomNormalLike",
     .run = [](const OnnxArgs& x) -> OnnxResults {
       return {made_normal(x, randn_like(x[0], {.dtype = chosen_dtype(x, x[0].dtype())}))};
     },
     .attributes = "dtype mean scale seed"},
    {.type = "RandomUniform",
     .run = [](const OnnxArgs& x) -> OnnxResults {
       return {made_uniform(x, Tensor::rand(x.integers("shape"), {.dtype = chosen_dtype(x, kFloat32)}))};
     },
     .attributes = "dtype high low seed shape"},
    {.type = "RandomUniformLike",
     .run = [](const OnnxArgs& x) -> OnnxResults {
       return {made_uniform(x, rand_like(x[0], {.dtype = chosen_dtype(x, x[0].dtype())}))};
     },
     .attributes = "dtype high low seed"},
};

}  // namespace

std::span<const OnnxOperator> onnx_random_operators() { return kRandomOperators; }

}  // namespace adjoint::nn::detail
