// gan: trains a generator of small pictures against a discriminator, and makes pictures with it.
#include "sample.h"
#include "trainer.h"

#include "common/export.h"
#include "common/memory_format.h"
#include "common/output.h"
#include "common/program.h"

#include <adjoint/core/base/error.h>
#include <adjoint/data/image.h>

#include <fmt/format.h>

#include <memory>
#include <string>

namespace gan {
namespace {

namespace data = adjoint::data;
using adjoint::Tensor;
using examples::great_circles;
using examples::noise_of;
using examples::tiled;

struct SampleOptions {
  std::string model, to;
  std::int64_t count = 64, columns = 8, rows = 4, steps = 10;
  std::uint64_t seed = 1;
};

void check(const char* option, std::int64_t value) {
  constexpr std::int64_t kMost = 10'000;
  if (value < 1 || value > kMost)
    throw adjoint::Error(fmt::format("gan: {} must be from 1 to {}; got {}", option, kMost, value));
}

void sample(const SampleOptions& options, adjoint::Device device, adjoint::MemoryFormat format) {
  check("--count", options.count);
  check("--columns", options.columns);
  examples::check_output("gan", options.to);
  Generator model = load_model(options.model);
  examples::placed(model, device, format);
  const Tensor noise = noise_of(options.seed, options.count, model.options().latent);
  data::write_image(options.to, tiled(generate(model, noise, device), options.columns));
}

void interpolate(const SampleOptions& options, adjoint::Device device, adjoint::MemoryFormat format) {
  check("--rows", options.rows);
  check("--steps", options.steps);
  examples::check_output("gan", options.to);
  Generator model = load_model(options.model);
  examples::placed(model, device, format);
  const Tensor noise = noise_of(options.seed, 2 * options.rows, model.options().latent);
  const Tensor pictures = generate(model, great_circles(noise, options.rows, options.steps), device);
  data::write_image(options.to, tiled(pictures, options.steps));
}

void add_common(CLI::App& verb, SampleOptions& options) {
  verb.add_option("model", options.model, "model.safetensors of a training")->required();
  verb.add_option("output", options.to, "PNG or JPEG file to write")->required();
  verb.add_option("--seed", options.seed, "Seed of the random numbers")->capture_default_str();
}

}  // namespace
}  // namespace gan

int main(int argc, char** argv) {
  using namespace gan;
  examples::Program program("gan", "Trains a network that makes small pictures from noise.");
  program.add_memory_format();
  Options options;
  program.defaults().lr = 5e-4;
  program.defaults().steps = 10000;
  program.defaults().batch = 64;
  program.defaults().test_every = 500;
  program.steps().quick(3000);
  options.add_to(program.settings());
  program.on_train([&](const examples::Run& run) { return std::make_unique<Trainer>(options, run); });

  SampleOptions sampling, walking;
  CLI::App& samples = program.verb("sample", "Make a grid of pictures",
                                   [&](adjoint::Device device) { sample(sampling, device, program.memory_format()); });
  add_common(samples, sampling);
  samples.add_option("--count", sampling.count, "Pictures")->capture_default_str();
  samples.add_option("--columns", sampling.columns, "Pictures per row")->capture_default_str();
  CLI::App& walks =
      program.verb("interpolate", "Make rows of pictures, each between two pictures",
                   [&](adjoint::Device device) { interpolate(walking, device, program.memory_format()); });
  add_common(walks, walking);
  walks.add_option("--rows", walking.rows, "Rows")->capture_default_str();
  walks.add_option("--steps", walking.steps, "Pictures per row")->capture_default_str();
  examples::add_export(program, [](const std::string& model, const std::string& to) {
    const Generator generator = load_model(model);
    examples::save_onnx(to, generator,
                        {.example = Tensor::zeros({1, generator.options().latent}),
                         .input = "noise",
                         .output = "pictures",
                         .axes = {{0, "batch"}}});
  });
  return program.main(argc, argv);
}
