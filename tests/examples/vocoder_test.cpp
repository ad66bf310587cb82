#include "example_tool.h"
#include "resumed_training.h"

#include "vocoder/discriminators.h"
#include "vocoder/generator.h"
#include "vocoder/made_sounds.h"
#include "vocoder/measure.h"
#include "vocoder/mel.h"
#include "vocoder/sounds.h"
#include "vocoder/stream.h"
#include "vocoder/trainer.h"

#include <adjoint/core/base/device.h>
#include <adjoint/core/base/precision.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/nn/safetensors.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/join/join.h>
#include <adjoint/ops/reduce/reduce.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

namespace vocoder {
namespace {

namespace fs = std::filesystem;
using adjoint::Shape;
using adjoint::Tensor;

constexpr std::int64_t kRate = 8000;

Tensor sine(double frequency, std::int64_t samples) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < samples; ++i) {
    values.push_back(static_cast<float>(
        0.5 * std::sin(2.0 * std::numbers::pi * frequency * static_cast<double>(i) / static_cast<double>(kRate))));
  }
  return Tensor::from_vector(values, {samples});
}

double largest_difference(const Tensor& a, const Tensor& b) { return adjoint::abs(a - b).max().item<float>(); }

/// Small, for synthesis.
Generator small_generator(const std::string& network, std::int64_t channels) {
  adjoint::manual_seed(3);
  Generator model({.network = network, .channels = channels, .sample_rate = kRate, .clock = 6});
  remove_weight_norms(model);
  model.eval();
  return model;
}

TEST(Vocoder, MadeSoundsAreReproducibleAndOfAnyLengthAndRate) {
  for (std::uint64_t number = 0; number < 8; ++number) {
    const Tensor sound = made_sound(number, 3000, kRate);
    EXPECT_EQ(sound.shape(), (Shape{3000}));
    EXPECT_EQ(sound.to_vector<float>(), made_sound(number, 3000, kRate).to_vector<float>());
    EXPECT_NE(sound.to_vector<float>(), made_sound(number + 2, 3000, kRate).to_vector<float>());
    const double peak = adjoint::abs(sound).max().item<float>();
    EXPECT_GT(peak, 0.29);
    EXPECT_LT(peak, 0.91);
  }
  EXPECT_EQ(made_sound(1, 1, 48000).shape(), (Shape{1}));
}

TEST(Vocoder, MelFramesStandForTheSamplesInTheirMiddle) {
  for (const std::int64_t length : {1, 255, 256, 257, 1000}) {
    EXPECT_EQ(log_mel(Tensor::zeros({2, length}), kRate).shape(), (Shape{2, kMels, frames_of(length)})) << length;
    EXPECT_NEAR(log_mel(Tensor::zeros({length}), kRate).max().item<float>(), std::log(1e-5), 1e-4);
  }
  // A click in the middle of frame 5.
  Tensor click = Tensor::zeros({10 * kHop});
  click.narrow(0, 5 * kHop + kHop / 2, 1).fill_(1.0);
  const Tensor levels = adjoint::exp(log_mel(click, kRate)).sum({0});
  const auto values = levels.to_vector<float>();
  EXPECT_EQ(std::max_element(values.begin(), values.end()) - values.begin(), 5);
  // Its neighbours are as far away on both sides.
  EXPECT_NEAR(values[4], values[6], 1e-3F * values[5]);
  // The middle of a longer sound equals log_mel_inside's result for it.
  const Tensor sound = made_sound(0, 12 * kHop, kRate);
  const Tensor inside = log_mel_inside(sound.narrow(0, 4 * kHop - kMargin, 3 * kHop + 2 * kMargin), kRate);
  EXPECT_LT(largest_difference(inside, log_mel(sound, kRate).narrow(-1, 4, 3)), 1e-4);
}

TEST(Vocoder, AMelBandIsLoudWhereItsToneIs) {
  std::int64_t before = -1;
  for (const double frequency : {300.0, 900.0, 2000.0, 3500.0}) {
    const Tensor mel = log_mel(sine(frequency, 20 * kHop), kRate).narrow(-1, 10, 1).squeeze(-1);
    const auto values = mel.to_vector<float>();
    const auto loudest = std::max_element(values.begin(), values.end()) - values.begin();
    EXPECT_GT(loudest, before);
    before = loudest;
  }
}

TEST(Vocoder, GriffinLimComesNearAndIsAlwaysTheSame) {
  const Tensor sound = made_sound(2, 16 * kHop, kRate).unsqueeze(0);
  const Tensor made = by_griffin_lim(sound, kRate, adjoint::kCPU);
  EXPECT_EQ(made.shape(), sound.shape());
  EXPECT_EQ(made.to_vector<float>(), by_griffin_lim(sound, kRate, adjoint::kCPU).to_vector<float>());
  adjoint::manual_seed(1);
  const Tensor noise = 0.1 * Tensor::randn(sound.shape());
  EXPECT_LT(3 * distances(made, sound, kRate).mel, distances(noise, sound, kRate).mel);
  EXPECT_LT(distances(made, sound, kRate).stft, distances(noise, sound, kRate).stft);
}

TEST(Vocoder, DistancesAreZeroBetweenTheSameAndTakeShortSounds) {
  const Tensor sound = made_sound(0, 700, kRate).unsqueeze(0);
  const Distances same = distances(sound, sound, kRate), other = distances(0.5 * sound, sound, kRate);
  EXPECT_EQ(same.stft, 0.0);
  EXPECT_EQ(same.mel, 0.0);
  EXPECT_NEAR(other.mel, std::log(2.0), 0.2);
  for (const std::int64_t length : {1, 512})  // windows of 1,024 samples reflect 512
    EXPECT_EQ(by_griffin_lim(sound.narrow(-1, 0, length), kRate, adjoint::kCPU).shape(), (Shape{1, length}));
  const Level level = level_of(Tensor::from_vector({0.5F, -1.0F, 0.0F, 1.0F}, {1, 4}));
  EXPECT_NEAR(level.peak_db, 0.0, 1e-6);
  EXPECT_NEAR(level.rms_db, 10.0 * std::log10(2.25 / 4.0), 1e-5);
  EXPECT_NEAR(level.clipped, 0.5, 1e-6);
}

TEST(Vocoder, NetworksMakeAHopForEveryFrame) {
  for (const auto& [network, channels] : {std::pair{"v1", 16}, {"v2", 32}, {"v3", 8}, {"tiny", 16}}) {
    const Generator model = small_generator(network, channels);
    const Tensor sound = model(Tensor::randn({2, kMels, 3}));
    EXPECT_EQ(sound.shape(), (Shape{2, 1, 3 * kHop})) << network;
    EXPECT_LT(adjoint::abs(sound).max().item<float>(), 1.0F);
    EXPECT_GT(adjoint::abs(sound).max().item<float>(), 0.0F);
  }
  EXPECT_ERROR(Generator({.network = "v9"}), "there is no network 'v9'");
  EXPECT_ERROR(Generator({.network = "v2", .channels = 24}), "channels must be a multiple of 16 up to 4096");
  EXPECT_ERROR(Generator({.sample_rate = 100}), "the sample rate must be from 4000 to 96000 Hz; got 100");
}

TEST(Vocoder, WithAClockAStillSpectrogramNeedNotRepeatWithEachFrame) {
  adjoint::manual_seed(3);
  const Tensor still = Tensor::randn({1, kMels, 1}).expand({1, kMels, 64}).contiguous();
  for (const std::int64_t clock : {0, 2, 8}) {
    const Generator model({.network = "tiny", .channels = 16, .sample_rate = kRate, .clock = clock});
    // Far from both ends, which are padded with zeros.
    const Tensor sound = model(still).narrow(-1, 24 * kHop, 16 * kHop);
    const auto distance = [&](std::int64_t frames) {
      return largest_difference(sound.narrow(-1, 0, 8 * kHop), sound.narrow(-1, frames * kHop, 8 * kHop));
    };
    const std::int64_t period = std::max<std::int64_t>(clock, 1);
    EXPECT_LT(distance(period), 1e-5) << clock;
    for (std::int64_t frames = 1; frames < period; ++frames)
      EXPECT_GT(distance(frames), 1e-4) << clock << ' ' << frames;
  }
  EXPECT_ERROR(Generator({.clock = 3}), "clock must be even, from 0 to 256; got 3");
}

/// The output for a sound in chunks of these lengths, repeated, and its delay.
Tensor streamed(StreamingVocoder& vocoder, const Tensor& sound, const std::vector<std::int64_t>& lengths) {
  std::vector<Tensor> parts;
  std::int64_t at = 0, made = 0;
  for (std::size_t i = 0; at < sound.size(-1); ++i) {
    const std::int64_t count = std::min(lengths[i % lengths.size()], sound.size(-1) - at);
    const bool last = at + count == sound.size(-1);
    parts.push_back(vocoder(sound.narrow(-1, at, count).contiguous(), last));
    at += count;
    made += parts.back().size(-1);
    EXPECT_GE(made, at - vocoder.latency());
    EXPECT_LE(made, at);
  }
  return adjoint::cat(parts, -1);
}

TEST(Vocoder, AStreamIsTheWholeSampleBySample) {
  for (const auto& [network, channels] : {std::pair{"tiny", 16}, {"v2", 32}}) {
    const Generator model = small_generator(network, channels);
    StreamingVocoder vocoder(model, 2, 3);
    for (const std::int64_t length : {kRate + 77, 2 * kHop, std::int64_t{5}}) {
      const Tensor sound = adjoint::stack({made_sound(4, length, kRate), made_sound(5, length, kRate)});
      const Tensor whole = resynthesized(model, sound, adjoint::kCPU);
      const double scale = adjoint::abs(whole).max().item<float>();
      for (const std::vector<std::int64_t>& lengths :
           {std::vector<std::int64_t>{1000}, {kHop}, {1, 700, 2, 0, 3000}, {100000}}) {
        // One vocoder for all: behind a sequence's end another begins.
        const Tensor parts = streamed(vocoder, sound, lengths);
        ASSERT_EQ(parts.shape(), whole.shape());
        EXPECT_LT(largest_difference(parts, whole), 1e-4 * scale) << network << ' ' << length << ' ' << lengths[0];
      }
    }
    EXPECT_LT(largest_difference(synthesize(model, made_sound(4, 3000, kRate).unsqueeze(0), adjoint::kCPU, 999),
                                 resynthesized(model, made_sound(4, 3000, kRate).unsqueeze(0), adjoint::kCPU)),
              1e-4);
  }
}

TEST(VocoderCuda, AStreamIsTheWholeAndTheCpus) {
  if (!adjoint::cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  const adjoint::PrecisionGuard full(adjoint::Precision::kFull);
  const Tensor sound = made_sound(4, 3 * kRate, kRate).unsqueeze(0);
  for (const auto& [network, channels] : {std::pair{"tiny", 16}, {"v1", 128}}) {
    Generator model = small_generator(network, channels);
    const Tensor wanted = resynthesized(model, sound, adjoint::kCPU);
    const double scale = adjoint::abs(wanted).max().item<float>();
    model.to(adjoint::kCUDA);
    const Tensor whole = resynthesized(model, sound, adjoint::kCUDA);
    EXPECT_LT(largest_difference(whole, wanted), 1e-3 * scale) << network;
    EXPECT_LT(largest_difference(synthesize(model, sound, adjoint::kCUDA, 700), whole), 1e-4 * scale) << network;
  }
}

TEST(Vocoder, LatencyIsNoLargerThanItMustBe) {
  const Generator model = small_generator("tiny", 16);
  StreamingVocoder vocoder(model);
  const Tensor sound = made_sound(4, 16 * kHop, kRate).unsqueeze(0);
  std::int64_t most = 0;
  for (std::int64_t at = 0, made = 0; at < sound.size(-1); at += 64) {
    made += vocoder(sound.narrow(-1, at, 64).contiguous()).size(-1);
    most = std::max(most, at + 64 - made);
  }
  EXPECT_GT(most, vocoder.latency() - 64);
}

TEST(Vocoder, DiscriminatorsJudgeEveryPeriodAndScale) {
  adjoint::manual_seed(1);
  const Discriminators discriminators(2);
  const Tensor real = Tensor::randn({2, 1, 1001}), fake = Tensor::randn({2, 1, 1001});
  const Judgement a = discriminators(real), b = discriminators(fake);
  EXPECT_EQ(a.scores.size(), 8U);
  EXPECT_EQ(a.features.size(), 5U * 6U + 3U * 8U);
  EXPECT_EQ(a.scores[1].size(0), 2 * 3) << "columns of period 3";
  EXPECT_EQ(a.scores[5].size(0), 2);
  EXPECT_GT(feature_loss(a, b).item<float>(), 0.0F);
  EXPECT_EQ(feature_loss(a, a).item<float>(), 0.0F);
  // mean((1 - D(x))^2) / 2 + mean(D(G)^2) / 2, and mean((1 - D(G))^2) / 2.
  const std::vector<Tensor> of_real{Tensor::full({2, 3}, 0.5), Tensor::full({4}, 1.0)},
      of_fake{Tensor::full({2, 3}, 3.0), Tensor::full({4}, 0.0)};
  EXPECT_FLOAT_EQ(discriminator_loss(of_real, of_fake).item<float>(), 0.125F + 4.5F);
  EXPECT_FLOAT_EQ(generator_loss(of_fake).item<float>(), 2.0F + 0.5F);
}

TEST(Vocoder, PiecesOfShortSoundsHaveZerosAround) {
  adjoint::Generator generator(4);
  const std::vector<Sound> sounds{{"short", Tensor::full({1, 100}, 0.25)}, {"long", Tensor::full({1, 5000}, 0.25)}};
  const Pieces pieces(sounds, 1000, 7);
  EXPECT_EQ(pieces.size(), 7);
  int with_zeros = 0;
  for (int i = 0; i < 300; ++i) {
    const Tensor piece = pieces.get(i % 7, generator).input;
    ASSERT_EQ(piece.shape(), (Shape{1000}));
    const float peak = adjoint::abs(piece).max().item<float>();
    EXPECT_GE(peak, 0.099F);
    EXPECT_LE(peak, 0.951F);
    const auto nonzero = (piece != 0.0).to(adjoint::kFloat32).sum().item<float>();
    EXPECT_TRUE(nonzero == 100.0F || nonzero == 1000.0F) << nonzero;
    with_zeros += nonzero == 100.0F ? 1 : 0;
  }
  EXPECT_GT(with_zeros, 0);
  EXPECT_LT(with_zeros, 40) << "2 % of the samples";
}

TEST(Vocoder, EveryEighthSoundIsForTests) {
  const auto count = [](std::size_t n) {
    std::vector<Sound> sounds(n, {"", Tensor::zeros({1, 1})});
    const auto parts = split(sounds);
    return std::pair{parts.first.size(), parts.second.size()};
  };
  EXPECT_EQ(count(2), (std::pair<std::size_t, std::size_t>{1, 1}));
  EXPECT_EQ(count(5), (std::pair<std::size_t, std::size_t>{4, 1}));
  EXPECT_EQ(count(16), (std::pair<std::size_t, std::size_t>{14, 2}));
  EXPECT_ERROR(count(1), "at least 2 sounds");
}

class VocoderTool : public examples::ExampleTool {
 protected:
  VocoderTool() : ExampleTool("vocoder") {}

  Options small_options() const {
    Options options;
    options.generator = {.network = "tiny", .channels = 8, .sample_rate = 4000, .clock = 4};
    options.segment = 2048;
    options.discriminator_channels = 1;
    options.adversarial_from = 3;
    return options;
  }
  std::string small(const std::string& out, const std::string& more = "--steps 20 --test-every 10") const {
    return "train --batch 2 --network tiny --channels 8 --sample-rate 4000 --segment 2048 "
           "--discriminator-channels 1 --adversarial-from 3 --out '" +
           (folder_ / out).string() + "' " + more;
  }
  std::string path(const std::string& name) const { return " '" + (folder_ / name).string() + "' "; }
  nlohmann::json metrics(const std::string& out) const {
    return nlohmann::json::parse(std::ifstream(folder_ / out / "metrics.json"));
  }
};

TEST_F(VocoderTool, TrainsAndMakesSound) {
  ASSERT_EQ(run(small("out")), 0) << output_;
  const auto json = metrics("out");
  ASSERT_EQ(json["curve"].size(), 3U) << "before the first step, at 10 and at 20";
  EXPECT_NE(json["stft_distance"], json["untrained"]["stft_distance"]);
  for (const int i : {1, 2}) EXPECT_GT(json["curve"][i]["discriminator_loss"], 0.0) << "they take part from step 3 on";
  EXPECT_GT(json["baselines"]["Griffin-Lim"], 0.0);
  EXPECT_GT(json["real_time_factor"], 0.0);
  EXPECT_GT(json["latency_samples"], 0);
  EXPECT_EQ(json["level"]["vocoder"]["clipped"], 0.0);
  for (const char* name : {"model.safetensors", "sounds/1_original.wav", "sounds/4_griffin_lim.wav", "curves.png"})
    EXPECT_TRUE(fs::exists(folder_ / "out" / name)) << name;
  const Generator model = load_model(folder_ / "out" / "model.safetensors");
  EXPECT_EQ(model.options().sample_rate, 4000);

  ASSERT_EQ(run("evaluate" + path("out/model.safetensors")), 0) << output_;
  EXPECT_NE(output_.find("voice 5"), std::string::npos) << output_;
  EXPECT_NE(output_.find("mean\n"), std::string::npos) << output_;
  if (!can_read_sound()) return;

  write_sound(folder_ / "in.wav", made_sound(0, 6001, 8000), 8000);
  ASSERT_EQ(run("synthesize" + path("out/model.safetensors") + path("in.wav") + path("whole.wav") + "--spectrogram" +
                path("both.png")),
            0)
      << output_;
  ASSERT_EQ(run("stream" + path("out/model.safetensors") + path("in.wav") + path("chunks.wav") + "--chunk 100"), 0)
      << output_;
  EXPECT_NE(output_.find("latency"), std::string::npos) << output_;
  const Tensor whole = read_sound(folder_ / "whole.wav", 4000).samples,
               chunks = read_sound(folder_ / "chunks.wav", 4000).samples;
  ASSERT_EQ(whole.shape(), (Shape{1, 3001}));
  ASSERT_EQ(chunks.shape(), (Shape{1, 3001}));
  EXPECT_LE(largest_difference(whole, chunks), 2.0 / 32768.0) << "a step of 16 bits, at most";
  EXPECT_TRUE(fs::exists(folder_ / "both.png"));
}

TEST_F(VocoderTool, ALoadedModelIsWhatWasTrained) {
  adjoint::manual_seed(5);
  const Generator model(small_options().generator);
  save_model(folder_ / "model.safetensors", model);
  const Tensor mel = Tensor::randn({1, kMels, 3});
  EXPECT_LT(largest_difference(load_model(folder_ / "model.safetensors")(mel), model(mel)), 1e-6);
}

TEST_F(VocoderTool, GoesOnToTheBit) {
  const Options options = small_options();
  CLI::App app;
  examples::Settings settings("vocoder", app);
  const examples::Run run{.program = "vocoder", .device = adjoint::kCPU, .steps = 6, .batch = 2, .test_every = 4};
  examples::expect_same_training(examples::trained<Trainer>(options, run, settings, {}, folder_ / "whole"),
                                 examples::trained<Trainer>(options, run, settings, {2, 5}, folder_ / "resumed"));
}

TEST_F(VocoderTool, DiscriminatorsLearnFromTheirStepOn) {
  const Options options = small_options();
  CLI::App app;
  examples::Settings settings("vocoder", app);
  const examples::Run run{.program = "vocoder", .device = adjoint::kCPU, .steps = 5, .batch = 2, .test_every = 9};
  const auto at_step = [&](std::int64_t stop) {
    examples::RunFolder folder("vocoder", folder_ / std::to_string(stop));
    adjoint::manual_seed(1);
    Trainer trainer(options, run);
    examples::Loop loop(trainer, run, settings);
    loop.run(folder, [&] { return loop.steps_done() >= stop; });
    std::pair<std::vector<float>, std::vector<float>> parameters;
    for (const auto& [name, tensor] : adjoint::nn::load_safetensors(folder / examples::Loop::kCheckpoint).tensors) {
      if (!name.ends_with("weight_v")) continue;
      const auto values = tensor.to_vector<float>();
      auto& of = name.starts_with("generator.") ? parameters.first : parameters.second;
      of.insert(of.end(), values.begin(), values.end());
    }
    return parameters;
  };
  const auto before = at_step(0), begun = at_step(options.adversarial_from), after = at_step(5);
  ASSERT_FALSE(before.second.empty());
  EXPECT_NE(before.first, begun.first);
  EXPECT_EQ(before.second, begun.second) << "what the generator learns from leaves them alone";
  EXPECT_NE(begun.first, after.first);
  EXPECT_NE(begun.second, after.second);
}

TEST_F(VocoderTool, AFolderIsTrainedOnAndWhatIsBrokenInItIsTold) {
  if (!can_read_sound()) GTEST_SKIP() << "no libsndfile in this build";
  const fs::path sounds = folder_ / "sounds";
  fs::create_directories(sounds / "more");
  for (std::uint64_t i = 0; i < 4; ++i)
    write_sound(sounds / ("more/" + std::to_string(i) + ".flac"), made_sound(i, 3000, kRate), kRate);
  write_sound(sounds / "stereo.wav", Tensor::randn({2, 900}) * 0.1, 4000);
  write_sound(sounds / "silent.wav", Tensor::zeros({900}), 4000);
  std::ofstream(sounds / "broken.wav") << "RIFF cut";
  std::ofstream(sounds / "empty.ogg");
  std::ofstream(sounds / "notes.txt") << "no sound";
  ASSERT_EQ(run_interrupted(small("out", "--steps 1000000 --test-every 2 --sounds") + path("sounds")), 130) << output_;
  for (const char* name : {"broken.wav", "empty.ogg", "silent.wav"})
    EXPECT_NE(output_.find(name), std::string::npos) << output_;
  EXPECT_EQ(output_.find("notes.txt"), std::string::npos) << output_;
  EXPECT_NE(output_.find("trained on 4 sounds, tested on 1 others"), std::string::npos) << output_;
  write_sound(sounds / "more" / "0.flac", made_sound(9, 3000, kRate), kRate);
  EXPECT_EQ(run("train --resume --out" + path("out")), 1) << output_;
  EXPECT_NE(output_.find("it was trained on other sounds"), std::string::npos) << output_;
  ASSERT_EQ(run(small("other", "--steps 1 --sounds") + path("sounds/more") + "--tests" + path("sounds")), 0) << output_;
  EXPECT_NE(output_.find("trained on 4 sounds, tested on 5 others"), std::string::npos) << output_;
}

TEST_F(VocoderTool, BadInputIsNamedInOneLine) {
  std::ofstream(folder_ / "file.wav") << "no sound";
  fs::create_directories(folder_ / "none");
  adjoint::manual_seed(1);
  save_model(folder_ / "good.safetensors", Generator(small_options().generator));
  adjoint::nn::save_safetensors(folder_ / "cut.safetensors", adjoint::NamedTensors{},
                                {{"architecture", "adjoint vocoder"}, {"options", "{\"network\": \"tiny\"}"}});
  adjoint::nn::save_safetensors(folder_ / "other.safetensors", adjoint::NamedTensors{}, {});
  const std::string good = path("good.safetensors"), in = path("file.wav"), out = path("out.wav");
  std::vector<std::pair<std::string, std::string>> cases{
      {"train --segment 2049 --out" + path("o"), "--segment must be a multiple of 256; got 2049"},
      {"train --network v2 --channels 8 --out" + path("o"), "channels must be a multiple of 16"},
      {small("o", "--steps 1 --tests") + path("none"), "--tests must come with --sounds"},
      {small("o", "--steps 1 --sounds") + path("none"), "none"},
      {"evaluate" + path("absent.safetensors"), "absent.safetensors"},
      {"evaluate" + path("other.safetensors"), "other.safetensors"},
      {"evaluate" + path("cut.safetensors"), "cut.safetensors"},
      {"evaluate" + good + "--sounds" + path("none"), "none"},
      {"synthesize" + good + in + path("out.mp3"), "out.mp3"},
      {"synthesize" + good + in + out + "--spectrogram" + path("both.gif"), "both.gif"},
      {"synthesize" + good + in + out, "file.wav"},
      {"stream" + good + in + out, "file.wav"},
      {"stream" + good + in + out + "--chunk 0", "--chunk must be from 1"},
      {small("o", "--device cuda:99"), "--device must be cpu or one of the "}};
  for (const auto& [arguments, wanted] : cases) {
    EXPECT_EQ(run(arguments), 1) << arguments << '\n' << output_;
    EXPECT_EQ(lines(), 1) << arguments << '\n' << output_;
    EXPECT_NE(output_.find(wanted), std::string::npos) << arguments << '\n' << output_;
  }
  EXPECT_EQ(run("train --network v9"), 1) << output_;
  EXPECT_NE(output_.find("--network must be one of v1, v2, v3, tiny"), std::string::npos) << output_;
  EXPECT_FALSE(fs::exists(folder_ / "out.wav"));
}

}  // namespace
}  // namespace vocoder
