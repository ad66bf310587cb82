// save_onnx's changes to weights: bfloat16 beside float32, float16 in files, and folded batch normalisation. ONNX
// Runtime runs the files.
#include <adjoint/adjoint.h>
#include <adjoint/nn/onnx/onnx.h>
#include <adjoint/nn/onnx/onnx_model.h>
#include <adjoint/tests/nn/networks/dcgan.h>
#include <adjoint/tests/nn/networks/unet.h>
#include <adjoint/tests/onnx/onnx_runtime.h>
#include <adjoint/tests/support/temp_folder.h>

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace adjoint {
namespace {

using Tensors = std::vector<Tensor>;

class SaveOnnxWeights : public testing::TempFolder {
 protected:
  void SetUp() override { manual_seed(5); }

  std::filesystem::path path() const { return folder / "net.onnx"; }
  std::string bytes() const {
    std::ifstream file(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  // The file's result; undefined without ONNX Runtime.
  Tensor run(const Tensor& x, const Tensor& expected) const {
    if (!testing::no_onnx_runtime().empty()) return {};
    const auto results =
        testing::run_onnx({{.model = path(), .inputs = {x}, .expected = {expected}, .name = "net"}}, folder);
    EXPECT_EQ(results[0].error, "");
    return results[0].error.empty() ? results[0].outputs[0] : Tensor();
  }

  void expect_run(const Tensor& x, const Tensor& expected, double tolerance) const {
    const Tensor found = run(x, expected);
    if (!found.defined()) return;
    ASSERT_EQ(found.dtype(), expected.dtype());
    ASSERT_EQ(found.shape(), expected.shape());
    EXPECT_LE((found - expected).abs().max().item(), tolerance * (1.0 + expected.abs().max().item()));
  }

  template <class M>
  void expect_folded(M net, const Tensor& x, const std::vector<nn::DynamicAxis>& axes, const Tensor& other) {
    net.eval();
    set_statistics(net);
    nn::save_onnx(path(), net, {x}, {.dynamic_axes = axes, .fold_batch_norm = true});
    EXPECT_EQ(bytes().find("BatchNormalization"), std::string::npos);
    expect_run(x, net(x), 1e-5);
    expect_run(other, net(other), 1e-5);
  }

  // Statistics that a training could have left.
  static void set_statistics(const nn::Module& net) {
    for (const auto& tensors : {net.named_buffers(), net.named_parameters()}) {
      for (const auto& [name, tensor] : tensors) {
        if (tensor.is_floating_point() && tensor.dim() == 1)
          Tensor(tensor.detach()).copy_(Tensor::rand(tensor.shape()) + 0.5);
      }
    }
  }
};

// ---- bfloat16.

nn::Sequential classifier() {
  return nn::Sequential(nn::Conv2d(3, 16, {.kernel_size = 3, .padding = 1}), nn::BatchNorm2d(16), nn::GELU(),
                        nn::MaxPool2d(2), nn::Conv2d(16, 16, {.kernel_size = 3, .padding = 1}), nn::GroupNorm(4, 16),
                        nn::SiLU(), nn::Upsample({.scale_factor = 2.0}), nn::Flatten(), nn::Linear(1024, 8),
                        nn::LayerNorm(8), nn::Softmax(-1));
}

// Two networks of the same weights, which bfloat16 holds.
struct Both {
  nn::Sequential low = classifier(), high = classifier();
  Both() {
    for (nn::Sequential* net : {&low, &high}) net->eval();
    low.to(kBFloat16);
    auto state = low.state_dict();
    for (auto& [name, tensor] : state) {
      if (tensor.is_floating_point()) tensor = tensor.to(kFloat32);
    }
    high.load_state_dict(state);
  }
};

TEST_F(SaveOnnxWeights, ComputeInFloat32WithBfloat16) {
  const Both nets;
  const auto f = [&](const Tensors& x) { return Tensors{nets.low(x[0].to(kBFloat16)).to(kFloat32)}; };
  const Tensor x = Tensor::randn({2, 3, 8, 8});
  nn::save_onnx(path(), f, {x}, {.dynamic_axes = {{.axis = 0}}});
  const std::size_t elements = 3 * 16 * 9 + 16 * 16 * 9 + 1024 * 8;
  EXPECT_LT(std::filesystem::file_size(path()), 2 * elements + 8000);
  const Tensor other = Tensor::randn({3, 3, 8, 8});
  for (const Tensor& given : {x, other}) expect_run(given, nets.high(given), 1e-5);
}

TEST_F(SaveOnnxWeights, KeepBfloat16InputsOutputsAndWeights) {
  const Both nets;
  const Tensor x = Tensor::randn({2, 3, 8, 8}, {.dtype = kBFloat16});
  nn::save_onnx(path(), nets.low, {x});
  nn::OnnxModel loaded = nn::load_onnx(path());
  loaded.eval();
  const Tensor found = loaded(x), expected = nets.high(x.to(kFloat32)).to(kBFloat16);
  ASSERT_EQ(found.dtype(), kBFloat16);
  // Two sums in other orders may fall on two sides of a rounding.
  EXPECT_LE((found.to(kFloat32) - expected.to(kFloat32)).abs().max().item(), 1.0 / 256);
  std::map<std::string, Tensor> parameters, buffers;
  for (const auto& [name, parameter] : loaded.named_parameters()) parameters[name] = parameter;
  for (const auto& [name, buffer] : loaded.named_buffers()) buffers[name] = buffer;
  for (const auto& [name, parameter] : nets.low.named_parameters()) {
    // The last layer normalisation is one node, and the group normalisation's affine part a separate formula.
    if (parameter.dim() < 2) continue;
    ASSERT_TRUE(parameters.contains(name)) << name;
    EXPECT_EQ(parameters[name].dtype(), kBFloat16);
    EXPECT_EQ(parameters[name].to(kFloat32).to_vector<float>(), parameter.to(kFloat32).to_vector<float>());
  }
  EXPECT_TRUE(buffers.contains("1.running_mean") && buffers.contains("1.running_var"));
}

TEST_F(SaveOnnxWeights, WriteNetworksUnderAutocast) {
  const nn::Sequential net(nn::Linear(32, 64), nn::ReLU(), nn::Linear(64, 8));
  nn::Sequential(net).eval();
  const auto f = [&](const Tensors& x) {
    const AutocastGuard low(kBFloat16);
    return Tensors{net(x[0]).to(kFloat32)};
  };
  const Tensor x = Tensor::randn({4, 32});
  nn::save_onnx(path(), f, {x});
  for (const Tensor& weight : net.parameters()) Tensor(weight.detach()).copy_(weight.to(kBFloat16).to(kFloat32));
  expect_run(x, net(x), 1e-5);
}

// ---- float16.

TEST_F(SaveOnnxWeights, StoreFloat16) {
  nn::Sequential net(nn::Conv2d(3, 64, {.kernel_size = 3, .padding = 1}), nn::ReLU(),
                     nn::Conv2d(64, 32, {.kernel_size = 3, .padding = 1}));
  net.eval();
  const Tensor x = Tensor::randn({1, 3, 6, 7}), other = Tensor::randn({2, 3, 9, 5});
  const std::vector<nn::DynamicAxis> axes{{.axis = 0}, {.axis = 2, .name = "height"}, {.axis = 3, .name = "width"}};
  for (const bool external : {false, true}) {
    nn::save_onnx(path(), net, {x}, {.dynamic_axes = axes, .external_data = external, .float16_weights = true});
    if (!external) {
      EXPECT_LT(std::filesystem::file_size(path()), 2 * (64 * 27 + 32 * 64 * 9) + 4 * 96 + 2000);
    }
    const nn::OnnxModel loaded = nn::load_onnx(path());
    std::map<std::string, Tensor> found;
    for (const auto& [name, parameter] : loaded.named_parameters()) found[name] = parameter;
    for (const auto& [name, weight] : net.named_parameters()) {
      ASSERT_TRUE(found.contains(name)) << name;
      ASSERT_EQ(found[name].dtype(), weight.dim() > 1 ? kFloat16 : kFloat32) << name;
      const std::vector<float> a = found[name].to(kFloat32).to_vector<float>(), b = weight.to_vector<float>();
      for (std::size_t i = 0; i < a.size(); ++i)
        ASSERT_LE(std::abs(a[i] - b[i]), std::max(std::ldexp(std::abs(b[i]), -11), 0x1p-25F)) << name;
    }
    for (const auto& [name, weight] : net.named_parameters()) Tensor(weight.detach()).copy_(found[name].to(kFloat32));
    for (const Tensor& given : {x, other}) expect_run(given, net(given), 1e-5);
  }
}

TEST_F(SaveOnnxWeights, KeepFloat32ForWhatFloat16CannotHold) {
  Tensor wide = Tensor::randn({32, 16}), infinite = Tensor::zeros({32, 16});
  wide.copy_(where(wide > 1.0, 1e6, wide));
  infinite.copy_(where(wide > 1.0, -std::numeric_limits<double>::infinity(), infinite));
  const Tensor small = Tensor::full({4, 16}, 0.1);
  const auto f = [&](const Tensors& x) {
    return Tensors{softmax(matmul(x[0], wide) + matmul(small, small.t()).sum(), 1),
                   x[0].t() + infinite.narrow(0, 0, 32)};
  };
  const Tensor x = Tensor::rand({16, 32});
  nn::save_onnx(path(), [&](const Tensors& in) { return Tensors{f(in)[0] + f(in)[1].exp().t().matmul(wide)}; }, {x},
                {.float16_weights = true});
  expect_run(x, f({x})[0] + f({x})[1].exp().t().matmul(wide), 1e-5);
  const nn::OnnxModel loaded = nn::load_onnx(path());
  std::size_t halves = 0;
  for (const auto& [name, parameter] : loaded.named_parameters()) halves += parameter.dtype() == kFloat16 ? 1U : 0U;
  EXPECT_EQ(halves, 1U);  // the infinities
}

// ---- Batch normalisation.

TEST_F(SaveOnnxWeights, FoldBatchNormIntoNetworks) {
  expect_folded(networks::DcganGenerator(8, 3), Tensor::randn({2, 8, 1, 1}), {{.axis = 0}},
                Tensor::randn({5, 8, 1, 1}));
  expect_folded(networks::UNet(), Tensor::randn({1, 1, 16, 24}),
                {{.axis = 0}, {.axis = 2, .name = "height"}, {.axis = 3, .name = "width"}},
                Tensor::randn({2, 1, 32, 8}));
}

TEST_F(SaveOnnxWeights, FoldBatchNormIntoLayersOfEveryKind) {
  const auto batch = std::vector<nn::DynamicAxis>{{.axis = 0}};
  expect_folded(nn::Sequential(nn::Conv2d(4, 6, {.kernel_size = 3, .groups = 2}), nn::BatchNorm2d(6),
                               nn::ConvTranspose2d(6, 4, {.kernel_size = 3, .stride = 2, .groups = 2}),
                               nn::BatchNorm2d(4), nn::BatchNorm2d(4)),
                Tensor::randn({2, 4, 6, 6}), batch, Tensor::randn({3, 4, 6, 6}));
  expect_folded(nn::Sequential(nn::Conv1d(4, 6, {.kernel_size = 3}), nn::BatchNorm1d(6),
                               nn::ConvTranspose1d(6, 3, {.kernel_size = 2}), nn::BatchNorm1d(3), nn::Flatten(),
                               nn::Linear(15, 5), nn::BatchNorm1d(5), nn::Linear(5, 2, {.bias = false}),
                               nn::BatchNorm1d(2, {.affine = false})),
                Tensor::randn({2, 4, 6}), batch, Tensor::randn({3, 4, 6}));
}

TEST_F(SaveOnnxWeights, FoldBatchNormOnlyWhereNothingElseReads) {
  nn::Conv2d conv(2, 2, {.kernel_size = 1});
  nn::BatchNorm2d first(2), second(2);
  for (nn::Module* module : std::initializer_list<nn::Module*>{&conv, &first, &second}) module->eval();
  set_statistics(first);
  set_statistics(second);
  const Tensor x = Tensor::randn({1, 2, 4, 4});
  const auto branched = [&](const Tensors& in) {
    const Tensor y = conv(in[0]);
    return Tensors{first(y) + y};
  };
  nn::save_onnx(path(), branched, {x}, {.fold_batch_norm = true});
  EXPECT_NE(bytes().find("BatchNormalization"), std::string::npos);
  expect_run(x, branched({x})[0], 1e-5);
  // One weight with two normalisations becomes two weights.
  const auto shared = [&](const Tensors& in) { return Tensors{first(conv(in[0])) + second(conv(in[0]))}; };
  nn::save_onnx(path(), shared, {x}, {.fold_batch_norm = true});
  EXPECT_EQ(bytes().find("BatchNormalization"), std::string::npos);
  expect_run(x, shared({x})[0], 1e-5);
  const auto both = [&](const Tensors& in) { return Tensors{first(relu(conv(in[0])))}; };
  nn::save_onnx(path(), both, {x}, {.fold_batch_norm = true});
  EXPECT_NE(bytes().find("BatchNormalization"), std::string::npos);
  expect_run(x, both({x})[0], 1e-5);
}

}  // namespace
}  // namespace adjoint
