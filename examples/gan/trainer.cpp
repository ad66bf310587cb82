#include "trainer.h"

#include "sample.h"

#include "common/memory_format.h"

#include <adjoint/core/base/error.h>
#include <adjoint/data/image.h>
#include <adjoint/ops/loss/gan.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

namespace gan {
namespace {

namespace data = adjoint::data;
using adjoint::Tensor;
using examples::great_circles;
using examples::noise_of;
using examples::tiled;

constexpr std::int64_t kCompared = 2048;  // generated and, of drawn ones, real ones
constexpr std::uint64_t kCompareSeed = 1, kShowSeed = 2;
constexpr std::int64_t kShown = 64, kShownColumns = 8, kShownRows = 4;
constexpr double kPenalty = 10.0;  // WGAN-GP's weight of its gradient penalty

}  // namespace

/// The parts that belong to a loss.
struct Trainer::Recipe {
  std::string name;
  adjoint::GanLoss loss;
  Normalisation normalisation;
  bool penalised;
  std::int64_t critic_steps;
  std::array<double, 2> betas;  // of Adam
};

// As in the papers: DCGAN; WGAN-GP; Zhang, Goodfellow, Metaxas, Odena: "Self-attention generative adversarial
// networks", 2019.
const Trainer::Recipe& Trainer::recipe_of(const std::string& loss) {
  static const std::array<Recipe, 3> recipes{{
      {"nonsaturating", adjoint::GanLoss::kNonSaturating, Normalisation::kBatch, false, 1, {0.5, 0.999}},
      {"wgan-gp", adjoint::GanLoss::kWasserstein, Normalisation::kNone, true, 5, {0.0, 0.9}},
      {"hinge", adjoint::GanLoss::kHinge, Normalisation::kSpectral, false, 1, {0.0, 0.9}},
  }};
  const auto* found = std::find_if(recipes.begin(), recipes.end(), [&](const Recipe& r) { return r.name == loss; });
  if (found == recipes.end())
    throw adjoint::Error(fmt::format("gan: --loss must be nonsaturating, wgan-gp or hinge; got '{}'", loss));
  return *found;
}

std::int64_t Trainer::critic_steps_of(const Options& options) {
  return options.critic_steps > 0 ? options.critic_steps : recipe_of(options.loss).critic_steps;
}

void Options::add_to(examples::Settings& settings) {
  settings.add("--images", images, "Folder of pictures, MNIST or CIFAR-10 (default: drawn pictures)");
  settings.add("--drawn", drawn, "Drawn pictures: shapes or digits; the measuring classifier learns them")
      .choices(examples::drawn_sets())
      .added();
  settings.add("--loss", loss, "nonsaturating (DCGAN), wgan-gp, or hinge (with spectral normalisation)")
      .choices({"nonsaturating", "wgan-gp", "hinge"});
  settings.add("--latent", latent, "Random numbers per picture").range(1, 1024);
  settings.add("--features", features, "Channels at 16 x 16 pixels").range(1, 1024).quick(16);
  settings.add("--critic-steps", critic_steps, "Updates of the discriminator per step; 0: 5 for wgan-gp, else 1")
      .range(0, 100);
  settings.add("--ema", ema, "Decay of the generator's moving average per step").range(0.0, 0.999999).quick(0.99);
  settings.add("--classifier-steps", classifier_steps, "Steps to train the measuring classifier").range(1, 100000);
}

Trainer::Trainer(const Options& options, const examples::Run& run)
    : run_(run),
      options_(options),
      recipe_(recipe_of(options.loss)),
      critic_steps_(critic_steps_of(options)),
      arithmetic_(run.precision),
      source_("gan", options.images, options.drawn,
              run.batch * critic_steps_ * std::min<std::int64_t>(run.test_every, 1000), false),
      generator_({.latent = options.latent, .features = options.features}),
      discriminator_(options.features, recipe_.normalisation),
      parallel_g_(examples::placed(generator_, run.device, run.memory_format)),
      parallel_d_(examples::placed(discriminator_, run.device, run.memory_format)),
      adam_g_(generator_.parameters(), {.lr = run.lr, .betas = recipe_.betas}),
      adam_d_(discriminator_.parameters(), {.lr = run.lr, .betas = recipe_.betas}),
      ema_(generator_, {.decay = options.ema, .warmup = true, .use_buffers = true}),
      loader_(*source_.training,
              {.batch_size = run.batch * critic_steps_, .workers = 1, .seed = run.data_seed, .device = run.device}),
      measure_(source_, options.classifier_steps, kCompared, run.device) {
  if (recipe_.normalisation == Normalisation::kBatch && run.batch < 2)
    throw adjoint::Error(
        fmt::format("gan: --batch must be at least 2 with --loss {}; got {}", recipe_.name, run.batch));
  ema_.update();  // for the test before the first step
}

void Trainer::add_to(examples::State& state) {
  state.add("generator", generator_);
  state.add("discriminator", discriminator_);
  state.add("adam_g", adam_g_);
  state.add("adam_d", adam_d_);
  state.add("arithmetic", arithmetic_);
  state.add("ema", ema_);
  state.add("loader", loader_);
  measure_.add_to(state);
  state.require("fingerprint", source_.fingerprint, "it was trained on other pictures");
}

std::string Trainer::description() const {
  return fmt::format("{} against {} parameters, {}, {} critic steps; trained on {}", generator_.num_parameters(),
                     discriminator_.num_parameters(), recipe_.name, critic_steps_, source_.description());
}

std::vector<Tensor> Trainer::next() {
  const std::int64_t real = run_.batch * critic_steps_;
  for (;;) {
    const auto batch = loader_.next();
    if (!batch) continue;  // an epoch's end
    const Tensor noise = Tensor::randn({real + run_.batch, options_.latent}, {.device = run_.device});
    return {examples::in_format(batch->input, run_.memory_format), noise,
            Tensor::rand({real}, {.device = run_.device})};
  }
}

std::vector<Tensor> Trainer::step(const std::vector<Tensor>& batch) {
  const std::int64_t n = run_.batch;
  Tensor loss_d;
  for (std::int64_t k = 0; k < critic_steps_; ++k) {
    const Tensor real = batch[0].narrow(0, k * n, n), u = batch[2].narrow(0, k * n, n);
    const Tensor fake = parallel_g_(batch[1].narrow(0, k * n, n));  // no tape records it
    loss_d = arithmetic_.minimise(adam_d_, [&] {
      const Tensor of_real = parallel_d_(real);  // a separate statement fixes the order
      const Tensor loss = adjoint::gan_discriminator_loss(recipe_.loss, of_real, parallel_d_(fake));
      if (!recipe_.penalised) return loss;
      return loss + kPenalty * adjoint::gradient_penalty(discriminator_, real, fake, {.u = u});
    });
  }
  // The generator's step leaves no gradients in the discriminator.
  discriminator_.requires_grad_(false);
  const Tensor loss_g = arithmetic_.minimise(adam_g_, [&] {
    const Tensor fake = parallel_g_(batch[1].narrow(0, critic_steps_ * n, n));
    return adjoint::gan_generator_loss(recipe_.loss, parallel_d_(fake));
  });
  discriminator_.requires_grad_(true);
  ema_.update();
  return {loss_g, loss_d};
}

Tensor Trainer::averaged(const Tensor& noise) {
  const auto guard = ema_.apply();
  generator_.eval();
  Tensor pictures = generate(generator_, noise, run_.device);
  generator_.train();
  return pictures;
}

examples::Values Trainer::test(const examples::Moment& moment) {
  const double distance = measure_.distance(averaged(noise_of(kCompareSeed, measure_.count(), options_.latent)));
  const Tensor grid = tiled(averaged(noise_of(kShowSeed, kShown, options_.latent)), kShownColumns);
  std::filesystem::create_directories(moment.folder / "samples");
  data::write_png(moment.folder / fmt::format("samples/{:07}.png", moment.step), grid);
  moment.log.add_image("samples", grid, moment.step);
  return {{"frechet_distance", distance}};
}

void Trainer::finish(const examples::Moment& moment, nlohmann::ordered_json& metrics) {
  metrics["classifier_accuracy"] = measure_.accuracy();
  metrics["parameters"] = {{"generator", generator_.num_parameters()},
                           {"discriminator", discriminator_.num_parameters()}};
  const Tensor noise = noise_of(kShowSeed, kShown, options_.latent);
  data::write_png(moment.folder / "samples.png", tiled(averaged(noise), kShownColumns));
  data::write_png(moment.folder / "interpolation.png",
                  tiled(averaged(great_circles(noise, kShownRows, kShownColumns)), kShownColumns));
  const auto guard = ema_.apply();
  save_model(moment.folder / "model.safetensors", generator_);
}

}  // namespace gan
