// --memory-format, of every program of pictures.
#include "resumed_training.h"
#include "super_resolution_tool.h"

#include "autoencoder/trainer.h"
#include "autoencoder/vae.h"
#include "autoencoder/vqvae.h"
#include "common/memory_format.h"
#include "common/squares.h"
#include "diffusion/trainer.h"
#include "gan/trainer.h"
#include "segmentation/predict.h"
#include "segmentation/trainer.h"
#include "super_resolution/training.h"

#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/device.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/data/image.h>
#include <adjoint/data/transforms.h>
#include <adjoint/nn/safetensors.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace examples {
namespace {

namespace data = adjoint::data;
namespace nn = adjoint::nn;
using adjoint::kChannelsLast;
using adjoint::kContiguous;
using adjoint::MemoryFormat;
using adjoint::Tensor;

TEST(MemoryFormatOption, AutoIsChannelsLastWhereConvolutionsReadIt) {
  for (const char* precision : {"bf16", "fp16"}) {
    EXPECT_EQ(automatic_memory_format(90, precision), kChannelsLast) << precision;
    EXPECT_EQ(automatic_memory_format(120, precision), kContiguous) << precision;
    EXPECT_EQ(automatic_memory_format(89, precision), kContiguous) << precision;
    EXPECT_EQ(automatic_memory_format(0, precision), kContiguous) << "the CPU, " << precision;
  }
  EXPECT_EQ(automatic_memory_format(90, "tf32"), kContiguous);
  EXPECT_EQ(automatic_memory_format(90, "float32"), kContiguous);
  EXPECT_EQ(memory_format_of("auto", adjoint::kCPU, "bf16"), kContiguous);
  EXPECT_EQ(memory_format_of("channels-last", adjoint::kCPU, "float32"), kChannelsLast);
  EXPECT_EQ(memory_format_of("contiguous", adjoint::kCPU, "bf16"), kContiguous);
}

/// Counts the results of convolutions in `net` while f runs: all with several channels and pixels, and those in
/// channels_last.
template <class F>
std::pair<int, int> results_of(const nn::Module& net, const F& f) {
  int all = 0, last = 0;
  std::vector<std::pair<nn::Module, std::uint64_t>> hooks;
  for (nn::Module& module : net.modules()) {
    if (!module.type().starts_with("Conv")) continue;
    const auto id = module.register_forward_hook([&](const nn::Module&, const Tensor&, const Tensor& output) {
      if (output.size(1) > 1 && output.size(2) * output.size(3) > 1) {
        ++all;
        if (output.memory_format() == kChannelsLast) ++last;
      }
      return Tensor{};
    });
    hooks.emplace_back(module, id);
  }
  f();
  for (auto& [module, id] : hooks) module.remove_hook(id);
  return {all, last};
}

/// f(), a tensor, of the same net in both formats: close values, and results of convolutions in the filters' format,
/// except for the first `of_luma`.
template <class F>
void expect_both_formats(const std::string& what, nn::Module& net, const F& f, int of_luma = 0) {
  const adjoint::PauseTape pause;
  placed(net, adjoint::kCPU, kContiguous);
  Tensor contiguous, other;
  const auto before = results_of(net, [&] { contiguous = f(); });
  EXPECT_EQ(before.second, 0) << what;
  placed(net, adjoint::kCPU, kChannelsLast);
  const auto after = results_of(net, [&] { other = f(); });
  EXPECT_EQ(after.first, before.first) << what;
  EXPECT_GT(after.first, 0) << what;
  EXPECT_EQ(after.second, after.first - of_luma) << what;
  EXPECT_LT((other - contiguous).abs().max().item<float>(), 1e-4F) << what;
}

TEST(MemoryFormatOption, NetworksComputeInTheFormatOfTheirFilters) {
  adjoint::manual_seed(1);
  const Tensor pictures = Tensor::rand({2, 3, 32, 32}), luma = Tensor::rand({2, 1, 12, 12});
  for (const std::string& network : super_resolution::networks()) {
    super_resolution::Model model({.network = network, .features = 16, .layers = 2});
    for (const Tensor& parameter : model.parameters())
      parameter.detach().add_(Tensor::rand(parameter.shape()), 0.01);  // the last layer begins with zeros
    expect_both_formats(
        network, model, [&] { return model(luma); }, 1);
  }
  super_resolution::PatchDiscriminator judge(4);
  judge.eval();
  expect_both_formats("PatchDiscriminator", judge, [&] { return judge(luma, luma); });

  for (const std::string norm : {"batch", "group"}) {
    segmentation::UNet unet({.classes = 3, .features = 8, .depth = 2, .norm = norm});
    unet.eval();
    expect_both_formats("UNet " + norm, unet,
                        [&] { return scores(unet, data::to_uint8(pictures[0]), adjoint::kCPU, 16); });
  }

  diffusion::Denoiser denoiser({.features = 8, .heads = 2});
  denoiser.eval();
  for (const Tensor& parameter : denoiser.parameters()) parameter.detach().add_(Tensor::rand(parameter.shape()), 0.01);
  const Tensor times = Tensor::full({1}, 300, {.dtype = adjoint::kInt64});
  expect_both_formats("Denoiser", denoiser, [&] { return denoiser(in_format(pictures, format_of(denoiser)), times); });

  gan::Generator generator({.latent = 8, .features = 4});
  generator.eval();
  expect_both_formats("Generator", generator, [&] { return generator(noise_of(1, 2, 8)); });

  autoencoder::Vae vae({.latent = 4, .features = 4});
  vae.eval();
  expect_both_formats("Vae", vae, [&] { return vae.decode(vae.encode(pictures)); });
  autoencoder::VqVae vqvae({.codes = 16, .width = 4, .features = 4});
  vqvae.eval();
  expect_both_formats("VqVae", vqvae, [&] { return vqvae.decompress(vqvae.compress(pictures)); });
  const Tensor codes = vqvae.compress(pictures);
  nn::Module prior = vqvae.prior();
  expect_both_formats("Prior", prior, [&] { return vqvae.prior()(codes); });
}

class MemoryFormats : public super_resolution::SuperResolution {
 protected:
  static examples::Run run_in(MemoryFormat format, int steps) {
    return {.program = "test",
            .device = adjoint::kCPU,
            .precision = "float32",
            .memory_format = format,
            .steps = steps,
            .batch = 2,
            .test_every = 4};
  }
  /// The losses of one step are close in both formats. A checkpoint of a training in one format holds the same state
  /// after it went through a training in the other, which continues from there.
  template <class Trainer, class Options>
  void expect_formats_continue_each_other(const Options& options) {
    std::vector<std::vector<double>> losses;
    for (const MemoryFormat format : {kContiguous, kChannelsLast}) {
      adjoint::manual_seed(1);
      Trainer trainer(options, run_in(format, 1));
      losses.emplace_back();
      for (const Tensor& value : trainer.step(trainer.next())) losses.back().push_back(value.item<double>());
    }
    for (std::size_t i = 0; i < losses[0].size(); ++i)
      EXPECT_NEAR(losses[1][i], losses[0][i], 1e-4 * std::abs(losses[0][i]) + 1e-6) << i;

    CLI::App app;
    const Settings settings("test", app);
    for (const MemoryFormat first : {kChannelsLast, kContiguous}) {
      RunFolder folder("test", folder_ / to_string(first));
      adjoint::manual_seed(1);
      {
        const examples::Run run = run_in(first, 3);
        Trainer trainer(options, run);
        Loop loop(trainer, run, settings);
        EXPECT_FALSE(loop.run(folder, [&] { return loop.steps_done() == 2; }));
      }
      const auto before = adjoint::nn::load_safetensors(folder / Loop::kCheckpoint);
      const examples::Run run = run_in(first == kContiguous ? kChannelsLast : kContiguous, 3);
      Trainer trainer(options, run);
      Loop loop(trainer, run, settings);
      loop.load(folder);
      loop.save(folder);
      expect_same_training(before, adjoint::nn::load_safetensors(folder / Loop::kCheckpoint), to_string(first));
      EXPECT_TRUE(loop.run(folder, [] { return false; }));
    }
    std::filesystem::remove_all(folder_ / "contiguous");
    std::filesystem::remove_all(folder_ / "channels_last");
  }
};

TEST_F(MemoryFormats, TrainingsContinueInTheOtherFormat) {
  for (const char* loss : {"mse", "gan"}) {
    SCOPED_TRACE(loss);
    expect_formats_continue_each_other<super_resolution::Trainer>(
        super_resolution::Options{.images = write_pictures().string(),
                                  .patch = 8,
                                  .model = {.features = 4, .layers = 1},
                                  .loss = loss,
                                  .discriminator_channels = 2});
  }
  {
    SCOPED_TRACE("segmentation");
    segmentation::Options options;
    options.features = 4;
    options.depth = 1;
    options.patch = 16;
    expect_formats_continue_each_other<segmentation::Trainer>(options);
  }
  for (const char* loss : {"wgan-gp", "hinge"}) {
    SCOPED_TRACE(loss);
    gan::Options options;
    options.loss = loss;
    options.features = 4;
    options.latent = 8;
    options.classifier_steps = 1;
    expect_formats_continue_each_other<gan::Trainer>(options);
  }
  for (const char* model : {"vae", "vqvae"}) {
    SCOPED_TRACE(model);
    autoencoder::Options options;
    options.model = model;
    options.features = 4;
    options.codes = 16;
    expect_formats_continue_each_other<autoencoder::Trainer>(options);
  }
}

struct Case {
  const char *program, *small, *verb;
};
void PrintTo(const Case& one, std::ostream* os) { *os << one.program; }

class MemoryFormatTool : public ExampleTool, public testing::WithParamInterface<Case> {
 protected:
  MemoryFormatTool() : ExampleTool(GetParam().program) {}
  bool says(const std::string& text) const { return output_.find(text) != std::string::npos; }
};

TEST_P(MemoryFormatTool, TrainsResumesInAnotherFormatAndRefusesOthers) {
  const std::filesystem::path out = folder_ / "out";
  const std::string to = " --device cpu --out '" + out.string() + "' ", wrong = "--memory-format nhwc",
                    message = ": --memory-format must be one of auto, contiguous, channels-last; got 'nhwc'";
  const auto setting = [&] {
    return nlohmann::json::parse(std::ifstream(out / "metrics.json"))["settings"]["memory-format"];
  };
  EXPECT_EQ(run("train" + to + wrong), 1) << output_;
  EXPECT_TRUE(says(GetParam().program + message)) << output_;
  ASSERT_EQ(run("train --steps 1 --memory-format channels-last" + to + GetParam().small), 0) << output_;
  EXPECT_EQ(setting(), "channels-last");
  EXPECT_EQ(run("train --resume --steps 2" + to + wrong), 1) << output_;
  EXPECT_TRUE(says(GetParam().program + message)) << output_;
  ASSERT_EQ(run("train --resume --steps 2 --memory-format contiguous" + to), 0) << output_;
  EXPECT_EQ(setting(), "contiguous");
  ASSERT_EQ(run("train --resume --steps 3" + to), 0) << output_;
  EXPECT_EQ(setting(), "contiguous") << "the checkpoint's";

  const std::string verb = GetParam().verb + std::string(" '") + (out / "model.safetensors").string() + "' ",
                    picture = folder_ / "picture.png", made = " '" + (folder_ / "made.png").string() + "' ";
  data::write_png(picture, Tensor::full({3, 16, 16}, 100.0, {.dtype = adjoint::kUInt8}));
  const std::string files = (verb.starts_with("sample") ? "" : "'" + picture + "'") + made;
  ASSERT_EQ(run(verb + files + "--device cpu --memory-format channels-last"), 0) << output_;
  EXPECT_EQ(run(verb + files + "--device cpu " + wrong), 1) << output_;
  EXPECT_TRUE(says(GetParam().program + message)) << output_;
}

INSTANTIATE_TEST_SUITE_P(
    Examples, MemoryFormatTool,
    testing::Values(Case{"super_resolution", "--batch 2 --patch 8 --features 4 --layers 1", "upscale"},
                    Case{"segmentation", "--batch 2 --patch 16 --features 8 --depth 1", "predict"},
                    Case{"diffusion", "--batch 2 --features 8 --sampling-steps 1 --compared 2 --classifier-steps 2",
                         "sample --steps 1"},
                    Case{"gan", "--batch 4 --features 4 --latent 8 --classifier-steps 2", "sample"},
                    Case{"autoencoder", "--batch 4 --features 4 --latent 8", "sample"}),
    [](const auto& one) { return std::string(one.param.program); });

}  // namespace
}  // namespace examples
