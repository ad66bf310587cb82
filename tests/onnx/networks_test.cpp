// Networks, with their weights and sizes that may change, written by save_onnx and run by ONNX Runtime.
#include <adjoint/adjoint.h>
#include <adjoint/nn/onnx/onnx.h>
#include <adjoint/tests/nn/networks/autoencoder.h>
#include <adjoint/tests/nn/networks/dcgan.h>
#include <adjoint/tests/nn/networks/espcn.h>
#include <adjoint/tests/nn/networks/fsrcnn.h>
#include <adjoint/tests/nn/networks/hifigan.h>
#include <adjoint/tests/nn/networks/unet.h>
#include <adjoint/tests/nn/networks/wgan_gp.h>
#include <adjoint/tests/onnx/onnx_runtime.h>
#include <adjoint/tests/support/temp_folder.h>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace adjoint {
namespace {

using nn::DynamicAxis;
using testing::OnnxResult;
using testing::OnnxRun;

class OnnxNetworks : public testing::TempFolder {
 protected:
  void SetUp() override {
    if (const std::string reason = testing::no_onnx_runtime(); !reason.empty()) GTEST_SKIP() << reason;
    manual_seed(1);
  }

  // Writes the network at the first of the inputs' shapes, to be run at each.
  template <class M>
  void add(const std::string& name, M net, const std::vector<DynamicAxis>& axes, const std::vector<Shape>& shapes) {
    net.eval();
    for (const Tensor& buffer : net.buffers()) {  // running statistics that a training could have left
      if (is_floating_point(buffer.dtype())) Tensor(buffer).copy_(Tensor::rand(buffer.shape()) + 0.5);
    }
    const auto path = folder / (name + ".onnx");
    nn::save_onnx(path, net, {Tensor::randn(shapes.front())}, {.dynamic_axes = axes});
    for (const Shape& shape : shapes) {
      const Tensor x = Tensor::randn(shape);
      runs.push_back({.model = path, .inputs = {x}, .expected = {net(x)}, .name = name + " " + to_string(shape)});
    }
  }

  void run() {
    const std::vector<OnnxResult> results = testing::run_onnx(runs, folder);
    for (std::size_t i = 0; i < runs.size(); ++i) {
      SCOPED_TRACE(runs[i].name);
      ASSERT_EQ(results[i].error, "");
      const Tensor &found = results[i].outputs[0], &expected = runs[i].expected[0];
      ASSERT_EQ(found.shape(), expected.shape());
      EXPECT_LE((found - expected).abs().max().item(), 1e-5 * (1.0 + expected.abs().max().item()));
    }
  }

  std::vector<OnnxRun> runs;
};

// Bicubic interpolation as PIL has it, and a correction of it.
class Enlarged : public nn::Module {
 public:
  Enlarged() : Module("Enlarged"), correction(register_module("correction", networks::Espcn(2))) {}
  Tensor operator()(const Tensor& low) const {
    return interpolate(low, {.scale_factor = 2.0, .mode = Interpolation::kBicubic, .antialias = true}) +
           correction(low);
  }

  nn::Child<networks::Espcn> correction;
};

std::vector<DynamicAxis> images() {
  return {{.axis = 0, .name = "batch"}, {.axis = 2, .name = "height"}, {.axis = 3, .name = "width"}};
}
std::vector<DynamicAxis> batches() { return {{.axis = 0}}; }

TEST_F(OnnxNetworks, GiveTheSameResultsAtEverySize) {
  add("dcgan", networks::DcganGenerator(8, 3), batches(), {{2, 8, 1, 1}, {5, 8, 1, 1}});
  add("espcn", networks::Espcn(), images(), {{1, 1, 8, 10}, {2, 1, 9, 7}});
  add("enlarged", Enlarged(), images(), {{1, 1, 8, 10}, {2, 1, 9, 7}});
  add("fsrcnn", networks::Fsrcnn(), images(), {{1, 1, 8, 10}, {2, 1, 9, 7}});
  add("unet", networks::UNet(), images(), {{1, 1, 16, 24}, {2, 1, 32, 8}});
  add("hifigan", networks::HifiGan(), {{.axis = 0, .name = "batch"}, {.axis = 2, .name = "frames"}},
      {{1, 6, 12}, {3, 6, 7}});
  add("autoencoder", networks::Autoencoder(), images(), {{1, 1, 8, 12}, {2, 1, 16, 8}});
  add("critic", networks::WganCritic(4), batches(), {{2, 1, 16, 16}, {3, 1, 16, 16}});
  run();
}

}  // namespace
}  // namespace adjoint
