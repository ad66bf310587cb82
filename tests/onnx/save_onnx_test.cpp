// save_onnx: names, options, functions of several inputs, and calls that it must refuse.
#include <adjoint/adjoint.h>
#include <adjoint/nn/onnx/onnx.h>
#include <adjoint/tests/onnx/onnx_runtime.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/temp_folder.h>

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace adjoint {
namespace {

using testing::OnnxRun;
using Tensors = std::vector<Tensor>;

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Two convolutions and a branch, with its own operator().
class Branched : public nn::Module {
 public:
  Branched()
      : Module("Branched"),
        first(register_module("first", nn::Conv2d(3, 4, {.kernel_size = 3, .padding = 1}))),
        second(register_module("second", nn::Conv2d(4, 4, {.kernel_size = 1}))) {}
  Tensor operator()(const Tensor& x) const {
    const Tensor y = relu(first(x));
    return y + second(y);
  }

  nn::Child<nn::Conv2d> first, second;
};

// Reads a number of its input on the host.
class Reader : public nn::Module {
 public:
  Reader() : Module("Reader") {}
  Tensor operator()(const Tensor& x) const { return x.sum().item() > 0.0 ? x : -x; }
};

class SaveOnnx : public testing::TempFolder {
 protected:
  // Results of a function of `inputs`, written and run; empty without ONNX Runtime.
  Tensors written(const std::function<Tensors(const Tensors&)>& f, const Tensors& inputs,
                  const nn::SaveOnnxOptions& options = {}) {
    const auto path = folder / "f.onnx";
    nn::save_onnx(path, f, inputs, options);
    if (!testing::no_onnx_runtime().empty()) return {};
    const auto results =
        testing::run_onnx({{.model = path, .inputs = inputs, .expected = f(inputs), .name = "f"}}, folder);
    EXPECT_EQ(results[0].error, "");
    return results[0].outputs;
  }

  void expect_written(const std::function<Tensors(const Tensors&)>& f, const Tensors& inputs) {
    const Tensors found = written(f, inputs), expected = f(inputs);
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_EQ(found[i].shape(), expected[i].shape());
      EXPECT_LE((found[i] - expected[i]).abs().max().item(), 1e-5);
    }
  }

  bool is_empty() const { return std::filesystem::is_empty(folder); }
};

TEST_F(SaveOnnx, NamesWeightsInputsAndOutputs) {
  Branched net;
  net.eval();
  const auto path = folder / "net.onnx";
  nn::save_onnx(path, net, {Tensor::zeros({1, 3, 4, 4})}, {.input_names = {"picture"}, .output_names = {"scores"}});
  const std::string bytes = bytes_of(path);
  for (const char* name : {"first.weight", "first.bias", "second.weight", "picture", "scores", "Relu"}) {
    EXPECT_NE(bytes.find(name), std::string::npos) << name;
  }
}

TEST_F(SaveOnnx, TakesFunctionsOfSeveralInputsAndResults) {
  expect_written(
      [](const Tensors& x) {
        return Tensors{x[0] * x[1], x[0] + x[1], x[0]};
      },
      {Tensor::randn({2, 3}), Tensor::randn({2, 3})});
}

TEST_F(SaveOnnx, GivesConstantsInputsAndRepeatedResults) {
  const Tensor constant = Tensor::randn({3});
  expect_written([&](const Tensors& x) { return Tensors{x[0], constant, -x[0], -x[0]}; }, {Tensor::randn({3})});
  expect_written(
      [&](const Tensors& x) {
        const Tensor y = x[0] + 1.0;
        return Tensors{y, y};
      },
      {Tensor::randn({3})});
}

TEST_F(SaveOnnx, FollowsTensorsThatAreWrittenTo) {
  expect_written(
      [](const Tensors& x) {
        Tensor sum = Tensor::zeros({2, 3});
        sum += x[0];
        sum *= x[0];
        Tensor shifted = x[0] + 1.0;
        shifted -= sum;
        return Tensors{sum, shifted};
      },
      {Tensor::randn({2, 3})});
  expect_written(
      [](const Tensors& x) {
        Tensor y = Tensor::zeros({2, 3});
        y.copy_(x[0]);
        index_put_(y, {kEllipsis, Slice(1)}, index(y, {kEllipsis, Slice(1)}) * 2.0);
        return Tensors{y, y.relu_() + 1.0};
      },
      {Tensor::randn({2, 3})});
  // A constant that changes after the network used it.
  expect_written(
      [](const Tensors& x) {
        Tensor factor = Tensor::ones({3});
        const Tensor once = x[0] * factor;
        factor += 2.0;
        return Tensors{once, x[0] * factor};
      },
      {Tensor::randn({2, 3})});
}

TEST_F(SaveOnnx, MakesPlainWeightsOfReparametrisedOnes) {
  manual_seed(3);
  auto layer = nn::weight_norm(nn::Conv1d(3, 4, {.kernel_size = 3}));
  layer.eval();
  const Tensor x = Tensor::randn({1, 3, 9});
  nn::save_onnx(folder / "f.onnx", layer, {x});
  EXPECT_EQ(bytes_of(folder / "f.onnx").find("weight_v"), std::string::npos);
  if (!testing::no_onnx_runtime().empty()) return;
  const auto results =
      testing::run_onnx({{.model = folder / "f.onnx", .inputs = {x}, .expected = {layer(x)}, .name = "f"}}, folder);
  ASSERT_EQ(results[0].error, "");
  EXPECT_LE((results[0].outputs[0] - layer(x)).abs().max().item(), 1e-5);
}

TEST_F(SaveOnnx, PutsLargeConstantsIntoASecondFile) {
  const Tensor weight = Tensor::randn({64, 64});
  const auto f = [&](const Tensors& x) { return Tensors{matmul(x[0], weight)}; };
  const Tensor x = Tensor::randn({2, 64});
  const Tensors found = written(f, {x}, {.external_data = true});
  EXPECT_LT(std::filesystem::file_size(folder / "f.onnx"), 4096U);
  EXPECT_GE(std::filesystem::file_size(folder / "f.onnx.data"), 64U * 64U * 4U);
  if (!found.empty()) {
    EXPECT_LE((found[0] - f({x})[0]).abs().max().item(), 1e-4);
  }
}

TEST_F(SaveOnnx, RefusesAndWritesNothing) {
  const auto path = folder / "f.onnx";
  const Tensor x = Tensor::randn({2, 3});
  const auto refused = [&](const std::function<Tensors(const Tensors&)>& f, const char* a, const char* b = "") {
    EXPECT_ERROR(nn::save_onnx(path, f, {x}), "save_onnx: ", a, b);
  };
  refused([](const Tensors& in) { return Tensors{in[0] * in[0].sum().item()}; }, "item", "operators alone");
  refused([](const Tensors& in) { return Tensors{in[0] * in[0].to_vector<float>()[0]}; }, "to_vector");
  refused([](const Tensors& in) { return Tensors{in[0] * static_cast<double>(*in[0].data<float>())}; }, "reads");
  refused([](const Tensors& in) { return Tensors{in[0] + Tensor::rand({2, 3})}; }, "random numbers", "rand");
  refused([](const Tensors& in) { return Tensors{dropout(in[0], 0.5)}; }, "dropout");
  refused(
      [](const Tensors& in) {
        const Tensor y = in[0] + 1.0;
        Tensor row = y.select(0, 0);
        row += 1.0;
        return Tensors{y};
      },
      "views");
  refused(
      [](const Tensors& in) {
        Tensor y = in[0] + 1.0;
        const Tensor row = y.select(0, 0);
        y += 1.0;
        return Tensors{row + y};
      },
      "after writes");
  refused([](const Tensors&) { return Tensors{Tensor()}; }, "outputs must be defined");
  EXPECT_ERROR(nn::save_onnx(path, [](const Tensors& in) { return in; }, {}), "there must be an input");
  EXPECT_ERROR(nn::save_onnx(path, [](const Tensors& in) { return in; }, {Tensor()}), "inputs must be defined");

  Branched net;
  const Tensor image = Tensor::zeros({1, 3, 4, 4});
  EXPECT_ERROR(nn::save_onnx(path, net, {image}), "eval mode");
  net.eval();
  EXPECT_ERROR(nn::save_onnx(path, net, {image, image}), "as many inputs as the network accepts");
  EXPECT_ERROR(nn::save_onnx(path, net, {image}, {.input_names = {"a", "b"}}), "a name for each input");
  EXPECT_ERROR(nn::save_onnx(path, net, {image}, {.input_names = {"a"}, .output_names = {"a"}}), "distinct");
  EXPECT_ERROR(nn::save_onnx(path, net, {image}, {.dynamic_axes = {{.axis = 4}}}), "dynamic axis");
  EXPECT_ERROR(nn::save_onnx(path, net, {image}, {.dynamic_axes = {{.input = 1}}}), "dynamic axis");
  nn::Sequential named{Reader()};
  named.eval();
  EXPECT_ERROR(nn::save_onnx(path, named, {x}), "0: save_onnx", "item");
  EXPECT_TRUE(is_empty());
  EXPECT_ERROR(nn::save_onnx(folder / "missing" / "f.onnx", net, {image}), "missing");
}

TEST_F(SaveOnnx, NamesTheOperatorThatFixesASize) {
  const auto path = folder / "f.onnx";
  const Tensor x = Tensor::randn({2, 3});
  const nn::SaveOnnxOptions options{.dynamic_axes = {{.axis = 0}}};
  // As many copies as there are rows.
  EXPECT_ERROR(nn::save_onnx(
                   path,
                   [](const Tensors& in) {
                     Tensor y = in[0];
                     for (std::int64_t i = 0; i < in[0].size(0); ++i) y = y + in[0];
                     return Tensors{y};
                   },
                   {x}, options),
               "the same operators at every size");
  EXPECT_ERROR(nn::save_onnx(
                   path, [](const Tensors& in) { return Tensors{in[0] * static_cast<double>(in[0].size(0))}; }, {x},
                   options),
               "must not be fixed", "mul");
  EXPECT_TRUE(is_empty());
}

TEST_F(SaveOnnx, LeavesTheThreadAsItWas) {
  EXPECT_ERROR(nn::save_onnx(folder / "f.onnx",
                             [](const Tensors& in) -> Tensors { return {in[0].sum().item() * in[0]}; },
                             {Tensor::ones({2})}),
               "item");
  const Tensor x = Tensor::ones({2});
  EXPECT_EQ(x.sum().item(), 2.0);
  EXPECT_EQ(Tensor::rand({2}).numel(), 2);
}

}  // namespace
}  // namespace adjoint
