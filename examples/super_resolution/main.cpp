// super_resolution: trains a network that doubles the size of pictures, enlarges pictures with it, and measures it.
#include "pictures.h"
#include "progress.h"
#include "report.h"
#include "run_folder.h"
#include "training.h"
#include "upscale.h"

#include <adjoint/core/error.h>
#include <adjoint/data/image.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <csignal>
#include <ctime>
#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <utility>

namespace super_resolution {
namespace {

namespace fs = std::filesystem;

constexpr int kFailed = 1, kUsage = 2, kSignal = 128;  // a shell's exit code of a program that a signal ended

volatile std::sig_atomic_t interrupted = 0;  // the signal that did
std::timespec first_interrupt{};

/// The first asks the training to stop and save; one that comes a second or more later ends the program at once. One
/// key press can come twice: programs such as timeout signal their child and then its whole process group.
void on_interrupt(int signal) {
  std::timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (interrupted == 0) {
    first_interrupt = now;
    interrupted = signal;
  } else if (now.tv_sec - first_interrupt.tv_sec > 1) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
}

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
}

int train(const TrainingOptions& options, bool resumed, const fs::path& out) {
  const adjoint::Device device = adjoint::default_device();
  const RunFolder folder(out);
  catch_interrupts();
  const auto trainer =
      resumed ? Trainer::resume(folder.checkpoint(), device) : std::make_unique<Trainer>(options, device);
  if (!resumed) {
    // From here on the folder is this training's: --resume goes on with it, however early it is interrupted.
    trainer->save(folder.checkpoint());
    folder.remove_results();
  }
  fmt::print("{} parameters on {}; tested on {} pictures that it is not trained on: bicubic {:.2f} dB\n",
             trainer->model().num_parameters(), to_string(device), trainer->validation().size(),
             trainer->bicubic_psnr());
  bool finished = false;
  {
    Progress progress;
    finished = trainer->run(folder.checkpoint(), progress, [] { return interrupted != 0; });
  }
  if (!finished) {
    fmt::print("Interrupted after step {}. To go on: super_resolution train --resume --out {}\n", trainer->steps_done(),
               out.string());
    return kSignal + interrupted;
  }
  save_model(folder.model(), trainer->model());
  write_metrics(folder.metrics(), *trainer);
  write_curves(folder.curves(), *trainer);
  write_comparison(folder.comparison(), *trainer);
  const double psnr = trainer->curve().back().psnr;
  fmt::print("PSNR {:.2f} dB, {:+.2f} dB over bicubic, after {:.0f} seconds. Wrote:\n", psnr,
             psnr - trainer->bicubic_psnr(), trainer->seconds());
  for (const fs::path& path : {folder.model(), folder.comparison(), folder.curves(), folder.metrics()})
    fmt::print("  {}\n", path.string());
  return 0;
}

int enlarge(const fs::path& model_path, const fs::path& from, const fs::path& to) {
  const adjoint::Device device = adjoint::default_device();
  Model model = load_model(model_path);
  model.to(device);
  const adjoint::Tensor low = adjoint::data::read_image(from);
  adjoint::data::write_image(to, upscale(model, low, device));
  fmt::print("{}: {} x {} pixels\n", to.string(), kScale * low.size(2), kScale * low.size(1));
  return 0;
}

int evaluate(const fs::path& model_path, const fs::path& images) {
  const adjoint::Device device = adjoint::default_device();
  Model model = load_model(model_path);
  model.to(device);
  const auto paths = adjoint::data::list_images(images);
  if (paths.empty())
    throw adjoint::Error(fmt::format("super_resolution: '{}' holds no PNG or JPEG file", images.string()));
  const PictureSet pictures = PictureSet::of_files(paths);
  Quality mean;
  fmt::print("{:>10} {:>10} {:>7}  picture\n", "bicubic", "Adjoint", "gain");
  const auto row = [](const Quality& q, const std::string& name) {
    fmt::print("{:>7.2f} dB {:>7.2f} dB {:>+7.2f}  {}\n", q.bicubic, q.adjoint, q.adjoint - q.bicubic, name);
  };
  for (std::int64_t i = 0; i < pictures.size(); ++i) {
    const Quality quality = measure(model, luma_pair(pictures.rgb(i)), device);
    mean.bicubic += quality.bicubic / static_cast<double>(pictures.size());
    mean.adjoint += quality.adjoint / static_cast<double>(pictures.size());
    row(quality, pictures.name(i));
  }
  row(mean, fmt::format("mean of {}", pictures.size()));
  return 0;
}

int run(int argc, char** argv) {
  CLI::App app("Doubles the size of pictures with a small network, and trains it.", "super_resolution");
  app.require_subcommand(1);

  TrainingOptions options;
  bool resumed = false;
  std::string out = "out/super_resolution";
  CLI::App* training = app.add_subcommand("train", "Train a model, and compare it with bicubic interpolation");
  const auto option = [&](const char* name, auto& value, const char* text) {
    return training->add_option(name, value, text)->capture_default_str();
  };
  const std::vector<CLI::Option*> settings{
      training->add_option("--images", options.images,
                           "Folder of PNG or JPEG pictures to train on (made ones, where not given)"),
      training->add_option("--val", options.validation,
                           "Folder of pictures to test on (where not given, every eighth of --images)"),
      option("--steps", options.steps, "Steps of the optimiser"),
      option("--batch", options.batch, "Patches a step"),
      option("--patch", options.patch, "A patch's extent, in low-resolution pixels"),
      option("--lr", options.lr, "Highest learning rate"),
      option("--seed", options.seed, "Of initial values, order and patches"),
      option("--features", options.model.features, "Channels of the network"),
      option("--layers", options.model.layers, "Inner convolutions of the network"),
      option("--test-every", options.test_every, "Steps between two tests"),
  };
  settings[1]->needs(settings[0]);
  option("--out", out, "Folder for what is written");
  CLI::Option* resume =
      training->add_flag("--resume", resumed, "Go on with the interrupted run in --out, with its settings");
  for (CLI::Option* setting : settings) resume->excludes(setting);

  std::string model, from, to, images;
  CLI::App* enlarging = app.add_subcommand("upscale", "Double the size of a picture");
  enlarging->add_option("model", model, "model.safetensors of a training")->required();
  enlarging->add_option("input", from, "PNG or JPEG file")->required();
  enlarging->add_option("output", to, "PNG or JPEG file to write")->required();

  CLI::App* evaluating = app.add_subcommand("eval", "Measure a model on pictures: halve them, enlarge them, compare");
  evaluating->add_option("--images", images, "Folder of PNG or JPEG pictures")->required();
  evaluating->add_option("--model", model,
                         "model.safetensors of a training (where not given, that of the default --out)");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsage;
  }
  for (const auto& [setting, value] : {std::pair(settings[0], &options.images), {settings[1], &options.validation}}) {
    if (setting->count() > 0 && value->empty())
      throw adjoint::Error(fmt::format("super_resolution: {} must name a folder; got ''", setting->get_name()));
  }
  if (*training) return train(options, resumed, out);
  if (*enlarging) return enlarge(model, from, to);
  return evaluate(model.empty() ? out + "/model.safetensors" : model, images);
}

}  // namespace
}  // namespace super_resolution

int main(int argc, char** argv) {
  try {
    return super_resolution::run(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fflush(stdout);
    fmt::print(stderr, "super_resolution: out of memory; use a smaller --batch, --patch or --features\n");
    return super_resolution::kFailed;
  } catch (const std::exception& error) {
    std::fflush(stdout);
    fmt::print(stderr, "{}\n", error.what());
    return super_resolution::kFailed;
  }
}
