#include "trainer.h"

#include "apply.h"

#include "common/memory_format.h"

#include <adjoint/data/image.h>
#include <adjoint/ops/loss/loss.h>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace diffusion {
namespace {

namespace data = adjoint::data;
using adjoint::Tensor;
using examples::great_circles;
using examples::tiled;

constexpr std::uint64_t kCompareSeed = 1, kShowSeed = 2;
constexpr std::int64_t kShown = 64, kShownColumns = 8, kShownRows = 4;

}  // namespace

void Options::add_to(examples::Settings& settings) {
  settings.add("--images", images, "Folder of pictures, MNIST or CIFAR-10 (default: drawn pictures)");
  settings.add("--drawn", drawn, "Drawn pictures: shapes or digits; the measuring classifier learns them")
      .choices(examples::drawn_sets());
  settings.add("--features", features, "Channels at 32 x 32 pixels, a multiple of 8").range(8, 1024).quick(16);
  settings.add("--heads", heads, "Heads of the attention").range(1, 256).quick(2);
  settings.add("--ema", ema, "Decay of the network's moving average per step").range(0.0, 0.999999).quick(0.995);
  settings.add("--sampling-steps", sampling_steps, "Steps from noise to a picture").range(1, kTimes).quick(15);
  settings.add("--compared", compared, "Pictures per test").range(2, 100000).quick(256);
  settings.add("--classifier-steps", classifier_steps, "Steps to train the measuring classifier").range(1, 100000);
}

Trainer::Trainer(const Options& options, const examples::Run& run)
    : run_(run),
      options_(options),
      arithmetic_(run.precision),
      source_("diffusion", options.images, options.drawn, run.batch * std::min<std::int64_t>(run.test_every, 1000),
              false),
      noising_(run.device),
      model_({.features = options.features, .heads = options.heads}),
      parallel_(examples::placed(model_, run.device, run.memory_format)),
      adam_(model_.parameters(), {.lr = run.lr}),
      ema_(model_, {.decay = options.ema, .warmup = true}),
      loader_(*source_.training, {.batch_size = run.batch, .workers = 1, .seed = run.data_seed, .device = run.device}),
      measure_(source_, options.classifier_steps, options.compared, run.device) {
  ema_.update();  // for the test before the first step
}

void Trainer::add_to(examples::State& state) {
  state.add("model", model_);
  state.add("adam", adam_);
  state.add("arithmetic", arithmetic_);
  state.add("ema", ema_);
  state.add("loader", loader_);
  measure_.add_to(state);
  state.require("fingerprint", source_.fingerprint, "it was trained on other pictures");
}

std::string Trainer::description() const {
  return fmt::format("{} parameters, {} sampling steps; trained on {}", model_.num_parameters(),
                     options_.sampling_steps, source_.description());
}

std::vector<Tensor> Trainer::next() {
  for (;;) {
    const auto batch = loader_.next();
    if (!batch) continue;  // an epoch's end
    const Tensor pictures = examples::in_format(batch->input, run_.memory_format);
    const Tensor noise = Tensor::randn(pictures.shape(), {.device = run_.device});
    return {pictures, examples::in_format(noise, run_.memory_format),
            adjoint::randint(kTimes, {pictures.size(0)}, {.device = run_.device})};
  }
}

std::vector<Tensor> Trainer::step(const std::vector<Tensor>& batch) {
  const Tensor &pictures = batch[0], &noise = batch[1], &times = batch[2];
  const Noisy noisy = noising_(pictures, noise, times);
  const Tensor loss = arithmetic_.minimise(adam_, [&] {
    return adjoint::mse_loss(parallel_(noisy.pictures, times).to(noise.dtype()), noisy.velocity);
  });
  ema_.update();
  return {loss};
}

Tensor Trainer::averaged(const Tensor& noise) {
  const auto guard = ema_.apply();
  model_.eval();
  Tensor pictures = generate(model_, noise, options_.sampling_steps, run_.device);
  model_.train();
  return pictures;
}

examples::Values Trainer::test(const examples::Moment& moment) {
  const double distance = measure_.distance(averaged(picture_noise(kCompareSeed, measure_.count())));
  const Tensor grid = tiled(averaged(picture_noise(kShowSeed, kShown)), kShownColumns);
  std::filesystem::create_directories(moment.folder / "samples");
  data::write_png(moment.folder / fmt::format("samples/{:07}.png", moment.step), grid);
  moment.log.add_image("samples", grid, moment.step);
  return {{"frechet_distance", distance}};
}

void Trainer::finish(const examples::Moment& moment, nlohmann::ordered_json& metrics) {
  metrics["classifier_accuracy"] = measure_.accuracy();
  metrics["parameters"] = model_.num_parameters();
  const Tensor noise = picture_noise(kShowSeed, kShown);
  data::write_png(moment.folder / "samples.png", tiled(averaged(noise), kShownColumns));
  data::write_png(moment.folder / "interpolation.png",
                  tiled(averaged(great_circles(noise, kShownRows, kShownColumns)), kShownColumns));
  const auto guard = ema_.apply();
  save_model(moment.folder / "model.safetensors", model_);
}

}  // namespace diffusion
