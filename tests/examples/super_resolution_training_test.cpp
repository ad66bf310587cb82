// Whole trainings: to the same bits after a stop, and through the program, from its options to the files that it
// writes.
#include "resumed_training.h"
#include "super_resolution_tool.h"

#include "super_resolution/training.h"

#include <adjoint/core/tensor/factories.h>
#include <adjoint/nn/safetensors.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

namespace super_resolution {
namespace {

adjoint::nn::Safetensors trained(const Options& options, std::uint64_t seed, const std::vector<std::int64_t>& stops,
                                 const fs::path& path, const std::string& precision = "tf32") {
  const examples::Run run{.program = "super_resolution",
                          .device = adjoint::kCPU,
                          .precision = precision,
                          .steps = 14,
                          .batch = 3,
                          .test_every = 4,
                          .lr = 2e-3,
                          .seed = seed,
                          .data_seed = seed};
  CLI::App app;
  return examples::trained<Trainer>(options, run, examples::Settings("super_resolution", app), stops, path);
}

TEST_F(SuperResolution, AResumedRunIsBitForBitTheUninterruptedOne) {
  const Options options{.images = write_pictures().string(), .patch = 8, .model = {.features = 4, .layers = 1}};
  const auto whole = trained(options, 5, {}, folder_ / "whole");
  examples::expect_same_training(whole, trained(options, 5, {0, 3, 4, 11}, folder_ / "resumed"));
  const auto weight = [](const adjoint::nn::Safetensors& file) {
    for (const auto& [name, tensor] : file.tensors) {
      if (name == "model.up.weight") return tensor.to_vector<float>();
    }
    return std::vector<float>{};
  };
  EXPECT_FALSE(weight(whole).empty());
  EXPECT_NE(weight(trained(options, 6, {}, folder_ / "other")), weight(whole));

  Options against = options;
  against.loss = "gan";
  against.discriminator_channels = 2;
  const auto gan = trained(against, 5, {}, folder_ / "gan");
  EXPECT_NE(weight(gan), weight(whole));
  examples::expect_same_training(gan, trained(against, 5, {5}, folder_ / "gan_resumed"));
  examples::expect_same_training(trained(against, 5, {}, folder_ / "half", "fp16"),
                                 trained(against, 5, {5}, folder_ / "half_resumed", "fp16"));
}

TEST_F(SuperResolutionTool, ResumingWithOtherPicturesIsAnError) {
  const fs::path out = folder_ / "out";
  ASSERT_EQ(run_interrupted(quick(out, 1000000)), 130) << output_;
  data::write_png(folder_ / "pictures" / "1.png", synthetic_picture(7, 40, 40));
  EXPECT_EQ(run("train --resume --out '" + out.string() + "'"), 1) << output_;
  EXPECT_NE(output_.find("it was trained on other pictures"), std::string::npos) << output_;
}

TEST_F(SuperResolutionTool, TrainsUpscalesAndEvaluates) {
  const std::string pictures = write_pictures().string(), out = (folder_ / "out").string();
  ASSERT_EQ(run("train --images " + pictures +
                " --steps 20 --batch 2 --patch 8 --features 4 --layers 1 --test-every 10 --out " + out),
            0)
      << output_;
  EXPECT_EQ(output_.find('\x1b'), std::string::npos) << "no terminal, so plain lines";
  for (const char* name : {"model.safetensors", "comparison.png", "curves.png", "metrics.json"}) {
    EXPECT_TRUE(fs::exists(folder_ / "out" / name)) << name;
    EXPECT_NE(output_.find(name), std::string::npos) << name;
  }
  const auto metrics = nlohmann::json::parse(std::ifstream(folder_ / "out" / "metrics.json"));
  EXPECT_GT(metrics["psnr_bicubic"].get<double>(), 10.0);
  EXPECT_GT(metrics["psnr_adjoint"].get<double>(), 10.0);
  EXPECT_GT(metrics["seconds"].get<double>(), 0.0);
  EXPECT_FALSE(metrics["device"].get<std::string>().empty());
  EXPECT_EQ(metrics["pictures"].size(), 1U);
  for (const auto& part : {metrics, metrics["pictures"][0]}) {
    EXPECT_GT(part["ssim_bicubic"].get<double>(), 0.1);
    EXPECT_LT(part["ssim_bicubic"].get<double>(), 1.0);
    EXPECT_NE(part["ssim_adjoint"], part["ssim_bicubic"]);
  }
  ASSERT_EQ(metrics["curve"].size(), 3U) << "before the first step, at 10 and at 20";
  EXPECT_EQ(metrics["curve"][2]["step"], 20);
  EXPECT_EQ(metrics["curve"][0]["psnr_adjoint"], metrics["baselines"]["bicubic"]) << "untrained, it is bicubic";
  EXPECT_EQ(data::read_image(folder_ / "out" / "comparison.png").size(0), 3);
  const auto log = fs::directory_iterator(folder_ / "out" / "log");
  const auto events = std::count_if(begin(log), end(log), [](const fs::directory_entry& entry) {
    return entry.path().filename().string().find("tfevents") != std::string::npos && entry.file_size() > 0;
  });
#if EXAMPLES_WITH_EVENTS
  EXPECT_EQ(events, 1) << "for TensorBoard";
#else
  EXPECT_EQ(events, 0) << "a build without protobuf";
#endif

  const std::string model = out + "/model.safetensors", enlarged = (folder_ / "big.png").string();
  ASSERT_EQ(run("upscale " + model + " " + pictures + "/0.jpg " + enlarged), 0) << output_;
  EXPECT_EQ(data::read_image(enlarged).shape(), (Shape{3, 80, 122}));
  ASSERT_EQ(run("eval --images " + pictures + " --model " + model), 0) << output_;
  EXPECT_EQ(lines(), 8);
  const std::string plain = output_;
  ASSERT_EQ(run("eval --self-ensemble --images " + pictures + " --model " + model), 0) << output_;
  EXPECT_NE(output_, plain);

  // A ramp of less than a step of 8 bits.
  const fs::path deep = folder_ / "deep.png";
  data::write_png(deep, adjoint::linspace(0.5, 0.502, 12 * 16).reshape({1, 12, 16}), {.bit_depth = 16});
  ASSERT_EQ(run("upscale --self-ensemble " + model + " " + deep.string() + " " + enlarged), 0) << output_;
  const Tensor large = data::read_image(enlarged, {.keep_depth = true});
  ASSERT_EQ(large.dtype(), adjoint::kFloat32);
  const auto values = large.to_vector<float>();
  EXPECT_GT(std::set<float>(values.begin(), values.end()).size(), 50U);
}

TEST_F(SuperResolutionTool, EveryNetworkTrainsAndUpscales) {
  const fs::path out = folder_ / "out", enlarged = folder_ / "big.png";
  std::int64_t scale = 4;
  for (const std::string& network : networks()) {
    SCOPED_TRACE(network);
    ASSERT_EQ(run(quick(out, 4, "--overwrite --model " + network + " --scale " + std::to_string(scale))), 0) << output_;
    const auto metrics = nlohmann::json::parse(std::ifstream(out / "metrics.json"));
    EXPECT_NE(metrics["psnr_adjoint"], metrics["psnr_bicubic"]);
    ASSERT_EQ(run("upscale '" + (out / "model.safetensors").string() + "' '" +
                  (folder_ / "pictures" / "0.jpg").string() + "' '" + enlarged.string() + "'"),
              0)
        << output_;
    EXPECT_EQ(data::read_image(enlarged).shape(), (Shape{3, scale * 40, scale * 61}));
    scale = std::max<std::int64_t>(scale - 1, 2);
  }
}

TEST_F(SuperResolutionTool, EveryLossTrains) {
  const fs::path out = folder_ / "out";
  std::set<std::string> losses;
  for (const std::string loss : {"mse", "l1", "charbonnier", "gan"}) {
    SCOPED_TRACE(loss);
    ASSERT_EQ(run(quick(out, 3, "--overwrite --discriminator-channels 2 --loss " + loss)), 0) << output_;
    const auto metrics = nlohmann::json::parse(std::ifstream(out / "metrics.json"));
    losses.insert(metrics["curve"][1]["loss"].dump());
    EXPECT_EQ(metrics["curve"][1].contains("discriminator_loss"), loss == "gan");
  }
  EXPECT_EQ(losses.size(), 4U);
  EXPECT_EQ(run("train --overwrite --loss gan --patch 5 --images '" + (folder_ / "pictures").string() + "' --out '" +
                out.string() + "'"),
            1);
  EXPECT_NE(output_.find("--patch must be at least 6 with --scale 2 and --loss gan; got 5"), std::string::npos)
      << output_;
}

TEST_F(SuperResolutionTool, AnInterruptSavesAndResumes) {
  const std::string pictures = write_pictures().string(), out = (folder_ / "out").string();
  const std::string advice = "super_resolution train --resume --out " + out;
  ASSERT_EQ(run_interrupted("train --images " + pictures +
                            " --steps 1000000 --batch 2 --patch 8 --features 4 --layers 1 --test-every 10 --out " +
                            out),
            130)
      << output_;
  EXPECT_NE(output_.find(advice), std::string::npos) << output_;
  EXPECT_EQ(run_interrupted("train --resume --out " + out), 130) << output_;
  EXPECT_NE(output_.find(advice), std::string::npos) << output_;
}

TEST_F(SuperResolutionTool, BadInputIsOneLineAndExitCode1) {
  std::ofstream(folder_ / "text.png") << "no picture";
  const std::string here = folder_.string();
  for (const std::string& arguments :
       {"upscale " + here + "/none.safetensors a.png " + here + "/b.png",
        "upscale " + here + "/text.png a.png " + here + "/b.png", "eval --images " + here + "/none",
        "train --images " + here + "/none --out " + here + "/out", "train --resume --out " + here + "/out2",
        "train --steps 0 --out " + here + "/out", "train --out " + here + "/text.png/out"}) {
    EXPECT_EQ(run(arguments), 1) << arguments;
    EXPECT_EQ(lines(), 1) << arguments << ": " << output_;
  }
  // A line for the picture, and one for the folder without any other.
  EXPECT_EQ(run("train --images " + here + " --out " + here + "/out"), 1);
  EXPECT_EQ(lines(), 2) << output_;
  EXPECT_NE(output_.find("/text.png': neither a PNG nor a JPEG file\n"), std::string::npos) << output_;
  EXPECT_NE(output_.find("' holds no PNG or JPEG file that can be read"), std::string::npos) << output_;
}

TEST_F(SuperResolutionTool, WrongUsageIsExitCode2) {
  for (const char* arguments :
       {"", "enlarge", "upscale only_one", "train --steps many", "train --resume --batch 5", "train --val x"}) {
    EXPECT_EQ(run(arguments), 2) << arguments << ": " << output_;
  }
  EXPECT_EQ(run("--help"), 0);
  EXPECT_EQ(run("train --help"), 0);
}

}  // namespace
}  // namespace super_resolution
