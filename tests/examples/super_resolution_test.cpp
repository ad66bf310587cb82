#include "super_resolution_tool.h"

#include "common/stroke_font.h"
#include "super_resolution/adversary.h"
#include "super_resolution/model.h"
#include "super_resolution/pictures.h"
#include "super_resolution/training.h"
#include "super_resolution/upscale.h"

#include <adjoint/core/tensor/factories.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/nn/safetensors.h>
#include <adjoint/ops/resample/resample.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

namespace super_resolution {
namespace {

/// A model that does something, untrained.
Model random_model(const ModelOptions& options) {
  adjoint::manual_seed(11);
  Model model(options);
  for (Tensor parameter : model.parameters()) parameter.normal_(0.0, 0.1);
  return model;
}

float largest_difference(const Tensor& a, const Tensor& b) {
  const auto x = a.to_vector<float>(), y = b.to_vector<float>();
  EXPECT_EQ(x.size(), y.size());
  float largest = 0.0F;
  for (std::size_t i = 0; i < x.size(); ++i) largest = std::max(largest, std::abs(x[i] - y[i]));
  return largest;
}

TEST_F(SuperResolution, MadePicturesAreReproducibleDifferentAndDetailed) {
  const Tensor picture = synthetic_picture(3, 96, 128);
  EXPECT_EQ(picture.shape(), (Shape{3, 96, 128}));
  EXPECT_EQ(picture.to_vector<int>(), synthetic_picture(3, 96, 128).to_vector<int>());
  EXPECT_NE(picture.to_vector<int>(), synthetic_picture(4, 96, 128).to_vector<int>());
  for (std::uint64_t number = 0; number < 12; ++number) {
    const LumaPair pair = luma_pair(synthetic_picture(number, 128, 128), 2);
    // Bicubic interpolation loses some of every picture, but not most of it.
    const double quality = psnr(bicubic(pair.low, 2), pair.high, 2);
    EXPECT_GT(quality, 12.0) << number;
    EXPECT_LT(quality, 60.0) << number;
  }
}

TEST_F(SuperResolution, TextIsDrawnWhereItIsAsked) {
  examples::Painting painting(40, 200);
  paint_text(painting, {20, 30}, 12, "Adjoint 31.4 dB", {1, 1, 1}, 0.0F, 0.13F);
  const Tensor image = painting.image();
  const auto brightest = [&](std::int64_t top, std::int64_t left, std::int64_t h, std::int64_t w) {
    const auto values = data::crop(image, top, left, h, w).to_vector<int>();
    return *std::max_element(values.begin(), values.end());
  };
  EXPECT_EQ(brightest(16, 20, 16, 30), 255);
  EXPECT_EQ(brightest(0, 0, 40, 18), 0);
  EXPECT_EQ(brightest(0, 190, 40, 10), 0);
  EXPECT_EQ(brightest(0, 0, 14, 200), 0);
}

TEST_F(SuperResolution, PsnrLeavesTheBorderOut) {
  const Tensor reference = Tensor::full({1, 12, 12}, 0.5);
  Tensor image = Tensor::full({1, 12, 12}, 0.6);
  EXPECT_NEAR(psnr(image, reference, 2), 20.0, 1e-4);
  image.narrow(1, 0, 2).fill_(1.0);
  image.narrow(2, 10, 2).fill_(0.0);
  EXPECT_NEAR(psnr(image, reference, 2), 20.0, 1e-4);
  image.narrow(1, 2, 1).fill_(1.0);
  EXPECT_LT(psnr(image, reference, 2), 19.0);
}

TEST_F(SuperResolution, SsimLeavesTheBorderOut) {
  const Tensor reference = Tensor::full({1, 16, 18}, 0.5);
  Tensor image = Tensor::full({1, 16, 18}, 0.6);
  const double expected = (2 * 0.5 * 0.6 + 1e-4) / (0.25 + 0.36 + 1e-4);  // nothing varies
  EXPECT_NEAR(ssim(image, reference, 2), expected, 1e-5);
  image.narrow(1, 0, 2).fill_(1.0);
  image.narrow(2, 16, 2).fill_(0.0);
  EXPECT_NEAR(ssim(image, reference, 2), expected, 1e-5);
  image.narrow(1, 2, 1).fill_(1.0);
  EXPECT_LT(ssim(image, reference, 2), expected - 0.01);
  EXPECT_NEAR(ssim(reference, reference, 2), 1.0, 1e-6);
  const Tensor small = Tensor::full({1, 7, 8}, 0.5);  // 3 x 4 pixels are left
  EXPECT_NEAR(ssim(small, small, 2), 1.0, 1e-6);
  EXPECT_NEAR(ssim(Tensor::full({1, 7, 8}, 7.0), Tensor::full({1, 7, 8}, 1.0), 2), 1.0, 1e-6) << "clamped";
}

TEST_F(SuperResolution, AnUntrainedModelIsBicubicInterpolation) {
  adjoint::manual_seed(1);
  const Tensor low = Tensor::rand({2, 1, 9, 13});
  EXPECT_EQ(Model()(low).to_vector<float>(), bicubic(low, 2).to_vector<float>());
  for (const std::string& network : networks()) {
    for (const std::int64_t scale : {2, 3, 4}) {
      SCOPED_TRACE(network + std::to_string(scale));
      const Tensor high = Model({.network = network, .scale = scale, .features = 4, .layers = 1})(low);
      EXPECT_EQ(high.shape(), (Shape{2, 1, 9 * scale, 13 * scale}));
      EXPECT_EQ(high.to_vector<float>(), bicubic(low, scale).to_vector<float>());
    }
  }
}

TEST_F(SuperResolution, NetworksHaveTheSizesOfTheirPapers) {
  const std::pair<ModelOptions, std::int64_t> sizes[] = {
      {{}, 29857},
      {{.network = "espcn", .scale = 3}, 5 * 5 * 64 + 64 + 9 * 64 * 32 + 32 + 9 * 32 * 9 + 9},
      // Its paper counts 12,464 weights, without biases and slopes.
      {{.network = "fsrcnn", .scale = 3}, 12464 + 4 * 56 + 2 * 12 + 8 * 12 + 1},
      {{.network = "edsr", .scale = 2}, 2 * 576 + 64 + 1 + 33 * (36864 + 64) + 4 * (36864 + 64)},
  };
  for (const auto& [options, parameters] : sizes)
    EXPECT_EQ(Model(options).num_parameters(), parameters) << to_string(options);
  EXPECT_EQ(complete({.network = "edsr"}, true).features, 16);
  EXPECT_ERROR(Model({.network = "vdsr"}), "the model must be one of transposed, espcn, fsrcnn, edsr; got 'vdsr'");
  EXPECT_ERROR(Model({.scale = 5}), "scale must be 2, 3 or 4; got 5");
}

TEST_F(SuperResolution, RadiusCoversWhatAPixelDependsOn) {
  std::vector<ModelOptions> all{{.features = 3, .layers = 0}, {.features = 3, .layers = 3}};
  for (const std::string& network : networks()) {
    for (const std::int64_t scale : {2, 3, 4})
      all.push_back({.network = network, .scale = scale, .features = 5, .layers = 1});
  }
  for (const ModelOptions& options : all) {
    const Model model = random_model(options);
    for (Tensor parameter : model.parameters())
      parameter.copy_(parameter.detach().abs());  // nothing cancels, and ReLU is open
    const std::int64_t scale = options.scale, extent = 31 * scale;
    Tensor low = Tensor::full({1, 1, 31, 31}, 0.5);
    const Tensor before = model(low);
    low.narrow(2, 15, 1).narrow(3, 15, 1).fill_(1.0);
    const Tensor after = model(low);
    const auto a = before.to_vector<float>(), b = after.to_vector<float>();
    std::int64_t reach = 0;
    for (std::int64_t i = 0; i < extent * extent; ++i) {
      if (a[static_cast<std::size_t>(i)] == b[static_cast<std::size_t>(i)]) continue;
      reach = std::max({reach, std::abs(i / extent / scale - 15), std::abs(i % extent / scale - 15)});
    }
    EXPECT_EQ(reach, model.radius()) << to_string(options) << ", layers " << options.layers;
  }
}

TEST_F(SuperResolution, TilesFitTogetherWithoutASeam) {
  const Model model = random_model({.features = 5, .layers = 2});
  const Tensor image = data::crop(synthetic_picture(1, 80, 110), 0, 0, 77, 101);
  const Tensor luma_image = luma(image);
  const Tensor whole_luma = upscale_luma(model, luma_image, adjoint::kCPU, {.tile = 1000});
  const Tensor whole = upscale(model, image, adjoint::kCPU, {.tile = 1000});
  ASSERT_EQ(whole.shape(), (Shape{3, 154, 202}));
  for (const std::int64_t tile : {5, 8, 19, 64}) {
    EXPECT_LT(largest_difference(upscale_luma(model, luma_image, adjoint::kCPU, {.tile = tile}), whole_luma), 2e-6F)
        << tile;
    // A value within rounding of a half may go either way.
    EXPECT_LE(largest_difference(upscale(model, image, adjoint::kCPU, {.tile = tile}), whole), 1.0F) << tile;
  }
  for (const std::string& network : networks()) {
    const Model other = random_model({.network = network, .scale = 3, .features = 5, .layers = 1});
    EXPECT_LT(largest_difference(upscale_luma(other, luma_image, adjoint::kCPU, {.tile = 19}),
                                 upscale_luma(other, luma_image, adjoint::kCPU, {.tile = 1000})),
              2e-6F)
        << network;
  }
}

TEST_F(SuperResolution, SelfEnsembleAveragesFlipsAndTurns) {
  const Model model = random_model({.features = 5, .layers = 1});
  const Tensor low = luma(data::crop(synthetic_picture(1, 40, 40), 0, 0, 21, 30));
  const auto large = [&](const Tensor& of, const UpscaleOptions& options) {
    return upscale_luma(model, of, adjoint::kCPU, options);
  };
  const Tensor mean = large(low, {.self_ensemble = true});
  Tensor sum = Tensor::zeros(mean.shape());
  for (int i = 0; i < 8; ++i) {
    const auto turned = [&](Tensor image, bool back) {
      if (back && i >= 4) image = data::transpose_image(image);
      if (i % 2 == 1) image = data::flip_horizontal(image);
      if (i / 2 % 2 == 1) image = data::flip_vertical(image);
      return !back && i >= 4 ? data::transpose_image(image) : image;
    };
    sum.add_(turned(large(turned(low, false), {}), true));
  }
  EXPECT_LT(largest_difference(mean, sum / 8.0), 1e-6F);
  EXPECT_GT(largest_difference(mean, large(low, {})), 1e-3F);
  EXPECT_LT(largest_difference(mean, large(low, {.tile = 8, .self_ensemble = true})), 2e-6F);
}

TEST_F(SuperResolution, DeepPicturesStayDeep) {
  const Model model = random_model({.features = 3, .layers = 1});
  const Tensor bytes = data::to_channels(synthetic_picture(2, 24, 30), data::Channels::kRGBA);
  const Tensor deep = upscale(model, data::to_float(bytes), adjoint::kCPU);
  ASSERT_EQ(deep.dtype(), adjoint::kFloat32);
  EXPECT_EQ(data::to_uint8(deep).to_vector<int>(), upscale(model, bytes, adjoint::kCPU).to_vector<int>());
  const auto values = deep.to_vector<float>();
  EXPECT_GE(*std::min_element(values.begin(), values.end()), 0.0F);
  EXPECT_LE(*std::max_element(values.begin(), values.end()), 1.0F);
}

TEST_F(SuperResolution, UpscalesAnySizeAndKeepsAlpha) {
  const Model model = random_model({.features = 3, .layers = 1});
  const Tensor picture = synthetic_picture(2, 24, 30);
  for (std::int64_t channels = 1; channels <= 4; ++channels) {
    for (const auto& [h, w] : {std::pair{1, 1}, std::pair{1, 7}, std::pair{24, 30}}) {
      const Tensor image = data::to_channels(data::crop(picture, 0, 0, h, w), static_cast<data::Channels>(channels));
      EXPECT_EQ(upscale(model, image, adjoint::kCPU).shape(), (Shape{channels, 2 * h, 2 * w}));
    }
  }
  Tensor rgba = data::to_channels(picture, data::Channels::kRGBA);
  rgba.narrow(0, 3, 1).copy_(picture.narrow(0, 1, 1));
  const Tensor alpha = upscale(model, rgba, adjoint::kCPU).narrow(0, 3, 1);
  const Tensor expected = data::to_uint8(bicubic(data::to_float(picture.narrow(0, 1, 1)), 2));
  EXPECT_EQ(alpha.to_vector<int>(), expected.to_vector<int>());
}

TEST_F(SuperResolution, UpscalingChangesLumaAndKeepsColourDifferences) {
  const Model model = random_model({.features = 3, .layers = 1});
  // Muted, so that nothing is clamped.
  const Tensor picture = data::to_uint8(data::to_float(synthetic_picture(5, 32, 32)) * 0.1 + 0.45);
  const Tensor result = data::to_float(upscale(model, picture, adjoint::kCPU)),
               plain = bicubic(data::to_float(picture), 2);
  const auto difference = [](const Tensor& rgb) { return rgb.narrow(0, 0, 1) - rgb.narrow(0, 2, 1); };
  EXPECT_LT(largest_difference(difference(result), difference(plain)), 1.01F / 255.0F);
  EXPECT_LT(largest_difference(luma(data::to_uint8(result)), upscale_luma(model, luma(picture), adjoint::kCPU)),
            1.01F / 255.0F);
}

TEST_F(SuperResolution, PatchesAreOnePlaceInBothResolutions) {
  const Patches patches(PictureSet::synthetic(40, 3, 64, 2), 16, 50);
  for (std::int64_t i = 0; i < patches.size(); ++i) {
    adjoint::Generator generator(static_cast<std::uint64_t>(i));
    const data::Example example = patches.get(i, generator);
    ASSERT_EQ(example.input.shape(), (Shape{1, 16, 16}));
    ASSERT_EQ(example.target.shape(), (Shape{1, 32, 32}));
    const Tensor low =
        adjoint::interpolate(example.target, {.size = 16, .mode = adjoint::Interpolation::kBicubic, .antialias = true});
    // Away from the edges, where the patch lacks its surroundings; both were rounded to 8 bits, and the colours' low
    // resolution once more.
    EXPECT_LT(largest_difference(data::crop(low, 2, 2, 12, 12), data::crop(example.input, 2, 2, 12, 12)), 3.0F / 255.0F)
        << i;
  }
}

TEST_F(SuperResolution, LimitedSetsGiveTheMiddleOfLargePictures) {
  PictureSet pictures = PictureSet::synthetic(8, 2, 128, 2);
  const Tensor whole = pictures.rgb(1);
  const Tensor middle = data::crop(whole, 32, 32, 64, 64);
  pictures.limit(2 * 64 * 64);
  EXPECT_EQ(pictures.rgb(1).to_vector<int>(), middle.to_vector<int>());
  pictures.limit(1);  // never less than that
  EXPECT_EQ(pictures.rgb(1).to_vector<int>(), middle.to_vector<int>());
  pictures.limit(2 * 128 * 128);
  EXPECT_EQ(pictures.rgb(1).shape(), whole.shape());
}

TEST_F(SuperResolution, FoldersAreSplitWithoutOverlap) {
  const Split split = split_folder(write_pictures(), {}, 2);
  EXPECT_EQ(split.training.size(), 5);
  EXPECT_EQ(split.validation.size(), 1);
  for (std::int64_t i = 0; i < split.training.size(); ++i) EXPECT_NE(split.training.name(i), split.validation.name(0));
  EXPECT_ERROR(split_folder(folder_ / "pictures", folder_ / "pictures", 2), "must not be in both --images and --val");
  fs::create_directories(folder_ / "empty");
  EXPECT_ERROR(split_folder(folder_ / "empty", {}, 2), "holds no PNG or JPEG file");
}

TEST_F(SuperResolution, PicturesThatCannotBeReadLeaveTheSet) {
  const fs::path folder = write_pictures();
  const std::vector<fs::path> paths = listed(folder);
  fs::resize_file(paths[1], fs::file_size(paths[1]) / 2);
  data::write_image(paths[2], Tensor::zeros({3, 5, 90}, {.dtype = adjoint::kUInt8}));
  PictureSet pictures = PictureSet::of_files(paths, 2);
  const auto pairs = pictures.read([](const Tensor& rgb) { return luma_pair(rgb, 2); });
  ASSERT_EQ(std::ssize(pairs), std::ssize(paths) - 2);
  ASSERT_EQ(pictures.size(), std::ssize(pairs));
  EXPECT_EQ(pictures.name(1), paths[3].string());
  PictureSet broken = PictureSet::of_files({paths[1], paths[2]}, 2);
  EXPECT_ERROR(broken.read([](const Tensor& rgb) { return luma_pair(rgb, 2); }), "none of 2 pictures can be read");
}

TEST_F(SuperResolution, ModelsAreSavedWithTheirOptions) {
  const Model model = random_model({.features = 6, .layers = 2});
  save_model(folder_ / "m.safetensors", model);
  const Model loaded = load_model(folder_ / "m.safetensors");
  EXPECT_EQ(loaded.options().features, 6);
  const Tensor low = Tensor::full({1, 1, 6, 6}, 0.3);
  EXPECT_EQ(loaded(low).to_vector<float>(), model(low).to_vector<float>());
  adjoint::nn::save_safetensors(folder_ / "other.safetensors", {{"a", Tensor::zeros({2})}});
  EXPECT_ERROR(load_model(folder_ / "other.safetensors"), "is not a model of this program");

  const Model wide = random_model({.network = "espcn", .scale = 3, .features = 4});
  save_model(folder_ / "espcn.safetensors", wide);
  EXPECT_EQ(load_model(folder_ / "espcn.safetensors")(low).to_vector<float>(), wide(low).to_vector<float>());
  auto file = adjoint::nn::load_safetensors(folder_ / "espcn.safetensors");
  file.metadata["scale"] = "2";
  adjoint::nn::save_safetensors(folder_ / "espcn.safetensors", file.tensors, file.metadata);
  EXPECT_ERROR(load_model(folder_ / "espcn.safetensors"),
               "espcn.safetensors' must hold espcn for 2x, as its metadata says; got another network: ");
}

TEST_F(SuperResolution, ModelsOfTheFirstVersionAreRead) {
  const Model model = random_model({.features = 6, .layers = 2});
  save_model(folder_ / "m.safetensors", model);
  const auto file = adjoint::nn::load_safetensors(folder_ / "m.safetensors");
  for (const char* name : {"body.0.weight", "body.5.weight", "up.weight", "up.bias"}) {
    EXPECT_TRUE(std::any_of(file.tensors.begin(), file.tensors.end(), [&](const auto& t) { return t.first == name; }))
        << name;
  }
  adjoint::nn::save_safetensors(folder_ / "m.safetensors", file.tensors,
                                {{"architecture", "adjoint super_resolution 2x luma"},
                                 {"features", "6"},
                                 {"layers", "2"}});
  const Tensor low = Tensor::full({1, 1, 6, 6}, 0.3);
  EXPECT_EQ(load_model(folder_ / "m.safetensors")(low).to_vector<float>(), model(low).to_vector<float>());
}

TEST_F(SuperResolution, TheDiscriminatorJudgesPatches) {
  adjoint::manual_seed(2);
  PatchDiscriminator net(4);
  Tensor luma = Tensor::rand({2, 1, 44, 48});
  const Tensor plain = Tensor::rand({2, 1, 44, 48}), before = net(luma, plain);
  EXPECT_EQ(before.shape(), (Shape{2, 1, 9, 10}));
  EXPECT_EQ(net(Tensor::rand({1, 1, 12, 12}), Tensor::rand({1, 1, 12, 12})).numel(), 1);
  // A score sees 34 x 34 pixels, and scores are 4 pixels apart; in eval mode spectral_norm changes nothing.
  net.eval();
  const Tensor still = net(luma, plain);
  luma.narrow(2, 0, 1).narrow(3, 0, 1).fill_(9.0);
  const auto a = still.to_vector<float>(), b = net(luma, plain).to_vector<float>();
  for (std::int64_t i = 0; i < 90; ++i) {
    const bool sees = 4 * (i / 10) - 11 <= 0 && 4 * (i % 10) - 11 <= 0;
    EXPECT_EQ(a[static_cast<std::size_t>(i)] != b[static_cast<std::size_t>(i)], sees) << i;
  }
}

}  // namespace
}  // namespace super_resolution
