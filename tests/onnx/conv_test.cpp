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
  const auto most = [](const Extent2& e) { return std::max(e[0], e[1]); };
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
