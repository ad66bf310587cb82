// diffusion: trains a network that takes the noise out of small pictures, and makes pictures from noise with it.
#include "apply.h"
#include "process.h"
#include "trainer.h"

#include "common/export.h"
#include "common/memory_format.h"
#include "common/output.h"
#include "common/program.h"
#include "common/squares.h"

#include <adjoint/core/base/error.h>
#include <adjoint/data/image.h>

#include <fmt/format.h>

#include <memory>
#include <string>

namespace diffusion {
namespace {

namespace data = adjoint::data;
using adjoint::Tensor;
using examples::great_circles;
using examples::tiled;

constexpr std::int64_t kExportedSteps = 20;

struct SampleOptions {
  std::string model, to;
  std::int64_t count = 64, columns = 8, rows = 4, steps = 50;
  std::uint64_t seed = 1;
};

void check(const char* option, std::int64_t value, std::int64_t most = 10'000) {
  if (value < 1 || value > most)
    throw adjoint::Error(fmt::format("diffusion: {} must be from 1 to {}; got {}", option, most, value));
}

/// Writes the pictures of `noise`, in rows of `columns`.
void write_pictures(const SampleOptions& options, const Tensor& noise, adjoint::Device device,
                    adjoint::MemoryFormat format) {
  Denoiser model = load_model(options.model);
  examples::placed(model, device, format);
  data::write_image(options.to, tiled(generate(model, noise, options.steps, device), options.columns));
}

void sample(const SampleOptions& options, adjoint::Device device, adjoint::MemoryFormat format) {
  check("--count", options.count);
  check("--columns", options.columns);
  check("--steps", options.steps, kTimes);
  examples::check_output("diffusion", options.to);
  write_pictures(options, picture_noise(options.seed, options.count), device, format);
}

void interpolate(const SampleOptions& options, adjoint::Device device, adjoint::MemoryFormat format) {
  check("--rows", options.rows, 1000);
  check("--columns", options.columns, 1000);
  check("--steps", options.steps, kTimes);
  examples::check_output("diffusion", options.to);
  const Tensor noise = picture_noise(options.seed, 2 * options.rows);
  write_pictures(options, great_circles(noise, options.rows, options.columns), device, format);
}

void add_common(CLI::App& verb, SampleOptions& options) {
  verb.add_option("model", options.model, "model.safetensors of a training")->required();
  verb.add_option("output", options.to, "PNG or JPEG file to write")->required();
  verb.add_option("--columns", options.columns, "Pictures per row")->capture_default_str();
  verb.add_option("--steps", options.steps, "Steps from noise to a picture")->capture_default_str();
  verb.add_option("--seed", options.seed, "Seed of the random numbers")->capture_default_str();
}

}  // namespace
}  // namespace diffusion

int main(int argc, char** argv) {
  using namespace diffusion;
  examples::Program program("diffusion", "Trains a network that makes small pictures from noise in several steps.");
  program.add_memory_format();
  Options options;
  program.defaults().lr = 2e-4;
  program.defaults().steps = 40000;
  program.defaults().batch = 128;
  program.defaults().test_every = 4000;
  program.steps().quick(2000);
  program.batch().quick(16);
  program.lr().quick(2e-3);
  program.test_every().quick(500);
  options.add_to(program.settings());
  program.on_train([&](const examples::Run& run) { return std::make_unique<Trainer>(options, run); });

  SampleOptions sampling, walking;
  CLI::App& samples = program.verb("sample", "Make a grid of pictures",
                                   [&](adjoint::Device device) { sample(sampling, device, program.memory_format()); });
  add_common(samples, sampling);
  samples.add_option("--count", sampling.count, "Pictures")->capture_default_str();
  CLI::App& walks =
      program.verb("interpolate", "Make rows of pictures, each between two pictures",
                   [&](adjoint::Device device) { interpolate(walking, device, program.memory_format()); });
  add_common(walks, walking);
  walks.add_option("--rows", walking.rows, "Rows")->capture_default_str();
  examples::add_export(program, [](const std::string& model, const std::string& to) {
    examples::save_onnx(to, Sampler(load_model(model), kExportedSteps),
                        {.example = Tensor::zeros({1, 3, examples::kPictureExtent, examples::kPictureExtent}),
                         .input = "noise",
                         .output = "pictures",
                         .axes = {{0, "batch"}}});
  });
  return program.main(argc, argv);
}
