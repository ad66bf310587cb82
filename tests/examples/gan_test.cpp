#include "example_tool.h"
#include "resumed_training.h"

#include "common/frechet.h"
#include "common/squares.h"
#include "gan/networks.h"
#include "gan/sample.h"
#include "gan/trainer.h"

#include <adjoint/core/tensor/random.h>
#include <adjoint/data/image.h>
#include <adjoint/nn/norm.h>
#include <adjoint/nn/safetensors.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/matmul/matmul.h>
#include <adjoint/tests/support/errors.h>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace gan {
namespace {

namespace fs = std::filesystem;
namespace data = adjoint::data;
using adjoint::Shape;
using adjoint::Tensor;
using examples::Classifier;
using examples::drawn_batch;
using examples::drawn_set;
using examples::drawn_shape;
using examples::frechet_distance;
using examples::Gaussian;
using examples::gaussian_of;
using examples::kPictureExtent;

TEST(Gan, FrechetDistanceOfGaussiansIsTheClosedForm) {
  const Gaussian a{{1.0, 2.0}, {4.0, 0.0, 0.0, 9.0}}, b{{0.0, 4.0}, {1.0, 0.0, 0.0, 16.0}};
  // For diagonal covariances, the deviations' distance: (2 - 1)^2 + (3 - 4)^2, plus the means' 1 + 4.
  EXPECT_NEAR(frechet_distance(a, b), 7.0, 1e-12);
  EXPECT_NEAR(frechet_distance(a, a), 0.0, 1e-12);
  // A = I: sum of (1 - sqrt of B's eigenvalues)^2; those of {5, 4, 4, 5} are 1 and 9.
  EXPECT_NEAR(frechet_distance({{0, 0}, {1, 0, 0, 1}}, {{0, 0}, {5, 4, 4, 5}}), 4.0, 1e-12);
  // Of matrices that do not commute, 2x2: tr (AB)^(1/2) = sqrt(tr AB + 2 sqrt(det AB)).
  const double tr = 2 * 3 + 1 * 1 + 1 * 1 + 2 * 1, det = 3.0 * 2.0;
  const double wanted = 4 + 4 - 2 * std::sqrt(tr + 2 * std::sqrt(det));
  const Gaussian c{{0, 0}, {2, 1, 1, 2}}, d{{0, 0}, {3, 1, 1, 1}};
  EXPECT_NEAR(frechet_distance(c, d), wanted, 1e-12);
  EXPECT_NEAR(frechet_distance(d, c), wanted, 1e-12);
  // Without full rank.
  EXPECT_NEAR(frechet_distance({{0, 0}, {4, 0, 0, 0}}, {{0, 0}, {0, 0, 0, 9}}), 13.0, 1e-12);
  EXPECT_ERROR(frechet_distance(a, {{0}, {1}}), "both must have 2 features; got 1");
}

TEST(Gan, GaussianHasMeanAndUnbiasedCovariance) {
  const Gaussian g = gaussian_of(Tensor::from_vector({1.F, 2.F, 3.F, 6.F, 5.F, 1.F}, {3, 2}));
  const std::vector<double> mean{3, 3}, covariance{4, -1, -1, 7};
  for (std::size_t i = 0; i < 2; ++i) EXPECT_NEAR(g.mean[i], mean[i], 1e-12);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(g.covariance[i], covariance[i], 1e-12);
  EXPECT_ERROR(gaussian_of(Tensor::zeros({1, 4})), "N at least 2; got (1, 4)");
}

TEST(Gan, FrechetDistanceTellsOtherPicturesFromMoreOfTheSame) {
  const auto generator = adjoint::default_generator();
  for (const std::string& name : examples::drawn_sets()) {
    const examples::DrawnSet& set = drawn_set(name);
    Classifier classifier(set);
    classifier.fit(120, adjoint::kCPU);
    EXPECT_GT(classifier.accuracy(adjoint::kCPU), 0.5) << name << "; chance: 0.17 or less";
    const Tensor some = drawn_batch(set, 0, 300), more = drawn_batch(set, 300, 300);
    EXPECT_EQ(adjoint::default_generator().offset(), generator.offset()) << "measuring must not change a training";
    const adjoint::GeneratorGuard guard{adjoint::Generator(1)};
    const Tensor faint = some + 0.5 * Tensor::randn(some.shape());
    const auto of = [&](const Tensor& pictures) { return gaussian_of(classifier.features(pictures)); };
    EXPECT_LT(10 * frechet_distance(of(some), of(more)), frechet_distance(of(some), of(faint))) << name;
  }
}

TEST(Gan, ACriticWithPenaltyOrSpectralNormHasNoBatchNorm) {
  for (const auto& [normalisation, wanted] : {std::pair{Normalisation::kBatch, 2}, std::pair{Normalisation::kNone, 0},
                                              std::pair{Normalisation::kSpectral, 0}}) {
    const Discriminator net(4, normalisation);
    int found = 0, estimates = 0;
    net.visit<adjoint::nn::BatchNorm2d>([&](auto&) { ++found; });
    for (const auto& [name, tensor] : net.named_buffers()) estimates += name.ends_with("weight_u") ? 1 : 0;
    EXPECT_EQ(found, wanted);
    EXPECT_EQ(estimates, normalisation == Normalisation::kSpectral ? 4 : 0);
    EXPECT_EQ(net(Tensor::zeros({3, 3, kPictureExtent, kPictureExtent})).shape(), (Shape{3}));
  }
}

class GanTool : public examples::ExampleTool {
 protected:
  GanTool() : ExampleTool("gan") {}

  std::string small(const std::string& out, const std::string& more = "", int steps = 20, int test_every = 10) const {
    return fmt::format(
        "train --steps {} --batch 4 --features 4 --latent 8 --classifier-steps 10 --test-every {} --out '{}' {}", steps,
        test_every, (folder_ / out).string(), more);
  }
  nlohmann::json metrics(const std::string& out) const {
    return nlohmann::json::parse(std::ifstream(folder_ / out / "metrics.json"));
  }
};

TEST_F(GanTool, TrainsByEveryLossAndMakesPictures) {
  for (const std::string loss : {"nonsaturating", "wgan-gp", "hinge"}) {
    ASSERT_EQ(run(small(loss, "--loss " + loss)), 0) << output_;
    const fs::path out = folder_ / loss;
    const auto json = metrics(loss);
    EXPECT_EQ(json["curve"].size(), 3U) << "before the first step, at 10 and at 20";
    EXPECT_NE(json["frechet_distance"], json["untrained"]["frechet_distance"]);
    EXPECT_LT(json["baselines"]["other real pictures"], json["frechet_distance"]);
    EXPECT_TRUE(fs::exists(out / "log" / "scalars.csv"));
    for (const char* name : {"samples/0000000.png", "samples/0000020.png", "samples.png"})
      EXPECT_EQ(data::read_image(out / name).shape(), (Shape{3, 274, 274})) << name;
    EXPECT_NE(data::read_image(out / "samples/0000000.png").to_vector<int>(),
              data::read_image(out / "samples.png").to_vector<int>());

    const std::string model = "'" + (out / "model.safetensors").string() + "' '", to = (folder_ / "made.png").string();
    ASSERT_EQ(run("sample " + model + to + "' --count 5 --columns 3"), 0) << output_;
    EXPECT_EQ(data::read_image(to).shape(), (Shape{3, 70, 104}));
    const auto first = data::read_image(to).to_vector<int>();
    ASSERT_EQ(run("sample " + model + to + "' --count 5 --columns 3 --seed 7"), 0) << output_;
    EXPECT_NE(data::read_image(to).to_vector<int>(), first);
    ASSERT_EQ(run("interpolate " + model + to + "' --rows 2 --steps 5"), 0) << output_;
    EXPECT_EQ(data::read_image(to).shape(), (Shape{3, 70, 172}));
  }
}

TEST_F(GanTool, TheDistanceFallsAlongTraining) {
  for (const std::string& drawn : examples::drawn_sets()) {
    ASSERT_EQ(run("train --steps 60 --batch 8 --features 8 --latent 8 --lr 2e-3 --ema 0.9 --classifier-steps 40 "
                  "--test-every 20 --drawn " +
                  drawn + " --out '" + (folder_ / drawn).string() + "'"),
              0)
        << output_;
    const auto curve = metrics(drawn)["curve"];
    ASSERT_EQ(curve.size(), 4U);
    const auto distance = [&](int point) { return curve[point]["frechet_distance"].get<double>(); };
    for (const int point : {1, 2, 3}) EXPECT_LT(distance(point), distance(0)) << drawn << ' ' << point;
    EXPECT_LT(distance(3), 0.5 * distance(0)) << drawn;
  }
}

TEST_F(GanTool, SamplesOfAModelAreThoseOfTheTraining) {
  ASSERT_EQ(run(small("out")), 0) << output_;
  const std::string to = (folder_ / "made.png").string();
  ASSERT_EQ(run("sample '" + (folder_ / "out" / "model.safetensors").string() + "' '" + to + "' --seed 2"), 0);
  EXPECT_EQ(data::read_image(to).to_vector<int>(), data::read_image(folder_ / "out" / "samples.png").to_vector<int>());
}

TEST_F(GanTool, GoesOnToTheBit) {
  for (const std::string loss : {"nonsaturating", "wgan-gp", "hinge"}) {
    Options options;
    options.loss = loss;
    options.features = 4;
    options.latent = 8;
    options.classifier_steps = 5;
    CLI::App app;
    examples::Settings settings("gan", app);
    options.add_to(settings);
    const examples::Run run{.program = "gan", .device = adjoint::kCPU, .steps = 20, .batch = 4, .test_every = 8};
    examples::expect_same_training(examples::trained<Trainer>(options, run, settings, {}, folder_ / (loss + "whole")),
                                   examples::trained<Trainer>(options, run, settings, {0, 3, 8, 13},
                                                              folder_ / (loss + "resumed")),
                                   loss);
  }
}

TEST_F(GanTool, AFolderIsTrainedOnAndWhatIsBrokenInItIsTold) {
  const fs::path pictures = folder_ / "pictures";
  fs::create_directories(pictures / "more");
  for (int i = 0; i < 3; ++i) {
    const Tensor image = drawn_shape(static_cast<std::uint64_t>(i)).image;
    data::write_png(pictures / (std::to_string(i) + ".png"), image);
    data::write_jpeg(pictures / "more" / (std::to_string(i) + ".jpg"), image.narrow(1, 0, 20 + i));
  }
  std::ofstream(pictures / "broken.png") << "\x89PNG\r\n\x1a\n cut";
  std::ofstream(pictures / "empty.png");
  std::ofstream(pictures / "notes.txt") << "no picture";
  ASSERT_EQ(run(small("out", "--images '" + pictures.string() + "'")), 0) << output_;
  EXPECT_NE(output_.find("broken.png"), std::string::npos) << output_;
  EXPECT_NE(output_.find("trained on 6 pictures"), std::string::npos) << output_;

  ASSERT_EQ(run_interrupted("train --steps 1000000 --batch 4 --features 4 --latent 8 --classifier-steps 10 "
                            "--test-every 5 --images '" +
                            pictures.string() + "' --out '" + (folder_ / "more").string() + "'"),
            130)
      << output_;
  data::write_png(pictures / "0.png", drawn_shape(40).image);
  EXPECT_EQ(run("train --resume --out '" + (folder_ / "more").string() + "'"), 1) << output_;
  EXPECT_NE(output_.find("it was trained on other pictures"), std::string::npos) << output_;
}

TEST_F(GanTool, BadInputIsNamedInOneLine) {
  const std::string here = folder_.string();
  std::ofstream(folder_ / "file") << "no folder";
  fs::create_directories(folder_ / "none");
  fs::create_directories(folder_ / "one");
  data::write_png(folder_ / "one" / "only.png", drawn_shape(1).image);
  adjoint::manual_seed(1);
  save_model(folder_ / "good.safetensors", Generator({.latent = 3, .features = 2}));
  adjoint::nn::save_safetensors(folder_ / "cut.safetensors", adjoint::NamedTensors{},
                                {{"architecture", "adjoint gan generator"}, {"options", "{\"latent\": 0}"}});
  const std::pair<std::string, const char*> cases[] = {
      {"sample " + here + "/none.safetensors " + here + "/a.png", "none.safetensors"},
      {"sample " + here + "/file " + here + "/a.png", "/file"},
      {"sample " + here + "/cut.safetensors " + here + "/a.png", "cannot load '"},
      {"sample " + here + "/none.safetensors a.gif", "the output must end in .png or .jpg or .jpeg; got 'a.gif'"},
      {"sample " + here + "/good.safetensors " + here + "/a.png --count 0", "--count must be from 1 to 10000; got 0"},
      {"sample " + here + "/good.safetensors " + here + "/a.png --columns -1", "--columns must be from 1 to "},
      {"sample " + here + "/good.safetensors " + here + "/no/a.png", "/no/a.png"},
      {"interpolate " + here + "/good.safetensors " + here + "/a.png --rows 0", "--rows must be from 1 to 10000"},
      {"interpolate " + here + "/good.safetensors " + here + "/a.png --steps 0", "--steps must be from 1 to 10000"},
      {small("out", "--images " + here + "/none"), "/none' holds no PNG or JPEG file"},
      {small("out", "--images " + here + "/one"), "/one' must hold at least 2 pictures; got 1"},
      {small("out", "--loss lsgan"), "--loss must be one of nonsaturating, wgan-gp, hinge; got 'lsgan'"},
      {small("out", "--drawn letters"), "--drawn must be one of shapes, digits; got 'letters'"},
      {small("out", "--ema 1"), "--ema must be from 0 to "},
      {small("out", "--critic-steps -1"), "--critic-steps must be from 0 to 100; got -1"},
      {"train --batch 1 --out " + here + "/out", "--batch must be at least 2 with --loss nonsaturating; got 1"},
      {small("file/out"), "cannot make the folder '"},
      {"train --resume --out " + here + "/none", "/none/checkpoint.safetensors"},
      {small("out", "--device cuda:99"), "--device must be cpu or one of the "},
  };
  for (const auto& [arguments, message] : cases) {
    EXPECT_EQ(run(arguments), 1) << arguments << ": " << output_;
    EXPECT_NE(output_.find(message), std::string::npos) << arguments << ": " << output_;
    EXPECT_EQ(lines(), 1) << arguments << ": " << output_;
  }
  EXPECT_EQ(run("train --resume --loss hinge"), 2) << output_;
}

TEST_F(GanTool, TrainsInMixedPrecision) {
  for (const std::string loss : {"nonsaturating", "wgan-gp", "hinge"}) {
    ASSERT_EQ(run(small("bf16", "--overwrite --precision bf16 --loss " + loss, 4, 4)), 0) << output_;
    ASSERT_EQ(run(small("tf32", "--overwrite --loss " + loss, 4, 4)), 0) << output_;
    const auto first = [&](const std::string& out) {
      return metrics(out)["curve"][1]["discriminator_loss"].get<double>();
    };
    EXPECT_NE(first("bf16"), first("tf32")) << loss;
    EXPECT_NEAR(first("bf16"), first("tf32"), 0.1 * std::abs(first("tf32")) + 0.05) << loss;
  }
}

TEST_F(GanTool, ADivergedTrainingFailsAndWritesNoModel) {
  EXPECT_EQ(run(small("out", "--loss wgan-gp --lr 1e12")), 1) << output_;
  EXPECT_NE(output_.find("training must stay finite; got a "), std::string::npos) << output_;
  EXPECT_FALSE(fs::exists(folder_ / "out" / "model.safetensors"));
}

}  // namespace
}  // namespace gan
