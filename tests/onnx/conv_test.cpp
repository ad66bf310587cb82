// The trio in every geometry of the table, written by save_onnx and run by ONNX Runtime.
#include <adjoint/ops/conv/trio.h>
#include <adjoint/ops/elementwise/activation.h>
#include <adjoint/tests/onnx/onnx_calls.h>
#include <adjoint/tests/support/conv_problem.h>

#include <algorithm>
#include <string>
#include <vector>

namespace adjoint {
namespace {

using testing::ConvCase;
using testing::ConvProblem;

class OnnxConv : public testing::OnnxCalls {
 protected:
  // f of the operand and the weights, which are more inputs or constants, by turns.
  void add_with_weights(const std::string& name, Tensor (*f)(const ConvCase&, In), const ConvCase& c,
                        const Tensor& operand, const std::vector<Tensor>& weights) {
    std::vector<Tensor> inputs{operand}, constants;
    std::vector<Tensor>& others = calls_++ % 3 == 0 ? inputs : constants;
    others.insert(others.end(), weights.begin(), weights.end());
    add(
        name + " of " + c.name,
        [=](In x) -> Out {
          std::vector<Tensor> all = x;
          all.insert(all.end(), constants.begin(), constants.end());
          return {f(c, all)};
        },
        inputs);
  }

 private:
  int calls_ = 0;
};

bool is_huge(const ConvCase& c) {
  const auto most = [](const auto& e) { return std::max({e.d, e.h, e.w}); };
  return std::max({most(c.stride), most(c.padding), most(c.dilation)}) > 1000;
}

TEST_F(OnnxConv, ComputesEveryGeometry) {
  for (const ConvCase& c : testing::conv_cases()) {
    if (is_huge(c)) continue;
    const ConvProblem p = testing::integer_problem(testing::geometry(c));
    const Tensor image = p.image_tensor({}), filter = p.filter_tensor({}), feature = p.feature_tensor({});
    const Tensor image_bias = p.image_bias_tensor({}), feature_bias = p.feature_bias_tensor({});
    const auto transposed = [](const ConvCase& own, In x) { return call_conv_transpose(own, x[0], x[1], x[2]); };
    const auto plain = [](const ConvCase& own, In x) { return call_conv(own, x[0], x[1], {}); };
    const auto gradient = [](const ConvCase& own, In x) { return conv(x[0], x[1], x[2], testing::geometry(own)); };
    const auto weight = [](const ConvCase& own, In x) { return conv_weight(x[0], x[1], testing::geometry(own)); };
    add_with_weights("conv_transpose", transposed, c, feature, {filter, image_bias});
    add_with_weights("conv", plain, c, image, {filter});
    add_with_weights("conv, a gradient", gradient, c, image, {filter, feature_bias});
    // ONNX Runtime does not end for a filter without channels.
    if (c.batch > 0) add_with_weights("conv_weight", weight, c, image, {feature});
  }
  run(0.0);  // sums of integers are exact
}

// Causal convolutions and their gradients: all of the depth's padding is in front.
TEST_F(OnnxConv, ComputesPaddingInFront) {
  for (const std::int64_t stride : {1, 2, 3}) {
    ConvGeometry g{.rank = 3, .batch = 2, .image_channels = 3, .feature_channels = 4};
    g.image = {6, 4, 5};
    g.kernel = {3, 3, 3};
    g.stride = {stride, 1, 1};
    g.padding = {4, 1, 1};
    g.feature = {(6 + 4 - 3) / stride + 1, 4, 5};
    const ConvProblem p = testing::integer_problem(g);
    const Tensor image = p.image_tensor({}), filter = p.filter_tensor({}), feature = p.feature_tensor({});
    const std::string of = " with stride " + std::to_string(stride);
    add("conv" + of, [=](In x) -> Out { return {conv(x[0], x[1], {}, g)}; }, {image, filter});
    add("conv_transpose" + of, [=](In x) -> Out { return {conv_transpose(x[0], x[1], {}, g)}; }, {feature, filter});
    add("conv_weight" + of, [=](In x) -> Out { return {conv_weight(x[0], x[1], g)}; }, {image, feature});
  }
  run(0.0);
}

TEST_F(OnnxConv, Activates) {
  const ConvCase c{.name = "Activated", .in_channels = 4, .out_channels = 3, .input = {5, 6}, .kernel = {3, 3}};
  const ConvProblem p = testing::real_problem(testing::geometry(c));
  const Tensor filter = p.filter_tensor({}), image_bias = p.image_bias_tensor({});
  const Tensor feature_bias = p.feature_bias_tensor({});
  const std::vector<Activation> activations{Activation::relu(),    Activation::leaky_relu(0.2), Activation::tanh(),
                                            Activation::sigmoid(), Activation::silu(),          Activation::gelu(),
                                            Activation::elu(0.5)};
  for (const Activation& activation : activations) {
    const std::string name = "activation " + std::to_string(static_cast<int>(activation.kind));
    const auto plain = [=](In x) -> Out { return {conv(x[0], filter, feature_bias, p.geometry, activation)}; };
    const auto transposed = [=](In x) -> Out {
      return {conv_transpose(x[0], filter, image_bias, p.geometry, activation)};
    };
    add(name, plain, {p.image_tensor({})});
    add(name + " of conv_transpose", transposed, {p.feature_tensor({})});
  }
  run(1e-5);
}

}  // namespace
}  // namespace adjoint
