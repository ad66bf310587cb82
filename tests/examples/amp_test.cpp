#include "example_tool.h"
#include "resumed_training.h"

#include "amp/apply.h"
#include "amp/made.h"
#include "amp/model.h"
#include "amp/recordings.h"
#include "amp/trainer.h"
#include "common/sounds.h"

#include <adjoint/core/base/device.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/nn/safetensors.h>
#include <adjoint/nn/streaming.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/join/join.h>
#include <adjoint/ops/reduce/reduce.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <numbers>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace amp {
namespace {

namespace fs = std::filesystem;
using adjoint::Shape;
using adjoint::Tensor;
using examples::read_sound;
using examples::write_sound;

constexpr std::int64_t kRate = 8000;

Amp small_model(std::int64_t layers = 3) {
  adjoint::manual_seed(3);
  Amp model({.channels = 4, .layers = layers, .sample_rate = kRate});
  model.eval();
  return model;
}
double largest_difference(const Tensor& a, const Tensor& b) { return adjoint::abs(a - b).max().item<double>(); }
Tensor sine(double amplitude, std::int64_t samples, double frequency = 250.0) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < samples; ++i) {
    const double turns = frequency * static_cast<double>(i) / static_cast<double>(kRate);
    values.push_back(static_cast<float>(amplitude * std::sin(2.0 * std::numbers::pi * turns)));
  }
  return Tensor::from_vector(values, {samples});
}
double loudness(const Tensor& x) { return std::sqrt(adjoint::square(x).mean().item<double>()); }

TEST(AmpMade, PlucksAreReproducibleAndOfAnyLength) {
  for (std::uint64_t number = 1; number < 4; ++number) {
    const Tensor sound = plucked(number, 3000, kRate);
    EXPECT_EQ(sound.shape(), (Shape{3000}));
    EXPECT_EQ(sound.to_vector<float>(), plucked(number, 3000, kRate).to_vector<float>());
    EXPECT_NE(sound.to_vector<float>(), plucked(number + 1, 3000, kRate).to_vector<float>());
    EXPECT_NEAR(adjoint::abs(sound).max().item<float>(), 0.9F, 1e-5F);
  }
  EXPECT_EQ(plucked(1, 1, 48000).shape(), (Shape{1}));
}

TEST(AmpMade, TheAmplifierSaturatesWithoutAConstantPart) {
  const std::int64_t settled = kRate / 2, length = kRate;
  const auto end_of = [&](double amplitude) {
    return amplified(sine(amplitude, length), kRate).narrow(0, settled, settled);
  };
  const Tensor quiet = end_of(0.001), loud = end_of(0.1), louder = end_of(0.9);
  EXPECT_LT(loudness(loud), 50.0 * loudness(quiet)) << "100 times the input";
  EXPECT_LT(loudness(louder), 2.0 * loudness(loud)) << "9 times the input";
  EXPECT_LT(adjoint::abs(louder).max().item<float>(), 1.0F);
  EXPECT_LT(std::abs(louder.mean().item<double>()), 0.02);
}

TEST(AmpMade, TheAmplifierIsCausalAndRemembers) {
  const Tensor quiet = sine(0.01, 2000), before = amplified(quiet, kRate);
  Tensor struck = quiet.clone();
  struck.narrow(0, 1000, 100).fill_(0.9);
  const Tensor after = amplified(struck, kRate);
  EXPECT_EQ(largest_difference(after.narrow(0, 0, 1000), before.narrow(0, 0, 1000)), 0.0);
  EXPECT_GT(largest_difference(after.narrow(0, 1000, 100), before.narrow(0, 1000, 100)), 0.1);
  EXPECT_GT(largest_difference(after.narrow(0, 1110, 40), before.narrow(0, 1110, 40)), 1e-3)
      << "5 ms behind the stroke";
}

TEST(AmpModel, ASampleDependsOnItsContextAndNoLaterSample) {
  const Amp model = small_model();
  ASSERT_EQ(model.context(), 2 * (1 + 2 + 4));
  EXPECT_EQ(Amp({.channels = 1, .layers = 12}).context(), 2 * (1023 + 1 + 2)) << "the dilations begin again";
  const Tensor sound = Tensor::randn({1, 1, 40}), before = model(sound);
  constexpr std::int64_t kChanged = 10;
  Tensor other = sound.clone();
  other.narrow(2, kChanged, 1).fill_(3.0);
  const auto a = before.reshape({-1}).to_vector<float>(), b = model(other).reshape({-1}).to_vector<float>();
  for (std::int64_t t = 0; t < 40; ++t) {
    const bool same = a[static_cast<std::size_t>(t)] == b[static_cast<std::size_t>(t)];
    if (t == kChanged || t == kChanged + model.context()) {
      EXPECT_FALSE(same) << t;
    } else if (t < kChanged || t > kChanged + model.context()) {
      EXPECT_TRUE(same) << t;
    }
  }
}

TEST(AmpModel, OptionsOutOfRangeAreNamed) {
  EXPECT_ERROR(Amp({.channels = 0}), "amp: channels must be from 1 to 1024; got 0");
  EXPECT_ERROR(Amp({.layers = 101}), "amp: layers must be from 1 to 100; got 101");
  EXPECT_ERROR(Amp({.sample_rate = 100}), "amp: sample rate must be from 4000 to 384000; got 100");
}

TEST(AmpApply, RatiosAndGainsOfKnownSignals) {
  const Tensor target = Tensor::from_vector({3.0F, -4.0F}, {2});
  EXPECT_DOUBLE_EQ(error_to_signal(target, target), 0.0);
  EXPECT_DOUBLE_EQ(error_to_signal(Tensor::zeros({2}), target), 1.0);
  EXPECT_DOUBLE_EQ(error_to_signal(Tensor::from_vector({3.0F, 1.0F}, {2}), target), 1.0);
  EXPECT_DOUBLE_EQ(best_gain(target * 0.5, target), 2.0);
  EXPECT_DOUBLE_EQ(best_gain(Tensor::from_vector({1.0F, 0.0F}, {2}), target), 3.0);
}

TEST(AmpApply, BlocksGiveTheWhole) {
  const Amp model = small_model(11);
  for (const auto& [channels, length, block] :
       {std::tuple{1, 1000, 64}, {2, 1003, 64}, {3, 10, 64}, {1, 1, 1}, {2, 130, 7}}) {
    const Tensor sound = Tensor::randn({channels, length});
    std::vector<double> times;
    const Tensor made = processed(model, sound, block, times);
    ASSERT_EQ(made.shape(), sound.shape());
    EXPECT_EQ(std::ssize(times), (length + block - 1) / block);
    for (std::int64_t c = 0; c < channels; ++c) {
      EXPECT_LT(largest_difference(made.select(0, c), modelled(model, sound.select(0, c), adjoint::kCPU)), 1e-5)
          << channels << ' ' << length << ' ' << block;
    }
  }
  std::vector<double> times;
  EXPECT_ERROR(processed(model, Tensor::zeros({1, 4}), 0, times), "--block must be from 1 to 65536 samples; got 0");
  EXPECT_ERROR(processed(model, Tensor::zeros({1, 4}), 65537, times), "got 65537");
  EXPECT_EQ(adjoint::nn::Streaming(model, {.block = 64}).latency(), 0);
}

TEST(AmpRecordings, PiecesAreEverywhereAndAligned) {
  const Tensor input = Tensor::arange(0.0, 6.0);
  const Pieces pieces({input, input * 10.0}, 4, 7);
  EXPECT_EQ(pieces.size(), 7);
  adjoint::Generator generator(1);
  std::set<float> first;
  for (int i = 0; i < 60; ++i) {
    const auto piece = pieces.get(0, generator);
    ASSERT_EQ(piece.input.shape(), (Shape{1, 4}));
    EXPECT_EQ(largest_difference(piece.input * 10.0, piece.target), 0.0);
    first.insert(piece.input.to_vector<float>()[0]);
  }
  EXPECT_EQ(first, (std::set<float>{0.0F, 1.0F, 2.0F}));
}

class AmpTool : public examples::ExampleTool {
 protected:
  AmpTool() : ExampleTool("amp") {}

  std::string path(const std::string& name) const { return " '" + (folder_ / name).string() + "' "; }
  std::string small(const std::string& out, const std::string& more = "--steps 20 --test-every 10") const {
    return "train --batch 2 --channels 4 --layers 4 --sample-rate 8000 --segment 256 --seconds 2 --lr 1e-2 --out" +
           path(out) + more;
  }
  Options small_options() const {
    return {.seconds = 2, .model = {.channels = 4, .layers = 4, .sample_rate = kRate}, .segment = 256};
  }
  /// Two files of that many samples, the second one louder.
  void write_pair(const std::string& input, const std::string& target, std::int64_t samples = 6000) const {
    const Tensor sound = plucked(5, samples, kRate);
    write_sound(folder_ / input, sound * 0.5, kRate);
    write_sound(folder_ / target, adjoint::tanh(sound), kRate);
  }
  nlohmann::json metrics(const std::string& out) const {
    return nlohmann::json::parse(std::ifstream(folder_ / out / "metrics.json"));
  }
};

TEST_F(AmpTool, TrainsAndProcesses) {
  ASSERT_EQ(run(small("out")), 0) << output_;
  const auto json = metrics("out");
  EXPECT_EQ(json["curve"].size(), 3U) << "before the first step, at 10 and at 20";
  EXPECT_LT(json["esr"], json["untrained"]["esr"]);
  EXPECT_GT(json["baselines"]["input"], json["baselines"]["input with the best gain"]);
  EXPECT_EQ(json["context_samples"], 2 * 15);
  for (const char* name : {"sounds/input.wav", "sounds/target.wav", "sounds/model.wav"})
    EXPECT_TRUE(fs::exists(folder_ / "out" / name)) << name;
  const Amp model = load_model(folder_ / "out" / "model.safetensors");
  EXPECT_EQ(model.options().sample_rate, kRate);
  if (!examples::can_read_sound()) return;

  const Tensor sound = adjoint::stack({plucked(8, 3001, kRate), plucked(9, 3001, kRate)});
  write_sound(folder_ / "in.wav", sound, kRate);
  const std::string process = "process --model" + path("out/model.safetensors") + "--output" + path("made.wav");
  ASSERT_EQ(run(process + path("in.wav") + "--target" + path("in.wav")), 0) << output_;
  EXPECT_NE(output_.find("a block of 64 samples lasts 8.000 ms"), std::string::npos) << output_;
  EXPECT_NE(output_.find(", of the input itself 0.0000\n"), std::string::npos) << output_;
  const Tensor made = read_sound(folder_ / "made.wav", kRate).samples;
  ASSERT_EQ(made.shape(), (Shape{2, 3001}));
  const Tensor read = read_sound(folder_ / "in.wav", kRate).samples;
  for (std::int64_t c = 0; c < 2; ++c) {
    // The file cuts a sample to the next of 2^16 steps, and blocks round their sums in another order than the whole.
    EXPECT_LE(largest_difference(made.select(0, c), modelled(model, read.select(0, c), adjoint::kCPU)),
              1.0 / 32768.0 + 1e-6);
  }
  write_sound(folder_ / "fast.wav", sound, 2 * kRate);
  ASSERT_EQ(run(process + path("fast.wav") + "--block 1"), 0) << output_;
  EXPECT_EQ(read_sound(folder_ / "made.wav", kRate).samples.shape(), (Shape{2, 1501})) << "resampled";
}

TEST_F(AmpTool, ALoadedModelIsWhatWasSaved) {
  const Amp model = small_model();
  save_model(folder_ / "model.safetensors", model);
  const Tensor sound = Tensor::randn({1, 1, 50});
  EXPECT_EQ(load_model(folder_ / "model.safetensors")(sound).to_vector<float>(), model(sound).to_vector<float>());
}

TEST_F(AmpTool, GoesOnToTheBit) {
  const Options options = small_options();
  CLI::App app;
  examples::Settings settings("amp", app);
  const examples::Run run{.program = "amp", .device = adjoint::kCPU, .steps = 12, .batch = 2, .test_every = 5};
  examples::expect_same_training(examples::trained<Trainer>(options, run, settings, {}, folder_ / "whole"),
                                 examples::trained<Trainer>(options, run, settings, {0, 3, 8}, folder_ / "resumed"));
}

TEST_F(AmpTool, TrainsOnTwoFilesAndRefusesOthers) {
  if (!examples::can_read_sound()) GTEST_SKIP() << "no libsndfile in this build";
  write_pair("in.wav", "out.wav");
  const std::string pair = "--input" + path("in.wav") + "--target" + path("out.wav");
  ASSERT_EQ(run_interrupted(small("out", "--steps 1000000 --test-every 2 " + pair)), 130) << output_;
  EXPECT_NE(output_.find("trained on 0.7 seconds of sound, tested on 0.1 others"), std::string::npos) << output_;
  write_pair("in.wav", "out.wav", 7000);
  EXPECT_EQ(run("train --resume --out" + path("out")), 1) << output_;
  EXPECT_NE(output_.find("it was trained on other sound"), std::string::npos) << output_;
}

TEST_F(AmpTool, TheLastTenthIsHeldOut) {
  if (!examples::can_read_sound()) GTEST_SKIP() << "no libsndfile in this build";
  write_pair("in.wav", "out.wav", 1003);
  const std::string in = (folder_ / "in.wav").string(), out = (folder_ / "out.wav").string();
  const Recordings parts = Recordings::of(in, out, kRate, 100, 60);
  const Tensor whole = read_sound(in, kRate).samples[0], target = read_sound(out, kRate).samples[0];
  ASSERT_EQ(parts.training.input.numel(), 903);
  ASSERT_EQ(parts.tests.target.numel(), 60);
  EXPECT_EQ(largest_difference(parts.training.input, whole.narrow(0, 0, 903)), 0.0);
  EXPECT_EQ(largest_difference(parts.tests.target, target.narrow(0, 903, 60)), 0.0);
  EXPECT_NE(parts.fingerprint(), Recordings::of(out, in, kRate, 100, 60).fingerprint());
  EXPECT_EQ(parts.fingerprint(), Recordings::of(in, out, kRate, 100, 60).fingerprint());
}

TEST_F(AmpTool, BadInputIsNamedInOneLine) {
  std::ofstream(folder_ / "broken.wav") << "RIFF cut";
  std::ofstream(folder_ / "empty.wav");
  save_model(folder_ / "good.safetensors", small_model());
  adjoint::nn::save_safetensors(folder_ / "other.safetensors", adjoint::NamedTensors{}, {});
  adjoint::nn::save_safetensors(folder_ / "cut.safetensors", adjoint::NamedTensors{},
                                {{"architecture", "adjoint amp"}, {"options", "{\"channels\": 4}"}});
  const auto process = [&](const std::string& model, const std::string& in, const std::string& more = "") {
    return "process" + path(in) + "--model" + path(model) + "--output" + path("made.wav") + more;
  };
  std::vector<std::pair<std::string, std::string>> cases{
      {process("good.safetensors", "broken.wav"), "broken.wav"},
      {process("good.safetensors", "empty.wav"), "empty.wav"},
      {process("good.safetensors", "absent.wav"), "absent.wav"},
      {process("absent.safetensors", "broken.wav"), "absent.safetensors"},
      {process("other.safetensors", "broken.wav"), "other.safetensors' is not a model of this program"},
      {process("cut.safetensors", "broken.wav"), "cannot load '"},
      {"process" + path("broken.wav") + "--output" + path("made.mp3"), "must end in .wav"},
      {small("o", "--input" + path("broken.wav")), "--input and --target must come together; got '"},
      {"train --seconds 1 --sample-rate 4000 --layers 4 --segment 4000 --out" + path("o"),
       "--seconds must give 4030 samples, one of --segment and those that it depends on; got 4000; raise --seconds"},
      {"train --layers 0 --out" + path("o"), "--layers must be from 1 to 100; got 0"},
      {small("o", "--device cuda:99"), "--device must be cpu or one of the "}};
  if (examples::can_read_sound()) {
    write_pair("in.wav", "out.wav");
    write_pair("short_in.wav", "short_out.wav", 2000);
    write_sound(folder_ / "silent.wav", Tensor::zeros({6000}), kRate);
    const auto pair = [&](const std::string& in, const std::string& target) {
      return small("o", "--input" + path(in) + "--target" + path(target));
    };
    cases.insert(cases.end(),
                 {{pair("in.wav", "short_out.wav"), "must be equally long; got 6000 samples in '"},
                  {pair("short_in.wav", "short_out.wav"), "short_in.wav' must have 286 samples"},
                  {pair("in.wav", "silent.wav"), "silent.wav' must not be silent"},
                  {pair("in.wav", "broken.wav"), "broken.wav"},
                  {process("good.safetensors", "in.wav", "--block 0"),
                   "--block must be from 1 to 65536 samples; got 0"},
                  {process("good.safetensors", "in.wav", "--target" + path("short_out.wav")),
                   "--target must have the input's channels and samples at 8000 Hz, (1, 6000); got (1, 2000)"}});
  }
  for (const auto& [arguments, wanted] : cases) {
    EXPECT_EQ(run(arguments), 1) << arguments << '\n' << output_;
    EXPECT_EQ(lines(), 1) << arguments << '\n' << output_;
    EXPECT_NE(output_.find(wanted), std::string::npos) << arguments << '\n' << output_;
  }
  EXPECT_EQ(run("process" + path("broken.wav")), 2) << "no output";
  EXPECT_FALSE(fs::exists(folder_ / "made.wav"));
}

}  // namespace
}  // namespace amp
