#include "example_tool.h"
#include "resumed_training.h"

#include "common/squares.h"
#include "diffusion/apply.h"
#include "diffusion/denoiser.h"
#include "diffusion/process.h"
#include "diffusion/trainer.h"

#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/data/image.h>
#include <adjoint/nn/safetensors.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/loss/loss.h>
#include <adjoint/ops/reduce/reduce.h>
#include <adjoint/tests/support/errors.h>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace diffusion {
namespace {

namespace fs = std::filesystem;
namespace data = adjoint::data;
using adjoint::Shape;
using adjoint::Tensor;

Denoiser small_model() {
  adjoint::manual_seed(3);
  Denoiser model({.features = 8, .heads = 2});
  for (const Tensor& parameter : model.parameters())
    parameter.detach().add_(Tensor::randn(parameter.shape()), 0.05);  // the last layers begin with zeros
  model.eval();
  return model;
}

TEST(Diffusion, NoiseGrowsFromAlmostNoneToAll) {
  const std::vector<double>& shares = signal_shares();
  ASSERT_EQ(std::ssize(shares), kTimes);
  EXPECT_GT(shares.front(), 0.9999);
  EXPECT_LT(shares.back(), 1e-4);
  for (std::size_t t = 1; t < shares.size(); ++t) EXPECT_LT(shares[t], shares[t - 1]) << t;
  // Nichol and Dhariwal's function of time, where no step is cut.
  const auto cosine = [](double t) { return std::pow(std::cos((t / 1000 + 0.008) / 1.008 * std::acos(-1.0) / 2), 2); };
  EXPECT_NEAR(shares[499], cosine(500) / cosine(0), 1e-12);
}

TEST(Diffusion, NoisingKeepsTheVarianceAndItsVelocityThePicture) {
  adjoint::manual_seed(1);
  const Tensor pictures = Tensor::randn({4, 3, 32, 32}), noise = Tensor::randn({4, 3, 32, 32});
  const Tensor times = Tensor::from_vector(std::vector<std::int64_t>{0, 300, 700, 999}, {4});
  const auto [noisy, velocity] = Noising(adjoint::kCPU)(pictures, noise, times);
  for (std::int64_t i = 0; i < 4; ++i) {
    const double share = signal_shares()[static_cast<std::size_t>(times[i].item<std::int64_t>())];
    const Tensor expected = pictures[i] * std::sqrt(share) + noise[i] * std::sqrt(1.0 - share);
    EXPECT_LT(adjoint::abs(noisy[i] - expected).max().item<double>(), 1e-5) << i;
    const Tensor picture = noisy[i] * std::sqrt(share) - velocity[i] * std::sqrt(1.0 - share);
    EXPECT_LT(adjoint::abs(picture - pictures[i]).max().item<double>(), 1e-5) << i;
    EXPECT_NEAR(adjoint::square(noisy[i]).mean().item<double>(), 1.0, 0.1) << i;
  }
}

TEST(Diffusion, TheNetworkKnowsTheTimeAndKeepsTheShape) {
  const Denoiser model = small_model();
  const Tensor x = Tensor::randn({2, 3, 16, 12});
  const auto at = [&](std::int64_t time) { return model(x, Tensor::full({1}, time, {.dtype = adjoint::kInt64})); };
  EXPECT_EQ(at(5).shape(), x.shape());
  EXPECT_GT(adjoint::abs(at(5) - at(500)).max().item<double>(), 1e-4);
  const Tensor both = model(x, Tensor::from_vector(std::vector<std::int64_t>{5, 500}, {2}));
  EXPECT_LT(adjoint::abs(both[0] - at(5)[0]).max().item<double>(), 1e-5);
  EXPECT_LT(adjoint::abs(both[1] - at(500)[1]).max().item<double>(), 1e-5);
  EXPECT_ERROR(Denoiser({.features = 12}), "features must be a multiple of 8 up to 1024; got 12");
  EXPECT_ERROR(Denoiser({.features = 8, .heads = 5}), "heads must divide 32; got 5");
}

TEST(Diffusion, TheNetworkBeginsWithZerosAndHasEveryGradient) {
  adjoint::manual_seed(3);
  const Denoiser fresh({.features = 8, .heads = 2});
  const Tensor x = Tensor::randn({1, 3, 8, 8}), time = Tensor::full({1}, 7, {.dtype = adjoint::kInt64});
  EXPECT_EQ(adjoint::abs(fresh(x, time)).max().item<double>(), 0.0);
  const Denoiser model = small_model();
  adjoint::Tape tape;
  tape.backward(adjoint::mse_loss(model(x, time), x));
  for (const auto& [name, parameter] : model.named_parameters()) {
    ASSERT_TRUE(parameter.grad().defined()) << name;
    EXPECT_GT(adjoint::abs(parameter.grad()).max().item<double>(), 0.0) << name;
  }
}

TEST(Diffusion, OneStepIsTheClosedFormAndSamplingDrawsNothing) {
  const Denoiser model = small_model();
  const Tensor noise = picture_noise(5, 3);
  EXPECT_EQ(noise.to_vector<float>(), picture_noise(5, 3).to_vector<float>());
  const double share = signal_shares().back();
  const Tensor found = model(noise, Tensor::full({1}, kTimes - 1, {.dtype = adjoint::kInt64}));
  const Tensor expected = adjoint::clamp(std::sqrt(share) * noise - std::sqrt(1.0 - share) * found, -1.0, 1.0);
  EXPECT_LT(adjoint::abs(Sampler(model, 1)(noise) - expected).max().item<double>(), 1e-4);
  const auto offset = adjoint::default_generator().offset();
  const Tensor pictures = generate(model, noise, 4, adjoint::kCPU);
  EXPECT_EQ(adjoint::default_generator().offset(), offset);
  EXPECT_EQ(pictures.shape(), (Shape{3, 3, 32, 32}));
  EXPECT_EQ(pictures[1].to_vector<int>(), generate(model, noise.narrow(0, 1, 1), 4, adjoint::kCPU).to_vector<int>());
  EXPECT_ERROR(Sampler(model, 0), "steps must be from 1 to 1000; got 0");
}

TEST(Diffusion, SamplingFollowsTheVelocityThatTheNetworkFinds) {
  const Denoiser model = small_model();
  const Tensor noise = picture_noise(5, 2);
  Tensor x = noise;
  constexpr std::int64_t kSteps = 5;
  for (std::int64_t step = kSteps; step > 0; --step) {  // DDIM with eta 0, as Song et al. write it
    const std::int64_t time = step * kTimes / kSteps - 1, next = time - kTimes / kSteps;
    const double now = signal_shares()[static_cast<std::size_t>(time)];
    const double then = next < 0 ? 1.0 : signal_shares()[static_cast<std::size_t>(next)];
    const Tensor found = model(x, Tensor::full({1}, time, {.dtype = adjoint::kInt64}));
    const Tensor picture = adjoint::clamp(std::sqrt(now) * x - std::sqrt(1 - now) * found, -1.0, 1.0);
    x = std::sqrt(then) * picture + std::sqrt((1 - then) / (1 - now)) * (x - std::sqrt(now) * picture);
  }
  EXPECT_LT(adjoint::abs(Sampler(model, kSteps)(noise) - x).max().item<double>(), 1e-4);
}

TEST(Diffusion, ALoadedModelIsWhatWasSaved) {
  const fs::path file = fs::path(testing::TempDir()) / "adjoint_diffusion.safetensors";
  const Denoiser model = small_model();
  save_model(file, model);
  const Tensor x = Tensor::randn({1, 3, 8, 8}), time = Tensor::full({1}, 7, {.dtype = adjoint::kInt64});
  EXPECT_EQ(load_model(file)(x, time).to_vector<float>(), model(x, time).to_vector<float>());
  fs::remove(file);
}

class DiffusionTool : public examples::ExampleTool {
 protected:
  DiffusionTool() : ExampleTool("diffusion") {}

  std::string small(const std::string& out, const std::string& more = "", int steps = 20) const {
    return fmt::format(
        "train --steps {} --batch 4 --features 8 --heads 2 --sampling-steps 2 --compared 64 --classifier-steps 10 "
        "--test-every 10 --out '{}' {}",
        steps, (folder_ / out).string(), more);
  }
  nlohmann::json metrics(const std::string& out) const {
    return nlohmann::json::parse(std::ifstream(folder_ / out / "metrics.json"));
  }
};

TEST_F(DiffusionTool, TrainsAndMakesPictures) {
  ASSERT_EQ(run(small("out", "--lr 2e-3")), 0) << output_;
  const fs::path out = folder_ / "out";
  const auto json = metrics("out");
  EXPECT_EQ(json["curve"].size(), 3U) << "before the first step, at 10 and at 20";
  EXPECT_LT(json["curve"][2]["loss"], json["curve"][1]["loss"]);
  EXPECT_NE(json["frechet_distance"], json["untrained"]["frechet_distance"]);
  EXPECT_LT(json["baselines"]["other real pictures"], json["frechet_distance"]);
  for (const char* name : {"samples/0000000.png", "samples/0000020.png", "samples.png"})
    EXPECT_EQ(data::read_image(out / name).shape(), (Shape{3, 274, 274})) << name;
  EXPECT_EQ(data::read_image(out / "interpolation.png").shape(), (Shape{3, 138, 274}));

  const std::string model = "'" + (out / "model.safetensors").string() + "' '", to = (folder_ / "made.png").string();
  ASSERT_EQ(run("sample " + model + to + "' --count 5 --columns 3 --steps 2"), 0) << output_;
  EXPECT_EQ(data::read_image(to).shape(), (Shape{3, 70, 104}));
  const auto first = data::read_image(to).to_vector<int>();
  ASSERT_EQ(run("sample " + model + to + "' --count 5 --columns 3 --steps 2 --seed 7"), 0) << output_;
  EXPECT_NE(data::read_image(to).to_vector<int>(), first);
  ASSERT_EQ(run("sample " + model + to + "' --seed 2 --steps 2"), 0) << output_;
  EXPECT_EQ(data::read_image(to).to_vector<int>(), data::read_image(out / "samples.png").to_vector<int>());
  ASSERT_EQ(run("interpolate " + model + to + "' --rows 2 --columns 5 --steps 2"), 0) << output_;
  EXPECT_EQ(data::read_image(to).shape(), (Shape{3, 70, 172}));
}

TEST_F(DiffusionTool, GoesOnToTheBit) {
  Options options;
  options.features = 8;
  options.heads = 2;
  options.sampling_steps = 1;
  options.compared = 8;
  options.classifier_steps = 2;
  CLI::App app;
  examples::Settings settings("diffusion", app);
  options.add_to(settings);
  const examples::Run run{.program = "diffusion", .device = adjoint::kCPU, .steps = 12, .batch = 2, .test_every = 5};
  examples::expect_same_training(examples::trained<Trainer>(options, run, settings, {}, folder_ / "whole"),
                                 examples::trained<Trainer>(options, run, settings, {0, 3, 5, 8}, folder_ / "resumed"));
}

TEST_F(DiffusionTool, AFolderIsTrainedOn) {
  const fs::path pictures = folder_ / "pictures";
  fs::create_directories(pictures);
  for (int i = 0; i < 3; ++i)
    data::write_png(pictures / (std::to_string(i) + ".png"),
                    examples::drawn_shape(static_cast<std::uint64_t>(i)).image);
  std::ofstream(pictures / "broken.png") << "\x89PNG\r\n\x1a\n cut";
  ASSERT_EQ(run(small("out", "--images '" + pictures.string() + "'", 2)), 0) << output_;
  EXPECT_NE(output_.find("broken.png"), std::string::npos) << output_;
  EXPECT_NE(output_.find("trained on 3 pictures"), std::string::npos) << output_;
  EXPECT_FALSE(metrics("out").contains("baselines") && metrics("out")["baselines"].contains("other real pictures"));
}

TEST_F(DiffusionTool, BadInputIsNamedInOneLine) {
  const std::string here = folder_.string();
  std::ofstream(folder_ / "file") << "no model";
  fs::create_directories(folder_ / "none");
  save_model(folder_ / "good.safetensors", small_model());
  adjoint::nn::save_safetensors(folder_ / "cut.safetensors", adjoint::NamedTensors{},
                                {{"architecture", "adjoint diffusion denoiser"},
                                 {"options", "{\"features\": 9, \"heads\": 1}"}});
  adjoint::nn::save_safetensors(folder_ / "other.safetensors", adjoint::NamedTensors{},
                                {{"architecture", "adjoint gan generator"}, {"options", "{}"}});
  const std::string sample = "sample " + here, train = "train --out " + here + "/out ";
  const std::pair<std::string, const char*> cases[] = {
      {sample + "/none.safetensors " + here + "/a.png", "none.safetensors"},
      {sample + "/file " + here + "/a.png", "/file"},
      {sample + "/cut.safetensors " + here + "/a.png", "features must be a multiple of 8 up to 1024; got 9"},
      {sample + "/other.safetensors " + here + "/a.png", "/other.safetensors' is not a model of this program"},
      {sample + "/good.safetensors a.gif", "the output must end in .png or .jpg or .jpeg; got 'a.gif'"},
      {sample + "/good.safetensors " + here + "/a.png --count 0", "--count must be from 1 to 10000; got 0"},
      {sample + "/good.safetensors " + here + "/a.png --steps 1001", "--steps must be from 1 to 1000; got 1001"},
      {"interpolate " + here + "/good.safetensors " + here + "/a.png --rows 0", "--rows must be from 1 to 1000"},
      {small("out", "--images " + here + "/none"), "/none' holds no PNG or JPEG file"},
      {train + "--features 12", "features must be a multiple of 8 up to 1024; got 12"},
      {train + "--heads 5", "heads must divide 256; got 5"},
      {train + "--sampling-steps 0", "--sampling-steps must be from 1 to 1000; got 0"},
      {train + "--compared 1", "--compared must be from 2 to 100000; got 1"},
      {small("out", "--drawn letters"), "--drawn must be one of shapes, digits; got 'letters'"},
  };
  for (const auto& [arguments, message] : cases) {
    EXPECT_EQ(run(arguments), 1) << arguments << ": " << output_;
    EXPECT_NE(output_.find(message), std::string::npos) << arguments << ": " << output_;
    EXPECT_EQ(lines(), 1) << arguments << ": " << output_;
  }
}

}  // namespace
}  // namespace diffusion
