// Networks as their papers have them (networks/), compared with PyTorch: loss and gradients of the same weights, and
// the weights and buffers after ten steps of Adam (fixtures/make_networks.py).
#include <adjoint/adjoint.h>
#include <adjoint/tests/nn/networks/autoencoder.h>
#include <adjoint/tests/nn/networks/dcgan.h>
#include <adjoint/tests/nn/networks/espcn.h>
#include <adjoint/tests/nn/networks/fsrcnn.h>
#include <adjoint/tests/nn/networks/hifigan.h>
#include <adjoint/tests/nn/networks/unet.h>
#include <adjoint/tests/nn/networks/vae.h>
#include <adjoint/tests/nn/networks/wgan_gp.h>
#include <adjoint/tests/support/fixtures.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace adjoint::networks {
namespace {

using Tensors = std::map<std::string, Tensor>;

/// A loss, and the part of the network that one optimiser trains with it.
struct Objective {
  std::string name;
  nn::Module trained;
  std::function<Tensor(const Tensors& inputs)> loss;
};
struct Network {
  nn::Module module;
  std::vector<Objective> objectives;  // in the order of a step
};
struct NetworkCase {
  const char* name;
  Network (*make)();
};

/// N with its one loss, of two inputs.
template <class N>
Network alone(const char* objective, const char* first, const char* second) {
  const N n;
  return {n, {{objective, n, [=](const Tensors& in) { return n.loss(in.at(first), in.at(second)); }}}};
}

const NetworkCase kCases[] = {
    {"dcgan",
     [] {
       const Dcgan n;
       return Network{n,
                      {{"discriminator", n.discriminator,
                        [=](const Tensors& in) { return n.discriminator_loss(in.at("real"), in.at("noise")); }},
                       {"generator", n.generator,
                        [=](const Tensors& in) { return n.generator_loss(in.at("noise")); }}}};
     }},
    {"wgan_gp",
     [] {
       const WganGp n;
       return Network{n,
                      {{"critic", n.critic,
                        [=](const Tensors& in) { return n.critic_loss(in.at("real"), in.at("noise"), in.at("u")); }},
                       {"generator", n.generator,
                        [=](const Tensors& in) { return n.generator_loss(in.at("noise")); }}}};
     }},
    {"unet", [] { return alone<UNet>("segmentation", "image", "target"); }},
    {"hifigan", [] { return alone<HifiGan>("mel", "mel", "audio"); }},
    {"vae", [] { return alone<Vae>("elbo", "image", "noise"); }},
    {"fsrcnn", [] { return alone<Fsrcnn>("mse", "low", "high"); }},
    {"espcn", [] { return alone<Espcn>("charbonnier", "low", "high"); }},
    {"autoencoder", [] { return alone<Autoencoder>("mse", "image", "corrupted"); }},
};

/// Fails if an element is off by more than `tolerance` times the expected tensor's largest one.
void expect_of_largest(const std::string& what, const Tensor& actual, const Tensor& expected, double tolerance) {
  ASSERT_TRUE(actual.defined()) << what;
  ASSERT_EQ(actual.shape(), expected.shape()) << what;
  const Tensor wide = expected.to(kFloat64);
  const double largest = amax(abs(wide)).item<double>();
  const double error = amax(abs(actual.to(kCPU).to(kFloat64) - wide)).item<double>();
  EXPECT_LE(error, tolerance * largest) << what << ", whose largest element is " << largest;
}

/// One network as PyTorch trained it, on one device.
class Training {
 public:
  Training(const NetworkCase& network, DType dtype, Device device = kCPU)
      : network_(network.make()), dtype_(dtype), device_(device) {
    const auto file = [&](const std::string& suffix) {
      return testing::fixture("networks/" + (network.name + suffix) + ".safetensors");
    };
    network_.module.to(kFloat64);
    nn::load_safetensors(file(""), network_.module);
    network_.module.to(dtype);
    network_.module.to(device);
    for (auto& [name, tensor] : nn::load_safetensors(file("_training")).tensors) expected_[name] = tensor;
    for (const auto& [name, tensor] : expected_) {
      const std::string prefix = "input.";
      if (!name.starts_with(prefix)) continue;
      inputs_[name.substr(prefix.size())] = (is_floating_point(tensor.dtype()) ? tensor.to(dtype) : tensor).to(device);
    }
  }

  void expect_loss_and_gradients(double tolerance) {
    std::size_t compared = 0;
    for (const Objective& objective : network_.objectives) {
      differentiate(objective, [&](const Tensor& loss) {
        expect_of_largest(objective.name, loss, expected_.at("loss." + objective.name), tolerance);
        for (const auto& [name, parameter] : objective.trained.named_parameters()) {
          const std::string gradient = "gradient." + objective.name + "." + name;
          expect_of_largest(gradient, parameter.grad(), expected_.at(gradient), tolerance);
          ++compared;
        }
      });
    }
    EXPECT_EQ(compared, count("gradient."));
  }

  void expect_ten_steps_of_adam(double tolerance) {
    std::vector<optim::Adam> optimizers;
    for (const Objective& objective : network_.objectives) optimizers.emplace_back(objective.trained.parameters());
    for (int step = 0; step < 10; ++step) {
      for (std::size_t i = 0; i < optimizers.size(); ++i) {
        differentiate(network_.objectives[i], [&](const Tensor&) { optimizers[i].step(); });
      }
    }
    const NamedTensors state = network_.module.state_dict();
    for (const auto& [name, tensor] : state) {
      expect_of_largest(name, tensor, expected_.at("trained." + name), tolerance);
    }
    EXPECT_EQ(state.size(), count("trained."));
  }

 private:
  /// f(loss), while the gradients exist.
  template <class F>
  void differentiate(const Objective& objective, const F& f) {
    const PrecisionGuard guard(Precision::kFull);
    Tape tape;
    const Tensor loss = objective.loss(inputs_);
    EXPECT_EQ(loss.dtype(), dtype_);
    EXPECT_EQ(loss.device(), device_);
    tape.backward(loss);
    f(loss);
    network_.module.zero_grad();
  }
  std::size_t count(const std::string& prefix) const {
    return static_cast<std::size_t>(std::count_if(expected_.begin(), expected_.end(),
                                                  [&](const auto& entry) { return entry.first.starts_with(prefix); }));
  }

  Network network_;
  DType dtype_;
  Device device_;
  Tensors expected_, inputs_;
};

class Networks : public ::testing::TestWithParam<NetworkCase> {};

TEST_P(Networks, LossAndGradientsMatchPyTorchInFloat64) {
  Training(GetParam(), kFloat64).expect_loss_and_gradients(1e-9);
}
TEST_P(Networks, LossAndGradientsMatchPyTorchInFloat32) {
  Training(GetParam(), kFloat32).expect_loss_and_gradients(1e-4);
}
TEST_P(Networks, TenStepsOfAdamMatchPyTorch) { Training(GetParam(), kFloat64).expect_ten_steps_of_adam(1e-8); }

class NetworksCuda : public Networks {
 protected:
  void SetUp() override {
    if (!cuda_is_available()) GTEST_SKIP() << "needs a CUDA device";
  }
};

TEST_P(NetworksCuda, LossAndGradientsMatchPyTorchInFloat64) {
  Training(GetParam(), kFloat64, kCUDA).expect_loss_and_gradients(1e-9);
}
TEST_P(NetworksCuda, LossAndGradientsMatchPyTorchInFloat32) {
  Training(GetParam(), kFloat32, kCUDA).expect_loss_and_gradients(1e-4);
}
TEST_P(NetworksCuda, TenStepsOfAdamMatchPyTorch) {
  Training(GetParam(), kFloat64, kCUDA).expect_ten_steps_of_adam(1e-8);
}

std::string test_name(const ::testing::TestParamInfo<NetworkCase>& test) { return test.param.name; }

INSTANTIATE_TEST_SUITE_P(All, Networks, ::testing::ValuesIn(kCases), test_name);
INSTANTIATE_TEST_SUITE_P(All, NetworksCuda, ::testing::ValuesIn(kCases), test_name);

}  // namespace
}  // namespace adjoint::networks
