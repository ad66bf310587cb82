// --precision fp16 and --graph, of every program.
#include "resumed_training.h"
#include "super_resolution_tool.h"

#include "amp/trainer.h"
#include "autoencoder/trainer.h"
#include "common/arithmetic.h"
#include "gan/trainer.h"
#include "segmentation/trainer.h"
#include "super_resolution/training.h"
#include "text/trainer.h"
#include "vocoder/trainer.h"

#include <adjoint/core/base/device.h>
#include <adjoint/core/graph/graphed_step.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/nn/linear.h>
#include <adjoint/nn/safetensors.h>
#include <adjoint/ops/loss/loss.h>
#include <adjoint/optim/sgd.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <string>
#include <vector>

namespace examples {
namespace {

using adjoint::NamedTensors;
using adjoint::Tensor;

const char* const kSuperResolution = "--batch 2 --patch 8 --features 4 --layers 1 --discriminator-channels 2 ";
const char* const kSegmentation = "--batch 2 --patch 16 --features 8 --depth 1 ";
const char* const kDiffusion = "--batch 2 --features 8 --sampling-steps 1 --compared 2 --classifier-steps 2 ";
const char* const kGan = "--batch 4 --features 4 --latent 8 --classifier-steps 2 ";
const char* const kVocoder =
    "--batch 2 --network tiny --channels 8 --sample-rate 4000 --segment 2048 --discriminator-channels 1 "
    "--adversarial-from 3 ";
const char* const kAutoencoder = "--batch 4 --features 4 --latent 8 --codes 16 --code-width 4 ";
const char* const kText = "--batch 2 --layers 1 --heads 2 --width 8 --context 8 ";

vocoder::Options small_vocoder() {
  vocoder::Options options;
  options.generator = {.network = "tiny", .channels = 8, .sample_rate = 4000};
  options.segment = 2048;
  options.discriminator_channels = 1;
  options.adversarial_from = 2;
  return options;
}

const char* const kAmp = "--batch 2 --channels 4 --layers 4 --sample-rate 8000 --segment 256 --seconds 2 ";

struct Case {
  const char *name, *program, *small, *options;
};
void PrintTo(const Case& one, std::ostream* os) { *os << one.name; }

class EveryProgram : public ExampleTool, public testing::WithParamInterface<Case> {
 protected:
  EveryProgram() : ExampleTool(GetParam().program) {}
  /// Runs that many steps and returns the checkpoint.
  adjoint::nn::Safetensors trained(int steps, const std::string& out, const std::string& options) {
    const std::filesystem::path path = folder_ / out;
    EXPECT_EQ(run("train " + std::string(GetParam().small) + GetParam().options + " --steps " + std::to_string(steps) +
                  " --test-every 4 --out '" + path.string() + "' " + options),
              0)
        << output_;
    return adjoint::nn::load_safetensors(path / Loop::kCheckpoint);
  }
};

// The whole checkpoint: parameters, optimisers, schedules, averages, and the counts of steps.
TEST_P(EveryProgram, CudaStepsAsGraphsHaveTheSameBits) {
  if (!adjoint::cuda_is_available()) GTEST_SKIP() << "needs a CUDA GPU";
  // Two warm-ups, two captures if a phase begins at step 3, and replays between tests.
  for (const std::string precision : {"tf32", "bf16", "fp16"}) {
    const std::string options = "--device cuda --precision " + precision;
    expect_same_training(trained(14, "plain", options + " --graph=false"), trained(14, "graph", options + " --graph"),
                         precision);
  }
}

TEST_P(EveryProgram, CudaMemoryIsTheSameAfterManySteps) {
  if (!adjoint::cuda_is_available()) GTEST_SKIP() << "needs a CUDA GPU";
  trained(104, "out", "--device cuda --test-every 52");
  const auto curve = nlohmann::json::parse(std::ifstream(folder_ / "out" / "metrics.json"))["curve"];
  ASSERT_EQ(curve.size(), 3U) << "before the first step, at 52 and at 104";
  // The loader's next batch, of 240 KiB at most, may be in transfer or not.
  EXPECT_NEAR(curve[2]["memory_in_use"].get<double>(), curve[1]["memory_in_use"].get<double>(), 1 << 18);
}

INSTANTIATE_TEST_SUITE_P(
    Examples, EveryProgram,
    testing::Values(Case{"super_resolution", "super_resolution", kSuperResolution, ""},
                    Case{"super_resolution_gan", "super_resolution", kSuperResolution, "--loss gan"},
                    Case{"segmentation", "segmentation", kSegmentation, ""},
                    Case{"diffusion", "diffusion", kDiffusion, ""}, Case{"gan", "gan", kGan, ""},
                    Case{"gan_wgan_gp", "gan", kGan, "--loss wgan-gp"}, Case{"gan_hinge", "gan", kGan, "--loss hinge"},
                    Case{"vocoder", "vocoder", kVocoder, ""}, Case{"vae", "autoencoder", kAutoencoder, "--model vae"},
                    Case{"vqvae", "autoencoder", kAutoencoder, "--model vqvae"}, Case{"text", "text", kText, ""},
                    Case{"amp", "amp", kAmp, ""}),
    [](const auto& one) { return std::string(one.param.name); });

class Precision : public super_resolution::SuperResolution {
 protected:
  /// A few steps, without the loop's tests: losses and parameters stay finite, and a checkpoint has the scalers.
  template <class Trainer, class Options>
  void train_in_float16(const Options& options, int optimizers) {
    const examples::Run run{
        .program = "test", .device = adjoint::kCPU, .precision = "fp16", .steps = 3, .batch = 2, .test_every = 3};
    adjoint::manual_seed(1);
    Trainer trainer(options, run);
    for (int i = 0; i < 3; ++i) {
      for (const Tensor& value : trainer.step(trainer.next())) EXPECT_TRUE(std::isfinite(value.item<double>()));
    }
    State state;
    trainer.add_to(state);
    adjoint::nn::BackgroundWriter writer;
    state.save(folder_ / "state.safetensors", nlohmann::json::object(), writer);
    writer.wait();
    state.load(folder_ / "state.safetensors");
    int scalers = 0;
    for (const auto& [name, tensor] : adjoint::nn::load_safetensors(folder_ / "state.safetensors").tensors) {
      EXPECT_NE(tensor.dtype(), adjoint::kFloat16) << name;
      if (name.starts_with("arithmetic.") && name.ends_with(".scale")) ++scalers;
      for (const double value : tensor.template to_vector<double>()) ASSERT_TRUE(std::isfinite(value)) << name;
    }
    EXPECT_EQ(scalers, optimizers);
  }
};

TEST_F(Precision, EveryProgramTrainsInFloat16) {
  {
    SCOPED_TRACE("super_resolution");
    train_in_float16<super_resolution::Trainer>(super_resolution::Options{.images = write_pictures().string(),
                                                                          .patch = 8,
                                                                          .model = {.network = "espcn", .features = 4}},
                                                1);
  }
  {
    SCOPED_TRACE("segmentation");
    segmentation::Options options;
    options.features = 4;
    options.depth = 1;
    options.patch = 16;
    train_in_float16<segmentation::Trainer>(options, 1);
  }
  for (const char* loss : {"nonsaturating", "wgan-gp", "hinge"}) {
    SCOPED_TRACE(loss);
    gan::Options options;
    options.loss = loss;
    options.features = 4;
    options.latent = 8;
    train_in_float16<gan::Trainer>(options, 2);
  }
  for (const char* model : {"vae", "vqvae"}) {
    SCOPED_TRACE(model);
    autoencoder::Options options;
    options.model = model;
    options.features = 4;
    options.codes = 16;
    train_in_float16<autoencoder::Trainer>(options, 1);
  }
  {
    SCOPED_TRACE("text");
    const std::filesystem::path text = folder_ / "text";
    std::ofstream(text) << std::string(1000, 'a');
    train_in_float16<text::Trainer>(text::Options{.text = {text.string()},
                                                  .model = {.layers = 1, .heads = 2, .width = 8, .context = 8}},
                                    1);
  }
  {
    SCOPED_TRACE("amp");
    train_in_float16<amp::Trainer>(
        amp::Options{.seconds = 1, .model = {.channels = 4, .layers = 3, .sample_rate = 8000}, .segment = 64}, 1);
  }
  {
    SCOPED_TRACE("vocoder");
    vocoder::Options options = small_vocoder();
    options.adversarial_from = 1;
    train_in_float16<vocoder::Trainer>(options, 2);
  }
}

TEST_F(Precision, InfiniteGradientsChangeNothingButTheScale) {
  Arithmetic arithmetic("fp16");
  adjoint::manual_seed(1);
  adjoint::nn::Linear layer(2, 1);
  adjoint::optim::SGD sgd(layer.parameters(), {.lr = 0.1});
  const auto step = [&](double factor) {
    arithmetic.minimise(sgd, [&] { return (layer(Tensor::ones({1, 2})) * factor).to(adjoint::kFloat32).sum(); });
  };
  const auto scale = [&] { return arithmetic.state_dict().front().second.item<float>(); };
  EXPECT_TRUE(arithmetic.state_dict().empty());
  const auto first = layer.weight.to_vector<float>();
  step(8.0);  // times a scale of 65536: more than float16 holds
  EXPECT_EQ(layer.weight.to_vector<float>(), first);
  EXPECT_EQ(scale(), 32768.0F);
  step(0.5);
  const auto second = layer.weight.to_vector<float>();
  for (std::size_t i = 0; i < 2; ++i) EXPECT_NEAR(second[i], first[i] - 0.05F, 1e-6F);

  Arithmetic other("fp16");
  NamedTensors state = arithmetic.state_dict();
  other.load_state_dict(state);
  EXPECT_EQ(other.state_dict().front().second.item<float>(), 32768.0F);
  state.front().first = "1.scale";
  EXPECT_ERROR(other.load_state_dict(state), "scale");
  for (const char* precision : {"float32", "tf32", "bf16"}) {
    Arithmetic wide(precision);
    wide.minimise(sgd, [&] { return layer(Tensor::ones({1, 2})).sum(); });
    EXPECT_TRUE(wide.state_dict().empty()) << precision;
  }
}

TEST_F(Precision, GraphsOnTheCpuAreToldAndChangeNothing) {
  for (const std::string more : {"", "--graph"}) {
    ASSERT_EQ(run(quick(folder_ / ("out" + more), 3, "--device cpu " + more)), 0) << output_;
    EXPECT_EQ(output_.find("a CPU has no CUDA graphs; every step runs as usual") != std::string::npos, !more.empty());
  }
  expect_same_training(adjoint::nn::load_safetensors(folder_ / "out" / Loop::kCheckpoint),
                       adjoint::nn::load_safetensors(folder_ / "out--graph" / Loop::kCheckpoint));
}

// The vocoder's discriminators take part from step 2 on: its steps count themselves under a graph too.
TEST_F(Precision, PhasesChangeUnderGraphs) {
  const vocoder::Options options = small_vocoder();
  std::vector<std::vector<double>> losses[2];
  for (const bool graph : {false, true}) {
    adjoint::manual_seed(1);
    vocoder::Trainer trainer(options,
                             {.program = "vocoder", .device = adjoint::kCPU, .steps = 4, .batch = 2, .test_every = 4});
    adjoint::GraphedStep step([&](const std::vector<Tensor>& in) { return trainer.step(in); },
                              {.device = adjoint::kCPU});
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(trainer.phase(), i < 2 ? 0 : 1);
      std::vector<double> now;
      for (const Tensor& value : graph ? step(trainer.next()) : trainer.step(trainer.next()))
        now.push_back(value.item<double>());
      losses[graph].push_back(now);
    }
  }
  EXPECT_EQ(losses[0], losses[1]);
}

}  // namespace
}  // namespace examples
