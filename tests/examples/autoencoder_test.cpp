#include "example_tool.h"
#include "resumed_training.h"

#include "autoencoder/apply.h"
#include "autoencoder/codebook.h"
#include "autoencoder/prior.h"
#include "autoencoder/trainer.h"
#include "autoencoder/vae.h"
#include "autoencoder/vqvae.h"

#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/data/array_files.h>
#include <adjoint/data/image.h>
#include <adjoint/nn/safetensors.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/reduce/reduce.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace autoencoder {
namespace {

namespace fs = std::filesystem;
namespace data = adjoint::data;
using adjoint::Shape;
using adjoint::Tensor;
using examples::drawn_shape;

TEST(Autoencoder, DivergenceIsTheClosedForm) {
  const Tensor mean = Tensor::from_vector({0.F, 1.F, -2.F}, {3});
  const Tensor variance = Tensor::from_vector({1.F, 4.F, 0.25F}, {3});
  const auto found = divergence(mean, adjoint::log(variance)).to_vector<double>();
  EXPECT_NEAR(found[0], 0.0, 1e-6);
  EXPECT_NEAR(found[1], 0.5 * (1 + 4 - 1 - std::log(4.0)), 1e-6);
  EXPECT_NEAR(found[2], 0.5 * (4 + 0.25 - 1 - std::log(0.25)), 1e-6);
}

TEST(Autoencoder, LossOfAVaeIsTheBoundAtItsBestVariance) {
  const Tensor truth = Tensor::zeros({2, 3, 4, 4});
  const Vae::Output output{Tensor::full({2, 3, 4, 4}, 0.5), Tensor::ones({2, 5}), Tensor::zeros({2, 5})};
  EXPECT_NEAR(vae_loss(output, truth, 1.0).item<float>(), 0.5 * std::log(0.25) + 2.5 / 48, 1e-6);
  EXPECT_NEAR(vae_loss(output, truth, 4.0).item<float>(), 0.5 * std::log(0.25) + 10.0 / 48, 1e-6);
}

TEST(Autoencoder, NoiseGoesIntoAVaeAsItsDeviationSays) {
  adjoint::manual_seed(1);
  Vae model({.latent = 6, .features = 2});
  model.eval();
  const Tensor pictures = Tensor::randn({2, 3, 32, 32}), noise = Tensor::randn({2, 6});
  const Vae::Output output = model(pictures, noise);
  const Tensor wanted = model.decode(output.mean + noise * adjoint::exp(output.log_variance / 2.0));
  EXPECT_EQ(output.pictures.to_vector<float>(), wanted.to_vector<float>());
  EXPECT_EQ(model.encode(pictures).to_vector<float>(), output.mean.to_vector<float>());
  EXPECT_NE(model(pictures, Tensor::zeros({2, 6})).pictures.to_vector<float>(), output.pictures.to_vector<float>());
}

TEST(Autoencoder, ACodebookFindsTheNearestCode) {
  adjoint::manual_seed(2);
  const Codebook book(7, 3);
  const Tensor vectors = Tensor::randn({2, 3, 4, 5}), table = book.named_buffers().back().second;
  const auto v = vectors.to_vector<double>(), t = table.to_vector<double>();
  const auto found = book.nearest(vectors).to_vector<std::int64_t>();
  ASSERT_EQ(found.size(), 40U);
  for (std::size_t i = 0; i < 40; ++i) {
    const auto distance = [&](std::size_t code) {
      double sum = 0;
      for (std::size_t c = 0; c < 3; ++c) sum += std::pow(v[i / 20 * 60 + c * 20 + i % 20] - t[code * 3 + c], 2);
      return sum;
    };
    for (std::size_t code = 0; code < 7; ++code)
      EXPECT_LE(distance(static_cast<std::size_t>(found[i])), distance(code) + 1e-6);
  }
  const Tensor of = book.vectors(book.nearest(vectors));
  EXPECT_EQ(of.shape(), vectors.shape());
  EXPECT_EQ(of[1][2][3][4].item<float>(), table[found[39]][2].item<float>());
}

TEST(Autoencoder, ACodebookBeginsAtVectorsOfTheBatchAndFollowsTheirMeans) {
  adjoint::manual_seed(3);
  const Codebook book(2, 1);
  const auto table = [&] { return book.named_buffers().back().second.to_vector<float>(); };
  // Four vectors, of which the chances 0 and 0.99 are the first and the last.
  const Tensor vectors = Tensor::from_vector({1.F, 2.F, 9.F, 10.F}, {1, 1, 2, 2});
  const Tensor chances = Tensor::from_vector({0.F, 0.99F}, {2});
  book.update(vectors, book.nearest(vectors), chances);
  for (const auto& [found, wanted] : {std::pair{table()[0], 1.F}, std::pair{table()[1], 10.F}})
    EXPECT_NEAR(found, wanted, 1e-5);
  EXPECT_EQ(book.nearest(vectors).to_vector<int>(), (std::vector<int>{0, 0, 1, 1}));
  for (int i = 0; i < 2000; ++i) book.update(vectors, book.nearest(vectors), chances);
  EXPECT_NEAR(table()[0], 1.5F, 1e-4);
  EXPECT_NEAR(table()[1], 9.5F, 1e-4);
  // Vectors that are all nearest to one code: the other code moves to them.
  const Tensor far = Tensor::from_vector({20.F, 20.F, 24.F, 24.F}, {1, 1, 2, 2});
  for (int i = 0; i < 2000; ++i) book.update(far, book.nearest(far), chances);
  EXPECT_NEAR(std::min(table()[0], table()[1]), 20.F, 1e-3);
  EXPECT_NEAR(std::max(table()[0], table()[1]), 24.F, 1e-3);
}

TEST(Autoencoder, GradientsPassTheCodes) {
  adjoint::manual_seed(4);
  const VqVae model({.codes = 5, .width = 3, .features = 2});
  Tensor pictures = Tensor::randn({2, 3, 32, 32});
  pictures.requires_grad_();
  adjoint::Tape tape;
  const VqVae::Output output = model(pictures);
  const Tensor of_pictures = tape.gradient(output.pictures.sum(), {pictures}, {.retain = true})[0];
  EXPECT_GT(of_pictures.abs().max().item<float>(), 0.F);
  // The prior learns the existing codes, and does not change them.
  tape.backward(output.prior);
  for (const auto& [name, parameter] : model.named_parameters())
    EXPECT_EQ(parameter.grad().defined(), name.starts_with("prior.")) << name;
}

TEST(Autoencoder, APriorSeesWhatWasBeforeAlone) {
  adjoint::manual_seed(5);
  const Prior prior(6, 8, 2);
  constexpr std::int64_t kGrid = 5;
  const Tensor codes = Tensor::zeros({1, kGrid, kGrid}, {.dtype = adjoint::kInt64});
  const Tensor scores = prior(codes);
  ASSERT_EQ(scores.shape(), (Shape{1, 6, kGrid, kGrid}));
  for (std::int64_t at = 0; at < kGrid * kGrid; ++at) {
    Tensor changed = codes.clone();
    changed[0][at / kGrid].select(0, at % kGrid).fill_(3.0);
    const Tensor apart = (prior(changed) - scores).abs().amax({0, 1});
    const auto moved = apart.to_vector<float>();
    for (std::int64_t i = 0; i <= at; ++i) EXPECT_EQ(moved[static_cast<std::size_t>(i)], 0.F) << at << ' ' << i;
    if (at + 1 < kGrid * kGrid && at % kGrid + 1 < kGrid) {
      EXPECT_GT(moved[static_cast<std::size_t>(at + 1)], 0.F) << "the next one, right of " << at;
    }
    if (at + kGrid < kGrid * kGrid) {
      EXPECT_GT(moved[static_cast<std::size_t>(at + kGrid)], 0.F) << "below " << at;
    }
    // From above and to the right, which a masked convolution's blind spot hides.
    if (at + kGrid < kGrid * kGrid && at % kGrid > 0) {
      EXPECT_GT(moved[static_cast<std::size_t>(at + kGrid - 1)], 0.F) << "below and left of " << at;
    }
  }
}

TEST(Autoencoder, APriorDrawsCodesAsOftenAsItSays) {
  adjoint::manual_seed(6);
  const Prior prior(3, 4, 1);
  for (const auto& [name, parameter] : prior.named_parameters()) {
    Tensor values = parameter.detach();
    values.zero_();
    if (name == "out.bias") values.copy_(Tensor::from_vector({std::log(0.7F), std::log(0.2F), std::log(0.1F)}, {3}));
  }
  std::vector<double> counts(3, 0.0);
  for (const auto code : prior.sample(100, 8, 8, adjoint::kCPU).to_vector<std::int64_t>())
    ++counts.at(static_cast<std::size_t>(code));
  // Of 6,400: within four standard deviations.
  EXPECT_NEAR(counts[0] / 6400, 0.7, 0.023);
  EXPECT_NEAR(counts[1] / 6400, 0.2, 0.02);
  EXPECT_NEAR(counts[2] / 6400, 0.1, 0.015);
}

TEST(Autoencoder, WhatComesBackStandsBelowEachPicture) {
  const Tensor pictures = Tensor::full({3, 3, 4, 4}, 10.0, {.dtype = adjoint::kUInt8});
  const Tensor back = Tensor::full({3, 3, 4, 4}, 20.0, {.dtype = adjoint::kUInt8});
  const Tensor sheet = compared(pictures, back, 2);
  ASSERT_EQ(sheet.shape(), (Shape{3, 26, 14}));
  for (const auto& [row, wanted] : {std::pair{0, 10}, {1, 20}, {2, 10}, {3, 20}}) {
    EXPECT_EQ(sheet[0][row * 6 + 3][3].item<int>(), wanted) << row;
    EXPECT_EQ(sheet[0][row * 6 + 3][9].item<int>(), row < 2 ? wanted : 255) << row;
  }
  EXPECT_EQ(compared(pictures, back, 8).shape(), (Shape{3, 14, 20}));
  EXPECT_NEAR(psnr_of(pictures, back), 20 * std::log10(25.5), 1e-3);
  EXPECT_EQ(psnr_of(back, back), 100.0);
}

class AutoencoderTool : public examples::ExampleTool {
 protected:
  AutoencoderTool() : ExampleTool("autoencoder") {}

  std::string small(const std::string& out, const std::string& more = "") const {
    return "train --steps 20 --batch 4 --features 2 --latent 8 --codes 8 --code-width 4 --test-every 10 --out '" +
           (folder_ / out).string() + "' " + more;
  }
  nlohmann::json metrics(const std::string& out) const {
    return nlohmann::json::parse(std::ifstream(folder_ / out / "metrics.json"));
  }
};

TEST_F(AutoencoderTool, TrainsBothKindsAndAppliesThem) {
  for (const std::string kind : {"vae", "vqvae"}) {
    ASSERT_EQ(run(small(kind, "--model " + kind)), 0) << output_;
    const fs::path out = folder_ / kind;
    const auto json = metrics(kind);
    EXPECT_EQ(json["curve"].size(), 3U) << "before the first step, at 10 and at 20";
    EXPECT_GT(json["psnr"], json["untrained"]["psnr"]) << kind;
    for (const char* name :
         {"reconstructions/0000000.png", "reconstructions/0000020.png", "reconstructions.png", "samples.png"})
      EXPECT_EQ(data::read_image(out / name).shape(), (Shape{3, 274, 274})) << name;
    EXPECT_EQ(data::read_image(out / "walk.png").shape(), (Shape{3, 138, 274}));

    const fs::path pictures = folder_ / (kind + " pictures");
    fs::create_directories(pictures);
    for (int i = 0; i < 3; ++i)
      data::write_png(pictures / (std::to_string(i) + ".png"), drawn_shape(static_cast<std::uint64_t>(i)).image);
    const std::string model = "'" + (out / "model.safetensors").string() + "' ",
                      to = " '" + (folder_ / "made.png").string() + "' ", folder = "'" + pictures.string() + "'";
    const auto made = [&](const std::string& arguments, const Shape& shape) {
      EXPECT_EQ(run(arguments), 0) << output_;
      const Tensor image = data::read_image(folder_ / "made.png");
      EXPECT_EQ(image.shape(), shape) << arguments;
      return image.to_vector<int>();
    };
    const auto both = made("reconstruct " + model + folder + to, {3, 70, 104});
    EXPECT_NE(output_.find(kind == "vae" ? "of 3 pictures of 256 bits" : "of 3 pictures of 192 bits"),
              std::string::npos)
        << output_;
    const std::string kept = " '" + (folder_ / "kept.npy").string() + "' ";
    ASSERT_EQ(run("encode " + model + folder + kept), 0) << output_;
    EXPECT_EQ(data::read_npy(folder_ / "kept.npy").shape(), kind == "vae" ? (Shape{3, 8}) : (Shape{3, 8, 8}));
    const auto decoded = made("decode " + model + kept + to, {3, 36, 104});
    EXPECT_TRUE(std::equal(decoded.begin() + 2 * 104, decoded.begin() + 34 * 104, both.begin() + 36 * 104))
        << "encode and decode are what reconstruct does";

    const auto sampled = made("sample " + model + to + "--count 5 --columns 3", {3, 70, 104});
    EXPECT_NE(made("sample " + model + to + "--count 5 --columns 3 --seed 7", {3, 70, 104}), sampled);
    const std::string a = "'" + (pictures / "0.png").string() + "' ", b = "'" + (pictures / "1.png").string() + "'";
    made("walk " + model + a + b + to + "--steps 5", {3, 36, 172});
  }
}

TEST_F(AutoencoderTool, GoesOnToTheBit) {
  for (const std::string kind : {"vae", "vqvae"}) {
    Options options{.model = kind, .features = 2, .latent = 8, .codes = 8, .code_width = 4};
    CLI::App app;
    examples::Settings settings("autoencoder", app);
    options.add_to(settings);
    const examples::Run run{
        .program = "autoencoder", .device = adjoint::kCPU, .steps = 20, .batch = 4, .test_every = 8};
    examples::expect_same_training(examples::trained<Trainer>(options, run, settings, {}, folder_ / (kind + "whole")),
                                   examples::trained<Trainer>(options, run, settings, {0, 3, 8, 13},
                                                              folder_ / (kind + "resumed")),
                                   kind);
  }
}

TEST_F(AutoencoderTool, AFolderIsTrainedOnAndWhatIsBrokenInItIsTold) {
  const fs::path pictures = folder_ / "pictures";
  fs::create_directories(pictures);
  for (int i = 0; i < 5; ++i)
    data::write_jpeg(pictures / (std::to_string(i) + ".jpg"),
                     drawn_shape(static_cast<std::uint64_t>(i)).image.narrow(1, 0, 20 + i));
  std::ofstream(pictures / "broken.png") << "\x89PNG\r\n\x1a\n cut";
  std::ofstream(pictures / "empty.png");
  const std::string images = "--images '" + pictures.string() + "'";
  ASSERT_EQ(run(small("out", images)), 0) << output_;
  EXPECT_NE(output_.find("broken.png"), std::string::npos) << output_;
  EXPECT_NE(output_.find("trained on 4 pictures, tested on 1 others"), std::string::npos) << output_;

  const std::string more = "--out '" + (folder_ / "more").string() + "'";
  ASSERT_EQ(run_interrupted("train --steps 1000000 --batch 4 --features 2 --test-every 5 " + images + ' ' + more), 130)
      << output_;
  data::write_png(pictures / "0.jpg", drawn_shape(40).image);
  EXPECT_EQ(run("train --resume " + more), 1) << output_;
  EXPECT_NE(output_.find("it was trained on other pictures"), std::string::npos) << output_;
}

TEST_F(AutoencoderTool, BadInputIsNamedInOneLine) {
  const std::string here = folder_.string();
  std::ofstream(folder_ / "file") << "no picture";
  fs::create_directories(folder_ / "none");
  data::write_png(folder_ / "good.png", drawn_shape(1).image);
  adjoint::manual_seed(1);
  save_model(folder_ / "vae.safetensors", Vae({.latent = 3, .features = 2}));
  save_model(folder_ / "vqvae.safetensors", VqVae({.codes = 4, .width = 3, .features = 2}));
  data::write_npy(folder_ / "wide.npy", Tensor::zeros({2, 5}));
  data::write_npy(folder_ / "code.npy", Tensor::full({1, 8, 8}, 4.0, {.dtype = adjoint::kInt64}));
  for (const auto& [name, options] :
       {std::pair{"kind", "{\"kind\": \"gan\"}"}, std::pair{"cut", R"({"kind": "vae", "latent": 3})"},
        std::pair{"odd", R"({"kind": "vqvae", "codes": 1, "width": 1, "features": 1})"}})
    adjoint::nn::save_safetensors(folder_ / (name + std::string(".safetensors")), adjoint::NamedTensors{},
                                  {{"architecture", "adjoint autoencoder"}, {"options", options}});
  const std::string vae = here + "/vae.safetensors ", vqvae = here + "/vqvae.safetensors ", good = here + "/good.png ",
                    to = here + "/a.png ";
  const std::pair<std::string, const char*> cases[] = {
      {"sample " + here + "/none.safetensors " + to, "none.safetensors"},
      {"sample " + here + "/file " + to, "/file"},
      {"sample " + here + "/kind.safetensors " + to, "its kind must be vae or vqvae; got 'gan'"},
      {"sample " + here + "/cut.safetensors " + to, "cannot load '"},
      {"sample " + here + "/odd.safetensors " + to, "codes must be from 2 to 65536; got 1"},
      {"sample " + vae + to + "--count 0", "--count must be from 1 to 10000; got 0"},
      {"sample " + vae + here + "/no/a.png", "/no/a.png"},
      {"walk " + vae + good + good + to + "--steps -1", "--steps must be from 1 to 10000; got -1"},
      {"walk " + vae + good + here + "/file " + to, "/file"},
      {"reconstruct " + vae + here + "/none " + to, "/none' holds no PNG or JPEG file"},
      {"reconstruct " + vae + here + "/file " + to, "/file"},
      {"reconstruct " + vae + good + to + "--columns 0", "--columns must be from 1 to 10000; got 0"},
      {"encode " + vae + good + here + "/no/a.npy", "/no/a.npy"},
      {"decode " + vae + here + "/file " + to, "/file"},
      {"decode " + vae + here + "/wide.npy " + to, "/wide.npy'"},
      {"decode " + vqvae + here + "/wide.npy " + to, "/wide.npy'"},
      {"decode " + vqvae + here + "/code.npy " + to, "/code.npy'"},
      {small("out", "--images " + here + "/none"), "/none' holds no PNG or JPEG file"},
      {small("out", "--drawn letters"), "--drawn must be one of shapes, digits; got 'letters'"},
      {small("out", "--device cuda:99"), "--device must be cpu or one of the "},
      {small("out", "--model gan"), "--model must be one of vae, vqvae; got 'gan'"},
      {small("out", "--beta -1"), "--beta must be from 0 to "},
      {"train --batch 1 --model vae --out " + here + "/out", "--batch must be at least 2 with --model vae; got 1"},
  };
  for (const auto& [arguments, message] : cases) {
    EXPECT_EQ(run(arguments), 1) << arguments << ": " << output_;
    EXPECT_NE(output_.find(message), std::string::npos) << arguments << ": " << output_;
    EXPECT_EQ(lines(), 1) << arguments << ": " << output_;
  }
}

TEST_F(AutoencoderTool, TrainsInMixedPrecision) {
  for (const std::string kind : {"vae", "vqvae"}) {
    ASSERT_EQ(run(small("bf16", "--overwrite --precision bf16 --model " + kind)), 0) << output_;
    ASSERT_EQ(run(small("tf32", "--overwrite --model " + kind)), 0) << output_;
    const auto first = [&](const std::string& out) { return metrics(out)["curve"][1]["loss"].get<double>(); };
    EXPECT_NE(first("bf16"), first("tf32")) << kind;
    EXPECT_NEAR(first("bf16"), first("tf32"), 0.1 * std::abs(first("tf32")) + 0.05) << kind;
  }
}

}  // namespace
}  // namespace autoencoder
