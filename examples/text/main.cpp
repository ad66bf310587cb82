// text: trains a transformer that predicts the next byte of a text, and lets it write.
#include "apply.h"
#include "corpus.h"
#include "trainer.h"

#include "common/export.h"
#include "common/program.h"

#include <adjoint/core/base/error.h>

#include <fmt/format.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace text {
namespace {

using adjoint::Tensor;

Gpt model_on(const std::string& path, adjoint::Device device) {
  Gpt model = load_model(path);
  model.to(device);
  return model;
}

/// Writes the text to standard output, byte for byte, and ends the line.
void write_sample(const std::string& model, const std::string& prompt, const SampleOptions& options,
                  adjoint::Device device) {
  options.check();
  const std::string text = sample(model_on(model, device), prompt, options, device) + '\n';
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw adjoint::Error("text: cannot write to standard output");
}

void evaluate(const std::string& path, const std::vector<std::string>& files, adjoint::Device device) {
  const Gpt model = model_on(path, device);
  for (const std::string& file : files) {
    const Tensor text = read_text({file});
    fmt::print("{:.3f} bits per byte, order 0 {:.3f}, {} bytes  {}\n", bits_per_byte(model, text, device),
               order_0(text, text), text.numel(), file);
  }
}

}  // namespace
}  // namespace text

int main(int argc, char** argv) {
  using namespace text;
  examples::Program program("text", "Trains a transformer that predicts the next byte of a text, and lets it write.");
  Options options;
  program.defaults().lr = 1e-3;
  program.defaults().steps = 5000;
  program.defaults().batch = 64;
  program.defaults().test_every = 500;
  program.steps().quick(3500);
  program.batch().quick(4);
  program.lr().quick(2e-3);
  program.test_every().quick(700);
  options.add_to(program.settings());
  program.on_train([&](const examples::Run& run) { return std::make_unique<Trainer>(options, run); });

  std::string model, prompt = "\n";
  SampleOptions sampling;
  const auto verb = [&](const char* name, const char* text, std::function<void(adjoint::Device)> action) {
    CLI::App& app = program.verb(name, text, std::move(action));
    app.add_option("model", model, "model.safetensors of a training")->required();
    return &app;
  };
  CLI::App* app = verb("sample", "Write text that continues a prompt",
                       [&](adjoint::Device device) { write_sample(model, prompt, sampling, device); });
  app->add_option("--prompt", prompt, "Text to continue (default: a new line)");
  app->add_option("--length", sampling.length, "Bytes to write behind it")->capture_default_str();
  app->add_option("--temperature", sampling.temperature, "Lower: likelier bytes; 0: always the likeliest")
      ->capture_default_str();
  app->add_option("--top-k", sampling.top_k, "Write only that many likeliest bytes; 0: all")->capture_default_str();
  app->add_option("--seed", sampling.seed, "Seed of the random numbers")->capture_default_str();

  std::vector<std::string> files;
  app = verb("evaluate", "Measure the bits per byte of files and folders of text",
             [&](adjoint::Device device) { evaluate(model, files, device); });
  app->add_option("text", files, "Files and folders of text")->required();
  examples::add_export(program, [](const std::string& path, const std::string& to) {
    const Gpt gpt = load_model(path);
    examples::save_onnx(to, gpt,
                        {.example = Tensor::zeros({1, gpt.options().context}, {.dtype = adjoint::kInt64}),
                         .input = "bytes",
                         .output = "scores",
                         .axes = {{0, "batch"}}});
  });
  return program.main(argc, argv);
}
