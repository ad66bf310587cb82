#include "example_tool.h"
#include "resumed_training.h"

#include "volumes/predict.h"
#include "volumes/scans.h"
#include "volumes/trainer.h"
#include "volumes/unet.h"

#include <adjoint/core/base/device.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/data/array_files.h>
#include <adjoint/data/image.h>
#include <adjoint/nn/safetensors.h>
#include <adjoint/tests/data/array_files.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

namespace volumes {
namespace {

namespace fs = std::filesystem;
namespace data = adjoint::data;
using adjoint::Shape;
using adjoint::Tensor;

UNet random_net(const std::string& norm, std::int64_t depth) {
  adjoint::manual_seed(3);
  UNet net({.classes = 4, .features = 4, .depth = depth, .norm = norm});
  net.eval();
  return net;
}

TEST(Volumes, ScansAreReproducibleAndHoldEveryClass) {
  std::set<int> seen;
  for (std::uint64_t number = 0; number < 4; ++number) {
    const Scan scan = drawn_scan(number, 20, 24, 28);
    EXPECT_EQ(scan.volume.shape(), (Shape{1, 20, 24, 28}));
    EXPECT_EQ(scan.mask.shape(), (Shape{1, 20, 24, 28}));
    adjoint::testing::expect_same_bits("again", drawn_scan(number, 20, 24, 28).volume, scan.volume);
    EXPECT_NEAR(scan.volume.mean().item<double>(), 0.0, 1e-5);
    EXPECT_NEAR((scan.volume * scan.volume).mean().item<double>(), 1.0, 1e-4);
    for (const int c : scan.mask.to_vector<int>()) seen.insert(c);
  }
  EXPECT_EQ(seen, (std::set<int>{0, 1, 2}));
  EXPECT_NE(drawn_scan(1, 8, 8, 8).volume.to_vector<float>(), drawn_scan(2, 8, 8, 8).volume.to_vector<float>());
}

TEST(Volumes, NetTakesEveryExtentFromItsAlignmentOn) {
  for (const char* norm : {"instance", "batch"}) {
    const UNet net = random_net(norm, 2);
    for (const Shape& extents : {Shape{4, 4, 8}, Shape{5, 8, 6}, Shape{9, 4, 11}}) {
      const Shape shape{2, 1, extents[0], extents[1], extents[2]};
      EXPECT_EQ(net(Tensor::randn(shape)).shape(), (Shape{2, 4, extents[0], extents[1], extents[2]}));
    }
  }
  EXPECT_ERROR(UNet({.depth = 7}), "volumes: depth must be from 1 to 6; got 7");
  EXPECT_ERROR(UNet({.norm = "group"}), "volumes: norm must be instance or batch; got 'group'");
}

TEST(Volumes, OneTileIsTheNetAndTilesAreBlended) {
  const UNet net = random_net("batch", 1);
  const Tensor volume = drawn_scan(5, 12, 12, 12).volume;
  const Tensor whole = adjoint::softmax(net(volume.unsqueeze(0)), 1).squeeze(0);
  adjoint::testing::expect_near("one tile", probabilities(net, volume, adjoint::kCPU, 12), whole.to_vector<double>(),
                                1e-5);
  const Tensor tiled = probabilities(net, volume, adjoint::kCPU, 8);
  EXPECT_EQ(tiled.shape(), whole.shape());
  // Weighted means of probabilities sum to 1 in every voxel.
  adjoint::testing::expect_near("sums", tiled.sum({0}), std::vector<double>(12 * 12 * 12, 1.0), 1e-5);
  // Two tiles along the width, from 0 and from 4 on, with the weights 4, 3, 2, 1 and 1, 2, 3, 4 where both are.
  const Tensor wide = drawn_scan(6, 8, 8, 12).volume, blended = probabilities(net, wide, adjoint::kCPU, 8);
  const auto tile = [&](std::int64_t x) {
    return adjoint::softmax(net(wide.narrow(3, x, 8).contiguous().unsqueeze(0)), 1).squeeze(0);
  };
  const Tensor left = tile(0), right = tile(4);
  for (std::int64_t x = 0; x < 12; ++x) {
    const double share = static_cast<double>(std::clamp<std::int64_t>(8 - x, 0, 5)) / 5.0;
    const Tensor expected = left.select(3, std::min<std::int64_t>(x, 7)) * share +
                            right.select(3, std::max<std::int64_t>(x - 4, 0)) * (1.0 - share);
    adjoint::testing::expect_near("blended", blended.select(3, x).contiguous(),
                                  expected.contiguous().to_vector<double>(), 1e-5);
  }
}

TEST(Volumes, VolumesOfEverySizeHaveProbabilities) {
  const UNet net = random_net("instance", 2);
  for (const Shape& extents : {Shape{1, 1, 1}, Shape{3, 20, 9}, Shape{17, 8, 5}}) {
    const Tensor volume = Tensor::randn({1, extents[0], extents[1], extents[2]});
    const Tensor found = probabilities(net, volume, adjoint::kCPU, 8);
    EXPECT_EQ(found.shape(), (Shape{4, extents[0], extents[1], extents[2]}));
    for (const float p : found.to_vector<float>()) ASSERT_TRUE(p >= 0.0F && p <= 1.0F + 1e-5F);
  }
  EXPECT_ERROR(probabilities(net, Tensor::zeros({1, 8, 8, 8}), adjoint::kCPU, 0), "--tile must be at least 1; got 0");
}

TEST(Volumes, SlicesShowLayersUnderTheirClasses) {
  Tensor volume = Tensor::zeros({1, 3, 4, 5});
  volume.narrow(1, 1, 1).fill_(1.0);
  Tensor mask = Tensor::zeros({1, 3, 4, 5}, {.dtype = adjoint::kUInt8});
  mask.narrow(1, 2, 1).fill_(1.0);
  EXPECT_EQ(fullest_layer(mask), 2);
  EXPECT_EQ(slice_of(volume, 0).to_vector<int>(), std::vector<int>(60, 0));
  EXPECT_EQ(slice_of(volume, 1).to_vector<int>(), std::vector<int>(60, 255));
  EXPECT_EQ(slice_of(Tensor::full({1, 2, 4, 5}, -1024.0), 1).to_vector<int>(), std::vector<int>(60, 0));
  EXPECT_EQ(slices(volume, mask, 2).size(0), 3);
  mask.fill_(static_cast<double>(kIgnored));
  EXPECT_EQ(fullest_layer(mask), 1);
}

class VolumesTool : public examples::ExampleTool {
 protected:
  VolumesTool() : ExampleTool("volumes") {}

  std::string small(const std::string& out, const std::string& more = "") const {
    return "train --steps 20 --batch 2 --patch 8 --features 4 --depth 1 --test-every 10 --out '" +
           (folder_ / out).string() + "' " + more;
  }
  void write(const fs::path& path, const data::Bytes& bytes) const {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  /// Scans of several sizes as files below folder_/images and folder_/masks, in all formats.
  std::string write_scans(int count = 4) const {
    for (const char* kind : {"images", "masks"}) fs::create_directories(folder_ / kind / "more");
    for (int i = 0; i < count; ++i) {
      const Scan scan = drawn_scan(static_cast<std::uint64_t>(100 + i), 7 + i, 9, 12 - i);
      const std::string name = (i % 2 == 0 ? "more/" : "") + std::to_string(i);
      const auto nifti = [&](std::int16_t type, std::int16_t bits) {
        const auto extent = [&](std::int64_t axis) { return static_cast<std::int16_t>(scan.mask.size(axis)); };
        return data::NiftiFile{.big_endian = i == 2,
                               .dim = {3, extent(3), extent(2), extent(1)},
                               .type = type,
                               .bits = bits};
      };
      if (i % 3 == 0) {
        data::write_npy(folder_ / "images" / (name + ".npy"), scan.volume.squeeze(0));
        write(folder_ / "masks" / (name + ".nii"), nifti(2, 8).with(scan.mask.to_vector<std::uint8_t>()));
      } else {
        write(folder_ / "images" / (name + ".nii.gz"), data::gzip(nifti(16, 32).with(scan.volume.to_vector<float>())));
        data::write_npy(folder_ / "masks" / (name + ".npy"), scan.mask.squeeze(0));
      }
    }
    return "--images '" + (folder_ / "images").string() + "' --masks '" + (folder_ / "masks").string() + "'";
  }
};

TEST_F(VolumesTool, ReadsScansOfEveryFormat) {
  write_scans();
  const MaskedScans found = read_masked((folder_ / "images").string(), (folder_ / "masks").string());
  ASSERT_EQ(found.scans.size(), 4U);
  EXPECT_EQ(found.classes, 3);
  for (const Scan& scan : found.scans) {
    const int i = std::stoi(fs::path(scan.name).filename().string());
    const Scan drawn = drawn_scan(static_cast<std::uint64_t>(100 + i), 7 + i, 9, 12 - i);
    adjoint::testing::expect_near(scan.name.c_str(), scan.volume, drawn.volume.to_vector<double>(), 1e-5);
    EXPECT_EQ(scan.mask.to_vector<int>(), drawn.mask.to_vector<int>());
  }
}

TEST_F(VolumesTool, TrainsPredictsAndEvaluates) {
  const std::string folders = write_scans();
  std::ofstream(folder_ / "images" / "notes.txt") << "no volume";
  ASSERT_EQ(run(small("out", folders)), 0) << output_;
  const fs::path out = folder_ / "out";
  const auto metrics = nlohmann::json::parse(std::ifstream(out / "metrics.json"));
  EXPECT_EQ(metrics["steps"], 20);
  EXPECT_EQ(metrics["curve"].size(), 3U) << "before the first step, at 10 and at 20";
  EXPECT_TRUE(metrics.contains("dice class 2")) << metrics;
  const std::string model = "'" + (out / "model.safetensors").string() + "'", classes = (folder_ / "c.npy").string(),
                    slices = (folder_ / "s.png").string();
  ASSERT_EQ(run("predict " + model + " '" + (folder_ / "images" / "more" / "2.nii.gz").string() + "' '" + classes +
                "' --slices '" + slices + "' --tile 8"),
            0)
      << output_;
  EXPECT_EQ(data::read_npy(classes).shape(), (Shape{9, 9, 10}));
  EXPECT_EQ(data::read_image(slices).size(0), 3);
  ASSERT_EQ(run("eval " + model + " " + folders + " --tile 8"), 0) << output_;
  EXPECT_NE(output_.find("mean Dice"), std::string::npos) << output_;
}

TEST_F(VolumesTool, GoesOnToTheBit) {
  Options options;
  options.features = 4;
  options.depth = 1;
  options.patch = 8;
  CLI::App app;
  examples::Settings settings("volumes", app);
  options.add_to(settings);
  const examples::Run run{.program = "volumes", .device = adjoint::kCPU, .steps = 20, .batch = 2, .test_every = 8};
  examples::expect_same_training(examples::trained<Trainer>(options, run, settings, {}, folder_ / "whole"),
                                 examples::trained<Trainer>(options, run, settings, {0, 3, 8, 13},
                                                            folder_ / "resumed"));
}

TEST_F(VolumesTool, BadInputIsNamedInOneLine) {
  const std::string folders = write_scans(2), here = folder_.string();
  std::ofstream(folder_ / "file") << "no model";
  fs::create_directories(folder_ / "none");
  const std::pair<std::string, const char*> cases[] = {
      {"predict " + here + "/file a.nii " + here + "/b.png", "the output must end in .npy"},
      {"predict " + here + "/file a.nii " + here + "/b.npy", "/file"},
      {small("out", "--images " + here + "/none --masks " + here), "/none' holds no .npy, .nii or .nii.gz file"},
      {small("out", "--images " + here + "/nowhere --masks " + here), "/nowhere' must be a folder"},
      {small("out", "--images " + here + "/images"), "--images and --masks must be given together"},
      {small("out", "--images " + here + "/images --masks " + here), "must have a mask; there is no file '"},
      {small("out", "--norm layer"), "--norm must be one of instance, batch; got 'layer'"},
      {"train --patch 4 --depth 2 --out " + here + "/out", "4, and larger; got 4"},
      {"train --patch 10 --depth 2 --out " + here + "/out",
       "--patch must be a multiple of 2^depth = 4, and larger; got 10"},
  };
  for (const auto& [arguments, message] : cases) {
    EXPECT_EQ(run(arguments), 1) << arguments << ": " << output_;
    EXPECT_NE(output_.find(message), std::string::npos) << arguments << ": " << output_;
    EXPECT_EQ(lines(), 1) << arguments << ": " << output_;
  }
  const auto refused = [&](const fs::path& path, const data::Bytes& bytes, const char* message) {
    const fs::path kept = folder_ / "kept";
    fs::copy_file(path, kept);
    write(path, bytes);
    EXPECT_EQ(run(small("out", folders)), 1) << message;
    EXPECT_NE(output_.find(path.filename().string() + "' "), std::string::npos) << output_;
    EXPECT_NE(output_.find(message), std::string::npos) << output_;
    EXPECT_EQ(lines(), 1) << output_;
    fs::rename(kept, path);
  };
  const fs::path scan = folder_ / "images" / "1.nii.gz", mask = folder_ / "masks" / "1.npy";
  const data::NiftiFile volume{.dim = {3, 11, 9, 8}};
  const std::vector<std::uint8_t> voxels(11 * 9 * 8, 1);
  data::Bytes cut = data::gzip(volume.with(voxels));
  cut.resize(cut.size() / 2);
  refused(scan, cut, "must");
  refused(scan, volume.with(std::vector<std::uint8_t>(100)), "elements");
  refused(scan, data::NiftiFile{.type = 128, .bits = 24}.with(voxels), "colours");
  refused(scan, data::NiftiFile{.magic = std::string("ni1\0", 4)}.with(voxels), ".hdr and .img");
  refused(scan, data::NiftiFile{.dim = {4, 11, 9, 4, 2}}.with(voxels), "must hold a volume of three axes");
  std::vector<float> numbers(11 * 9 * 8, 1.0F);
  numbers[7] = std::nanf("");
  refused(scan, data::NiftiFile{.dim = {3, 11, 9, 8}, .type = 16, .bits = 32}.with(numbers), "finite numbers; got nan");
  refused(mask, data::encode_npy(Tensor::zeros({8, 9, 10}, {.dtype = adjoint::kUInt8})), "must have the size of '");
  refused(mask, data::encode_npy(Tensor::full({8, 9, 11}, 0.5)), "must hold classes from 0 to 254, or 255; got 0.5");
}

TEST_F(VolumesTool, TrainsInMixedPrecisionAndWithBatchNorm) {
  ASSERT_EQ(run(small("bf16", "--precision bf16")), 0) << output_;
  ASSERT_EQ(run(small("batch", "--norm batch")), 0) << output_;
}

}  // namespace
}  // namespace volumes
