// amp: trains a model of a guitar amplifier, and runs it block by block as a plug-in does.
#include "apply.h"
#include "trainer.h"

#include "common/export.h"
#include "common/output.h"
#include "common/program.h"
#include "common/sounds.h"

#include <adjoint/core/base/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

namespace amp {
namespace {

using adjoint::Tensor;

struct ProcessOptions {
  std::string model = "out/amp/model.safetensors", from, to, target;
  std::int64_t block = 64;
};

void report_times(std::vector<double> times, double length, double block_ms, std::int64_t block) {
  const double sum = std::accumulate(times.begin(), times.end(), 0.0);
  std::sort(times.begin(), times.end());
  fmt::print("{:.2f} seconds of sound in {:.2f}: real-time factor {:.3f}\n", length, sum, sum / length);
  fmt::print("a block of {} samples lasts {:.3f} ms and took {:.3f} ms in the median, {:.3f} ms at most\n", block,
             block_ms, 1e3 * times[times.size() / 2], 1e3 * times.back());
}

void process_file(const ProcessOptions& options) {
  examples::check_output("amp", options.to, examples::sound_extensions());
  const Amp model = load_model(options.model);
  const std::int64_t rate = model.options().sample_rate;
  const Tensor sound = examples::read_sound(options.from, rate).samples;
  Tensor target;
  if (!options.target.empty()) {
    target = examples::read_sound(options.target, rate).samples;
    if (target.shape() != sound.shape()) {
      throw adjoint::Error(fmt::format("amp: --target must have the input's channels and samples at {} Hz, {}; got {}",
                                       rate, to_string(sound.shape()), to_string(target.shape())));
    }
  }
  std::vector<double> times;
  const Tensor made = processed(model, sound, options.block, times);
  examples::write_sound(options.to, made, rate);
  const auto per_second = static_cast<double>(rate);
  report_times(times, static_cast<double>(sound.size(1)) / per_second,
               1e3 * static_cast<double>(options.block) / per_second, options.block);
  if (target.defined()) {
    fmt::print("error-to-signal ratio {:.4f}, of the input itself {:.4f}\n", error_to_signal(made, target),
               error_to_signal(sound, target));
  }
}

}  // namespace
}  // namespace amp

int main(int argc, char** argv) {
  using namespace amp;
  examples::Program program("amp", "Trains a model of a guitar amplifier, and runs it block by block.");
  Options options;
  program.defaults().lr = 4e-3;
  program.defaults().steps = 20000;
  program.defaults().batch = 16;
  program.defaults().test_every = 1000;
  program.steps().quick(1500);
  program.batch().quick(8);
  program.test_every().quick(300);
  options.add_to(program.settings());
  program.on_train([&](const examples::Run& run) { return std::make_unique<Trainer>(options, run); });

  ProcessOptions file;
  CLI::App& processing = program.verb("process", "Run a sound file through a model in blocks, on the CPU",
                                      [&](adjoint::Device) { process_file(file); });
  processing.add_option("input", file.from, "WAV, FLAC or OGG file")->required();
  processing.add_option("--output", file.to, "WAV, FLAC or OGG file to write, at the model's sample rate")->required();
  processing.add_option("--model", file.model, "model.safetensors of a training")->capture_default_str();
  processing.add_option("--block", file.block, "Samples per block")->capture_default_str();
  processing.add_option("--target", file.target, "File of the sound that should come out, to measure the error");
  examples::add_export(program, [](const std::string& path, const std::string& to) {
    examples::save_onnx(to, load_model(path),
                        {.example = Tensor::zeros({1, 1, 4096}),
                         .input = "sound",
                         .output = "amplified",
                         .axes = {{0, "batch"}, {2, "samples"}}});
  });
  return program.main(argc, argv);
}
