#include "trainer.h"

#include "mel.h"
#include "stream.h"

#include "common/canvas.h"
#include "common/plot.h"
#include "common/tested.h"

#include <adjoint/core/base/error.h>
#include <adjoint/core/graph/graphed_step.h>
#include <adjoint/data/image.h>
#include <adjoint/ops/join/join.h>
#include <adjoint/ops/loss/loss.h>
#include <adjoint/ops/signal/loss.h>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <thread>
#include <utility>

namespace vocoder {
namespace {

namespace data = adjoint::data;
using adjoint::Tensor;

// The paper's weights of feature matching and of a least-squares loss without the factor 1/2. A third remains of its 45
// for the mel loss. Parallel WaveGAN's distance (multi_resolution_stft_loss) replaces the rest, because its finer
// resolutions teach pitch sooner.
constexpr double kMelWeight = 15.0, kStftWeight = 30.0, kFeatureWeight = 2.0, kAdversarialWeight = 2.0;
// A user's tests: the length of each one's middle that is tested, and their number at most.
constexpr std::int64_t kTestSeconds = 3, kMostTests = 32;
constexpr std::size_t kShown = 4;

std::vector<Sound> tests_of(const std::vector<Sound>& sounds, std::int64_t sample_rate) {
  std::vector<Sound> tests;
  const std::int64_t count = std::min<std::int64_t>(std::ssize(sounds), kMostTests);
  for (std::int64_t i = 0; i < count; ++i) {
    const Sound& sound = sounds[static_cast<std::size_t>(i * std::ssize(sounds) / count)];
    const std::int64_t length = sound.samples.size(-1), kept = std::min(length, kTestSeconds * sample_rate);
    tests.push_back({sound.name, sound.samples.narrow(-1, (length - kept) / 2, kept).contiguous()});
  }
  return tests;
}

/// The first ones, at most kShown.
std::vector<const Sound*> shown_of(const std::vector<Sound>& tests) {
  const std::size_t count = std::min(tests.size(), kShown);
  std::vector<const Sound*> shown;
  for (std::size_t i = 0; i < count; ++i) shown.push_back(&tests[i * tests.size() / count]);
  return shown;
}

int workers() { return std::clamp(static_cast<int>(std::thread::hardware_concurrency()) / 2, 1, 8); }

nlohmann::ordered_json json_of(const Level& level) {
  return {{"peak_db", level.peak_db}, {"rms_db", level.rms_db}, {"clipped", level.clipped}};
}

}  // namespace

void Options::add_to(examples::Settings& settings) {
  settings.add("--sounds", sounds, "Folder of WAV, FLAC or OGG files (default: generated sounds)");
  settings.add("--tests", tests, "Folder of sounds to test on (default: every eighth of --sounds)");
  settings.add("--sample-rate", generator.sample_rate, "Hz; sounds of other rates are resampled").range(4000, 96000);
  std::vector<std::string> names;
  for (const Network& network : networks()) names.push_back(network.name);
  settings.add("--network", generator.network, "HiFi-GAN's v1, v2 or v3, or a tiny one").choices(names).quick("tiny");
  settings.add("--channels", generator.channels, "Channels of the generator's first layer; 0: the default")
      .range(0, 4096);
  settings
      .add("--clock", generator.clock,
           "Period in frames of the clock beside the mel bands, which steady tones need; 0: no clock")
      .range(0, 256);
  settings.add("--segment", segment, "Samples per training example, a multiple of 256")
      .range(2048, 1 << 20)
      .quick(4096);
  settings.add("--discriminator-channels", discriminator_channels, "Channels of a discriminator's first layer")
      .range(1, 128)
      .quick(2);
  settings
      .add("--adversarial-from", adversarial_from,
           "First step with discriminators; before it only distances of spectrograms count; "
           "negative: counted from the end, at most a quarter of all steps")
      .range(-1'000'000'000, 1'000'000'000)
      .quick(-400);
}

Options Options::resolved(std::int64_t steps) const {
  Options all = *this;
  if (adversarial_from < 0)
    all.adversarial_from = steps - std::min(-adversarial_from, std::max<std::int64_t>(1, steps / 4));
  return all;
}

struct Trainer::Source {
  std::vector<Sound> sounds, tests;
  std::unique_ptr<data::Dataset> training;
  std::uint64_t fingerprint = 0;
  std::optional<Measured> griffin_lim;

  Source(const Options& options, const examples::Run& run) {
    const std::int64_t rate = options.generator.sample_rate, samples = options.segment + 2 * kMargin;
    const std::int64_t size = run.batch * std::min<std::int64_t>(run.test_every, 1000);
    if (options.sounds.empty()) {
      if (!options.tests.empty())
        throw adjoint::Error(fmt::format("vocoder: --tests must come with --sounds; got '{}' alone", options.tests));
      tests = made_tests(rate);
      tests.resize(static_cast<std::size_t>(examples::tested(std::ssize(tests))));
      training = std::make_unique<MadeSounds>(rate, samples, size);
      return;
    }
    std::vector<Sound> tested;
    sounds = read_sounds(options.sounds, rate);
    if (options.tests.empty())
      std::tie(sounds, tested) = split(std::move(sounds));
    else
      tested = read_sounds(options.tests, rate);
    fingerprint = vocoder::fingerprint(sounds) ^ (vocoder::fingerprint(tested) * 3);
    tests = tests_of(tested, rate);
    training = std::make_unique<Pieces>(sounds, samples, size);
  }
};

Trainer::Trainer(const Options& options, const examples::Run& run)
    : Trainer(options.resolved(run.steps), run, std::make_shared<Source>(options, run)) {}

Trainer::Trainer(const Options& options, const examples::Run& run, std::shared_ptr<Source> source)
    : run_(run),
      options_(options),
      arithmetic_(run.precision),
      source_(std::move(source)),
      generator_(options.generator),
      discriminators_(options.discriminator_channels),
      parallel_g_((generator_.to(run.device), generator_)),
      parallel_d_((discriminators_.to(run.device), discriminators_)),
      adam_g_(generator_.parameters(), {.lr = run.lr, .betas = {0.8, 0.99}}),
      adam_d_(discriminators_.parameters(), {.lr = run.lr, .betas = {0.8, 0.99}}),
      schedule_g_(adam_g_, {.T_max = run.steps, .warmup = {.steps = std::min<std::int64_t>(50, run.steps / 10)}}),
      schedule_d_(adam_d_, {.T_max = std::max<std::int64_t>(1, run.steps - options.adversarial_from)}),
      loader_(*source_->training,
              {.batch_size = run.batch, .workers = workers(), .seed = run.data_seed, .device = run.device}) {
  if (options.segment % kHop != 0)
    throw adjoint::Error(fmt::format("vocoder: --segment must be a multiple of {}; got {}", kHop, options.segment));
}

void Trainer::add_to(examples::State& state) {
  state.add("generator", generator_);
  state.add("discriminators", discriminators_);
  state.add("adam_g", adam_g_);
  state.add("adam_d", adam_d_);
  state.add("arithmetic", arithmetic_);
  state.add("schedule_g", schedule_g_);
  state.add("schedule_d", schedule_d_);
  state.add("loader", loader_);
  state.add("step", step_);
  state.require("fingerprint", source_->fingerprint, "it was trained on other sounds");
}

std::string Trainer::description() const {
  const std::string against =
      options_.adversarial_from < run_.steps
          ? fmt::format("from step {} on against {} parameters", options_.adversarial_from,
                        discriminators_.num_parameters())
          : fmt::format(
                "never against its discriminators, because --adversarial-from {} comes after the last "
                "of {} steps",
                options_.adversarial_from, run_.steps);
  return fmt::format("{} of {} parameters, {}; trained on {}, tested on {} others", options_.generator.network,
                     generator_.num_parameters(), against,
                     source_->sounds.empty() ? "made sounds" : fmt::format("{} sounds", source_->sounds.size()),
                     source_->tests.size());
}

std::vector<Tensor> Trainer::next() {
  for (;;) {
    if (auto batch = loader_.next()) return {batch->input};  // empty: an epoch's end
  }
}

Tensor Trainer::update_discriminators(const Tensor& real, const Tensor& fake) {
  return arithmetic_.minimise(adam_d_, [&] {
    const Judgement of_real = parallel_d_(real);  // a separate statement fixes the order
    return discriminator_loss(of_real.scores, parallel_d_(fake).scores);
  });
}

std::vector<Tensor> Trainer::step(const std::vector<Tensor>& batch) {
  const Tensor& sound = batch[0];
  const std::int64_t rate = options_.generator.sample_rate, segment = options_.segment;
  const Tensor front = sound.narrow(-1, 0, kMargin), behind = sound.narrow(-1, kMargin + segment, kMargin);
  const Tensor middle = sound.narrow(-1, kMargin, segment), mel = log_mel_inside(sound, rate);
  const Tensor real = middle.unsqueeze(1);
  const bool adversarial = phase() != 0;
  adjoint::GraphedStep::on_replay([this] { ++step_; });
  Tensor loss_mel, loss_d = Tensor::zeros({}, sound.options());
  const Tensor loss = arithmetic_.minimise(adam_g_, [&] {
    const Tensor fake = parallel_g_(mel).to(adjoint::kFloat32), made = fake.squeeze(1);
    // The original's surroundings make the loss of frames at both ends depend only on the generator's part.
    const Tensor of_mel = adjoint::l1_loss(log_mel_inside(adjoint::cat({front, made, behind}, -1), rate), mel);
    loss_mel = of_mel.detach();
    Tensor sum = kMelWeight * of_mel + kStftWeight * adjoint::multi_resolution_stft_loss(made, middle);
    if (!adversarial) return sum;
    // This step has a separate tape. The discriminators that judge the generator have then seen its present results.
    loss_d = update_discriminators(real, fake.detach());
    discriminators_.requires_grad_(false);  // the generator's step leaves no gradients there
    const Judgement of_real = parallel_d_(real), of_fake = parallel_d_(fake);
    sum = sum + kFeatureWeight * feature_loss(of_real, of_fake) + kAdversarialWeight * generator_loss(of_fake.scores);
    discriminators_.requires_grad_(true);
    return sum;
  });
  schedule_g_.step();
  if (adversarial) schedule_d_.step();
  return {loss, loss_mel, loss_d};
}

examples::Values Trainer::test(const examples::Moment& moment) {
  const std::int64_t rate = options_.generator.sample_rate;
  const std::vector<const Sound*> shown = shown_of(source_->tests);
  std::vector<Measured> all;
  for (const Sound& sound : source_->tests) {
    const Tensor made = resynthesized(generator_, sound.samples, run_.device);
    all.push_back({sound.name, distances(made, sound.samples, rate), {}});
    const auto at = std::find(shown.begin(), shown.end(), &sound);
    if (at == shown.end()) continue;
    const auto number = at - shown.begin() + 1;
    if (moment.step == 0) moment.log.add_audio(fmt::format("original/{}", number), sound.samples, 0, rate);
    moment.log.add_audio(fmt::format("vocoder/{}", number), made, moment.step, rate);
  }
  const Measured mean = mean_of(all);
  return {{"stft_distance", mean.model.stft}, {"mel_distance", mean.model.mel}};
}

examples::Values Trainer::baselines() const {
  if (!source_->griffin_lim) source_->griffin_lim = mean_of(measure(generator_, source_->tests, run_.device));
  return {{"Griffin-Lim", source_->griffin_lim->griffin_lim.stft}};
}

void Trainer::write_sounds(const examples::Moment& moment) const {
  const std::int64_t rate = options_.generator.sample_rate;
  std::filesystem::create_directories(moment.folder / "sounds");
  std::vector<std::vector<examples::GridCell>> rows;
  for (const Sound* sound : shown_of(source_->tests)) {
    const std::vector<std::pair<std::string, Tensor>> versions{{"original", sound->samples},
                                                               {"vocoder",
                                                                resynthesized(generator_, sound->samples, run_.device)},
                                                               {"griffin_lim",
                                                                by_griffin_lim(sound->samples, rate, run_.device)}};
    auto& row = rows.emplace_back();
    for (const auto& [name, samples] : versions) {
      const bool original = row.empty();
      write_sound(moment.folder / fmt::format("sounds/{}_{}.wav", rows.size(), name), samples, rate);
      row.push_back({spectrogram_picture(samples[0]),
                     original ? std::filesystem::path(sound->name).filename().string()
                              : fmt::format("STFT distance {:.3f}", distances(samples, sound->samples, rate).stft)});
    }
  }
  if (!examples::can_draw()) return;
  data::write_png(moment.folder / "spectrograms.png",
                  examples::picture_grid(rows, {.titles = {"original", "vocoder", "Griffin-Lim"}, .marked = 1}));
}

void Trainer::finish(const examples::Moment& moment, nlohmann::ordered_json& metrics) {
  const auto path = moment.folder / "model.safetensors";
  save_model(path, generator_);
  metrics["parameters"] = {{"generator", generator_.num_parameters()},
                           {"discriminators", discriminators_.num_parameters()}};
  baselines();
  metrics["baselines"]["Griffin-Lim mel_distance"] = source_->griffin_lim->griffin_lim.mel;
  Generator model = load_model(path);
  metrics["latency_samples"] = StreamingVocoder(model).latency();
  model.to(run_.device);
  const Sound& first = source_->tests.front();
  metrics["real_time_factor"] = real_time_factor(model, first.samples, run_.device);
  metrics["level"] = {{"original", json_of(level_of(first.samples))},
                      {"vocoder", json_of(level_of(resynthesized(model, first.samples, run_.device)))}};
  write_sounds(moment);
}

}  // namespace vocoder
