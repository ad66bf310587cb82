#include "example_tool.h"
#include "resumed_training.h"

#include "common/output.h"
#include "segmentation/predict.h"
#include "segmentation/scenes.h"
#include "segmentation/trainer.h"
#include "segmentation/unet.h"

#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/device.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/data/image.h>
#include <adjoint/data/transforms.h>
#include <adjoint/nn/norm.h>
#include <adjoint/ops/index/index.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

namespace segmentation {
namespace {

namespace fs = std::filesystem;
namespace data = adjoint::data;
using adjoint::Shape;
using adjoint::Tensor;

/// In eval mode, with weights and running statistics that do something.
UNet random_net(const std::string& norm, std::int64_t depth) {
  adjoint::manual_seed(3);
  UNet net({.classes = 4, .features = 8, .depth = depth, .norm = norm});
  net.visit<adjoint::nn::BatchNorm2d>([](auto& layer) {
    Tensor mean = layer.running_mean, variance = layer.running_var;
    mean.normal_(0.0, 0.2);
    variance.uniform_(0.5, 2.0);
  });
  net.eval();
  return net;
}

float largest_difference(const Tensor& a, const Tensor& b) {
  const auto x = a.to_vector<float>(), y = b.to_vector<float>();
  EXPECT_EQ(x.size(), y.size());
  float largest = 0.0F;
  for (std::size_t i = 0; i < x.size(); ++i) largest = std::max(largest, std::abs(x[i] - y[i]));
  return largest;
}

TEST(Segmentation, ScenesAreReproducibleAndHoldEveryClass) {
  std::set<int> seen;
  for (std::uint64_t number = 0; number < 8; ++number) {
    const Scene scene = drawn_scene(number, 64, 80);
    EXPECT_EQ(scene.image.shape(), (Shape{3, 64, 80}));
    EXPECT_EQ(scene.mask.shape(), (Shape{1, 64, 80}));
    EXPECT_EQ(scene.image.to_vector<int>(), drawn_scene(number, 64, 80).image.to_vector<int>());
    for (const int c : scene.mask.to_vector<int>()) seen.insert(c);
  }
  EXPECT_EQ(seen, (std::set<int>{0, 1, 2, 3, 4}));
  EXPECT_NE(drawn_scene(1, 64, 64).image.to_vector<int>(), drawn_scene(2, 64, 64).image.to_vector<int>());
}

TEST(Segmentation, TilesOfABatchNormNetAreTheWhole) {
  for (const std::int64_t depth : {1, 2, 3}) {
    const UNet net = random_net("batch", depth);
    const Tensor picture = drawn_scene(5, 150, 171).image;
    const Tensor whole = net(data::to_float(picture).unsqueeze(0)).squeeze(0);
    for (const std::int64_t tile : {8, 13, 40, 1000})
      EXPECT_LT(largest_difference(scores(net, picture, adjoint::kCPU, tile), whole), 2e-5F) << depth << ' ' << tile;
  }
}

TEST(Segmentation, MarginCoversWhatAScoreDependsOn) {
  for (const std::int64_t depth : {1, 2}) {
    const UNet net = random_net("batch", depth);
    const std::int64_t extent = 2 * net.margin() + 9, centre = net.margin() + 4;
    Tensor picture = Tensor::full({1, 3, extent, extent}, 0.5);
    const auto before = net(picture).to_vector<float>();
    picture.narrow(2, centre, 1).narrow(3, centre, 1).fill_(1e3);
    const auto after = net(picture).to_vector<float>();
    std::int64_t reach = 0;
    for (std::size_t i = 0; i < before.size(); ++i) {
      const std::int64_t at = static_cast<std::int64_t>(i) % (extent * extent);
      if (before[i] != after[i])
        reach = std::max({reach, std::abs(at / extent - centre), std::abs(at % extent - centre)});
    }
    EXPECT_GT(reach, net.margin() / 4);
    EXPECT_LE(reach, net.margin());
  }
}

TEST(Segmentation, TilesOfAGroupNormNetAreBlended) {
  const UNet net = random_net("group", 1);
  const Tensor picture = drawn_scene(6, 61, 70).image;
  const Tensor whole = net(data::to_float(picture).unsqueeze(0)).squeeze(0);
  EXPECT_LT(largest_difference(scores(net, picture, adjoint::kCPU, 1000), whole), 1e-6F);
  const Tensor tiled = scores(net, picture, adjoint::kCPU, 16);
  EXPECT_GT(largest_difference(tiled, whole), 1e-6F) << "statistics of tiles are not those of the whole";
  for (const float value : tiled.to_vector<float>()) ASSERT_TRUE(std::isfinite(value));
}

TEST(Segmentation, PicturesOfEverySizeHaveScores) {
  const UNet net = random_net("batch", 2);
  for (const auto& [h, w] : {std::pair{1, 1}, std::pair{3, 50}, std::pair{4, 4}, std::pair{37, 5}})
    EXPECT_EQ(scores(net, drawn_scene(1, h, w).image, adjoint::kCPU, 16).shape(), (Shape{4, h, w}));
  EXPECT_ERROR(scores(net, drawn_scene(1, 8, 8).image, adjoint::kCPU, 0), "--tile must be at least 1; got 0");
}

TEST(Segmentation, LossLeavesOutWhatIsNotCounted) {
  adjoint::manual_seed(1);
  Tensor scores = Tensor::randn({2, 3, 4, 4});
  scores.requires_grad_();
  Tensor target = Tensor::zeros({2, 4, 4}, {.dtype = adjoint::kInt64});
  target.narrow(1, 1, 2).fill_(2.0);
  target.narrow(2, 3, 1).fill_(static_cast<double>(kIgnored));
  adjoint::Tape tape;
  const Tensor loss = examples::class_loss(scores, target);
  const Tensor gradient = tape.gradient(loss, {scores})[0];
  const auto of_ignored = gradient.narrow(3, 3, 1).to_vector<float>(),
             of_others = gradient.narrow(3, 0, 3).to_vector<float>();
  EXPECT_TRUE(std::all_of(of_ignored.begin(), of_ignored.end(), [](float g) { return g == 0.0F; }));
  EXPECT_TRUE(std::all_of(of_others.begin(), of_others.end(), [](float g) { return g != 0.0F; }));
}

TEST(Segmentation, AConfusionGivesIntersectionsOverUnions) {
  Confusion confusion(3);
  const Tensor truth = Tensor::from_vector({0, 0, 1, 1, 255, 1}, {1, 2, 3}).to(adjoint::kUInt8);
  const Tensor found = Tensor::from_vector({0, 1, 1, 1, 1, 0}, {1, 2, 3}).to(adjoint::kUInt8);
  confusion.add(truth, found);
  EXPECT_DOUBLE_EQ(confusion.iou(0), 1.0 / 3.0);
  EXPECT_DOUBLE_EQ(confusion.iou(1), 0.5);
  EXPECT_TRUE(std::isnan(confusion.iou(2)));
  EXPECT_DOUBLE_EQ(confusion.mean_iou(), (1.0 / 3.0 + 0.5) / 2.0);
  EXPECT_DOUBLE_EQ(confusion.dice(0), 0.5);
  EXPECT_DOUBLE_EQ(confusion.dice(1), 2.0 / 3.0);
  EXPECT_TRUE(std::isnan(confusion.dice(2)));
  EXPECT_DOUBLE_EQ(confusion.mean_dice(), 2.0 / 3.0);
  EXPECT_DOUBLE_EQ(confusion.accuracy(), 3.0 / 5.0);
}

class SegmentationTool : public examples::ExampleTool {
 protected:
  SegmentationTool() : ExampleTool("segmentation") {}

  std::string small(const std::string& out, const std::string& more = "") const {
    return "train --steps 20 --batch 2 --patch 16 --features 8 --depth 1 --test-every 10 --out '" +
           (folder_ / out).string() + "' " + more;
  }
  /// Scenes as files below folder_/images and folder_/masks, some JPEG, of several sizes.
  std::string write_scenes(int count = 5) const {
    fs::create_directories(folder_ / "images" / "more");
    fs::create_directories(folder_ / "masks" / "more");
    for (int i = 0; i < count; ++i) {
      const Scene scene = drawn_scene(static_cast<std::uint64_t>(100 + i), 30 + i, 41 - i);
      const std::string name = (i % 2 == 0 ? "more/" : "") + std::to_string(i);
      if (i % 3 == 0)
        data::write_jpeg(folder_ / "images" / (name + ".jpg"), scene.image);
      else
        data::write_png(folder_ / "images" / (name + ".png"), scene.image);
      data::write_png(folder_ / "masks" / (name + ".png"), scene.mask);
    }
    return "--images '" + (folder_ / "images").string() + "' --masks '" + (folder_ / "masks").string() + "'";
  }
};

TEST_F(SegmentationTool, TrainsPredictsAndEvaluates) {
  const std::string folders = write_scenes();
  std::ofstream(folder_ / "images" / "broken.png") << "\x89PNG\r\n\x1a\n cut";
  std::ofstream(folder_ / "images" / "empty.png");
  std::ofstream(folder_ / "images" / "notes.txt") << "no picture";
  for (const char* kind : {"images", "masks"})
    data::write_png(folder_ / kind / "thin.png", Tensor::zeros({1, 15, 40}, {.dtype = adjoint::kUInt8}));
  ASSERT_EQ(run(small("out", folders)), 0) << output_;
  EXPECT_NE(output_.find("broken.png"), std::string::npos) << output_;
  EXPECT_NE(output_.find("thin.png': it must have at least 16 x 16 pixels; got 40 x 15"), std::string::npos) << output_;
  const fs::path out = folder_ / "out";
  const auto metrics = nlohmann::json::parse(std::ifstream(out / "metrics.json"));
  EXPECT_EQ(metrics["steps"], 20);
  EXPECT_EQ(metrics["curve"].size(), 3U) << "before the first step, at 10 and at 20";
  EXPECT_GT(metrics["mean_iou"].get<double>(), 0.0);
  EXPECT_TRUE(fs::exists(out / "log" / "scalars.csv"));

  const std::string model = "'" + (out / "model.safetensors").string() + "'", drawn = (folder_ / "p.png").string(),
                    classes = (folder_ / "c.png").string();
  data::write_png(folder_ / "odd.png", drawn_scene(9, 45, 71).image);
  ASSERT_EQ(run("predict " + model + " '" + (folder_ / "odd.png").string() + "' '" + drawn + "' --classes '" + classes +
                "' --tile 16"),
            0)
      << output_;
  EXPECT_EQ(data::read_image(drawn).shape(), (Shape{3, 45, 71}));
  EXPECT_EQ(data::read_image(classes).shape(), (Shape{1, 45, 71}));
  ASSERT_EQ(run("eval " + model + " " + folders), 0) << output_;
  EXPECT_NE(output_.find("mean IoU"), std::string::npos) << output_;
}

TEST_F(SegmentationTool, GoesOnToTheBit) {
  Options options;
  options.features = 8;
  options.depth = 1;
  options.patch = 16;
  CLI::App app;
  examples::Settings settings("segmentation", app);
  options.add_to(settings);
  const examples::Run run{.program = "segmentation", .device = adjoint::kCPU, .steps = 20, .batch = 2, .test_every = 8};
  examples::expect_same_training(examples::trained<Trainer>(options, run, settings, {}, folder_ / "whole"),
                                 examples::trained<Trainer>(options, run, settings, {0, 3, 8, 13},
                                                            folder_ / "resumed"));
}

TEST_F(SegmentationTool, AnInterruptSavesAndTellsHowToGoOn) {
  const std::string arguments =
      "train --steps 1000000 --batch 2 --patch 16 --features 8 --depth 1 --test-every 5 --out '" +
      (folder_ / "out").string() + "'";
  EXPECT_EQ(run_interrupted(arguments), 130) << output_;
  EXPECT_NE(output_.find("segmentation train --resume --out"), std::string::npos) << output_;
  EXPECT_EQ(run_interrupted("train --resume --out '" + (folder_ / "out").string() + "'", SIGTERM), 143) << output_;
}

TEST_F(SegmentationTool, BadInputIsNamedInOneLine) {
  const std::string folders = write_scenes(2), here = folder_.string();
  std::ofstream(folder_ / "file") << "no folder";
  fs::create_directories(folder_ / "none");
  fs::create_directories(folder_ / "other");
  adjoint::nn::save_safetensors(folder_ / "other" / "checkpoint.safetensors", adjoint::NamedTensors{},
                                {{"settings", R"({"colours": 3})"}, {"values", "{}"}});
  const std::pair<std::string, const char*> cases[] = {
      {"predict " + here + "/none.safetensors a.png " + here + "/b.png", "none.safetensors"},
      {"predict " + here + "/file a.png " + here + "/b.png", "/file"},
      {"predict " + here + "/file a.png " + here + "/no/b.png", "/no/b.png"},
      {"predict " + here + "/file a.png " + here + "/b.png --classes c.jpg",
       "the output must end in .png; got 'c.jpg'"},
      {small("out", "--images " + here + "/none --masks " + here), "/none' holds no PNG or JPEG file"},
      {small("out", "--images " + here + "/images"), "--images and --masks must be given together"},
      {small("out", "--images " + here + "/images --masks " + here), "must have a mask; there is no file '"},
      {small("out", "--norm layer"), "--norm must be one of batch, group; got 'layer'"},
      {small("out", "--lr nan"), "--lr must be from "},
      {"train --norm group --features 12 --out " + here + "/out", "features must be a multiple of 8; got 12"},
      {small("file/out"), "cannot make the folder '"},
      {"train --resume --out " + here + "/none", "/none/checkpoint.safetensors"},
      {"train --resume --out " + here + "/other",
       "checkpoint.safetensors': it has no --steps and belongs to another program"},
      {small("out", "--device cuda:99"), "--device must be cpu or one of the "},
  };
  for (const auto& [arguments, message] : cases) {
    EXPECT_EQ(run(arguments), 1) << arguments << ": " << output_;
    EXPECT_NE(output_.find(message), std::string::npos) << arguments << ": " << output_;
    EXPECT_EQ(lines(), 1) << arguments << ": " << output_;
  }
  data::write_png(folder_ / "masks" / "1.png", Tensor::zeros({1, 5, 5}));
  EXPECT_EQ(run(small("out", folders)), 1);
  EXPECT_NE(output_.find("must have the size of '"), std::string::npos) << output_;
  data::write_png(folder_ / "masks" / "1.png", Tensor::zeros({1, 31, 40}), {.bit_depth = 16});
  EXPECT_EQ(run(small("out", folders)), 1);
  EXPECT_NE(output_.find("1.png' must have 8 bits per sample"), std::string::npos) << output_;
  EXPECT_EQ(run("train --resume --batch 5"), 2) << output_;
  EXPECT_EQ(run("colour"), 2) << output_;
}

TEST_F(SegmentationTool, AFolderThatMayNotBeWrittenIsNamed) {
  constexpr uid_t kNobody = 65534;
  const uid_t user = ::geteuid();
  fs::permissions(folder_, fs::perms::owner_write | fs::perms::group_write | fs::perms::others_write,
                  fs::perm_options::remove);
  // Root may write everywhere.
  if (user == 0 && ::seteuid(kNobody) != 0) GTEST_SKIP() << "root cannot become another user here";
  EXPECT_ERROR(examples::RunFolder("segmentation", folder_), "cannot write to the folder");
  EXPECT_ERROR(examples::check_output("segmentation", folder_ / "coloured.png", {".png"}), "coloured.png'",
               "Permission denied");
  ASSERT_EQ(::seteuid(user), 0);
  fs::permissions(folder_, fs::perms::owner_all);
}

TEST_F(SegmentationTool, TrainsInMixedPrecisionAndWithGroupNorm) {
  ASSERT_EQ(run(small("bf16", "--precision bf16")), 0) << output_;
  const auto loss = [&](const std::string& out) {
    return nlohmann::json::parse(std::ifstream(folder_ / out / "metrics.json"))["curve"][1]["loss"].get<double>();
  };
  ASSERT_EQ(run(small("tf32")), 0) << output_;
  EXPECT_NE(loss("bf16"), loss("tf32"));
  EXPECT_NEAR(loss("bf16"), loss("tf32"), 0.05 * loss("tf32"));
  ASSERT_EQ(run(small("group", "--norm group")), 0) << output_;
}

TEST_F(SegmentationTool, ADivergedTrainingFailsAndWritesNoModel) {
  EXPECT_EQ(run(small("out", "--lr 1e12")), 1) << output_;
  EXPECT_NE(output_.find("training must stay finite; got a "), std::string::npos) << output_;
  EXPECT_FALSE(fs::exists(folder_ / "out" / "model.safetensors"));
}

}  // namespace
}  // namespace segmentation
