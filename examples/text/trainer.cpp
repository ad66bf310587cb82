#include "trainer.h"

#include "apply.h"

#include "common/tested.h"

#include <adjoint/core/base/error.h>
#include <adjoint/core/base/file.h>
#include <adjoint/ops/loss/classification.h>
#include <adjoint/optim/groups.h>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

namespace text {
namespace {

using adjoint::Tensor;
using AdamWOptions = adjoint::optim::AdamWOptions;

constexpr double kMaxNorm = 1.0;    // of gradients
constexpr double kLeastRate = 0.1;  // of the learning rate, at the end
constexpr std::int64_t kWarmup = 100, kTested = 1 << 17, kSampled = 300, kWritten = 1000;
constexpr std::uint64_t kSampleSeed = 1;

// Biases, and the factors of norms, do not decay.
std::vector<adjoint::optim::ParamGroup<AdamWOptions>> groups_of(const Gpt& model, const AdamWOptions& options) {
  AdamWOptions no_decay = options;
  no_decay.weight_decay = 0.0;
  const adjoint::optim::Selector vectors("vectors", [](const std::string&, const Tensor& p) { return p.dim() < 2; });
  return adjoint::optim::group_by<AdamWOptions>(model.named_parameters(), {{.select = vectors, .options = no_decay}});
}

AdamWOptions adamw(double lr) { return {.lr = lr, .betas = {0.9, 0.99}, .weight_decay = 0.1}; }

std::unique_ptr<Corpus> corpus_of(const Options& options) {
  if (options.text.empty() && !options.tests.empty())
    throw adjoint::Error(fmt::format("text: --tests must come with text to train on; got '{}' alone", options.tests));
  auto corpus =
      std::make_unique<Corpus>(options.text.empty() ? Corpus::licences() : Corpus::of(options.text, options.tests));
  const std::int64_t least = options.model.context + 1;
  if (corpus->training.numel() < least) {
    throw adjoint::Error(
        fmt::format("text: the text must leave {} bytes for training, one more than --context; got {}; name more text "
                    "or lower --context",
                    least, corpus->training.numel()));
  }
  if (corpus->held_out.numel() == 0)
    throw adjoint::Error(
        "text: there must be held-out text, a tenth of each file; got none; name more text or --tests");
  return corpus;
}

void write_file(const std::filesystem::path& path, std::string_view text) {
  adjoint::AtomicFile file("text", path);
  file.write(text);
  file.commit();
}

}  // namespace

void Options::add_to(examples::Settings& settings) {
  settings.add("text,--text", text, "Files and folders of text to train on (default: the licences that Debian ships)");
  settings.add("--tests", tests, "File or folder of text to test on (default: the last tenth of each other one)");
  settings.add("--layers", model.layers, "Blocks of attention and a GELU network").range(1, 256).quick(4);
  settings.add("--heads", model.heads, "Heads of attention").range(1, 256).quick(4);
  settings.add("--width", model.width, "Features of a position, a multiple of --heads").range(1, 1 << 14).quick(128);
  settings.add("--context", model.context, "The most bytes that a prediction depends on")
      .range(Gpt::kLeastContext, 1 << 16)
      .quick(128);
  settings.add("--dropout", model.dropout, "Probability that a feature or a weight of attention becomes 0 in training")
      .range(0.0, 1.0)
      .quick(0.1);
}

Trainer::Trainer(const Options& options, const examples::Run& run) : Trainer(options, run, corpus_of(options)) {}

Trainer::Trainer(const Options& options, const examples::Run& run, std::unique_ptr<Corpus> corpus)
    : run_(run),
      arithmetic_(run.precision),
      corpus_(std::move(corpus)),
      tested_(corpus_->held_out.narrow(0, 0, std::min(corpus_->held_out.numel(), examples::tested(kTested)))),
      model_(options.model),
      parallel_((model_.to(run.device), model_)),
      adam_(groups_of(model_, adamw(run.lr)), adamw(run.lr)),
      schedule_(adam_, {.T_max = run.steps,
                        .eta_min = kLeastRate * run.lr,
                        .warmup = {.steps = std::min(kWarmup, run.steps / 10)}}),
      windows_(corpus_->training, options.model.context + 1, run.batch * std::min<std::int64_t>(run.test_every, 1000)),
      loader_(windows_, {.batch_size = run.batch, .workers = 1, .seed = run.data_seed, .device = run.device}) {}

void Trainer::add_to(examples::State& state) {
  state.add("model", model_);
  state.add("adam", adam_);
  state.add("arithmetic", arithmetic_);
  state.add("schedule", schedule_);
  state.add("loader", loader_);
  state.require("fingerprint", corpus_->fingerprint(), "it was trained on other text");
}

std::string Trainer::description() const {
  return fmt::format("{} parameters; trained on {} bytes, tested on {} others, order 0 {:.3f} bits per byte;",
                     model_.num_parameters(), corpus_->training.numel(), tested_.numel(),
                     order_0(corpus_->training, tested_));
}

std::vector<Tensor> Trainer::next() {
  for (;;) {
    if (auto batch = loader_.next()) return {batch->input};  // empty: an epoch's end
  }
}

std::vector<Tensor> Trainer::step(const std::vector<Tensor>& batch) {
  const Tensor bytes = batch[0].to(adjoint::kInt64);
  const std::int64_t length = bytes.size(1) - 1;
  const Tensor loss = arithmetic_.minimise(
      adam_,
      [&] {
        const Tensor scores = parallel_(bytes.narrow(1, 0, length)).to(adjoint::kFloat32);
        return adjoint::cross_entropy(scores.reshape({-1, Gpt::kBytes}), bytes.narrow(1, 1, length).reshape({-1}));
      },
      {.max_norm = kMaxNorm});
  schedule_.step();
  return {loss};
}

std::string Trainer::written(std::int64_t length) {
  model_.eval();
  std::string text = sample(model_, "\n", {.length = length, .seed = kSampleSeed}, run_.device);
  model_.train();
  return text;
}

examples::Values Trainer::test(const examples::Moment& moment) {
  model_.eval();
  const double bits = bits_per_byte(model_, tested_, run_.device);
  model_.train();
  std::filesystem::create_directories(moment.folder / "samples");
  write_file(moment.folder / fmt::format("samples/{:07}.txt", moment.step), written(kSampled));
  return {{"bits_per_byte", bits}};
}

examples::Values Trainer::baselines() const { return {{"order 0", order_0(corpus_->training, tested_)}}; }

void Trainer::finish(const examples::Moment& moment, nlohmann::ordered_json& metrics) {
  const Tensor tested = tested_.contiguous();
  metrics["parameters"] = model_.num_parameters();
  metrics["training_bytes"] = corpus_->training.numel();
  metrics["tested_bytes"] = tested.numel();
  save_model(moment.folder / "model.safetensors", model_);
  write_file(moment.folder / "sample.txt", written(kWritten));
  const auto* bytes = reinterpret_cast<const char*>(tested.data<std::uint8_t>());
  write_file(moment.folder / "held_out.txt", {bytes, static_cast<std::size_t>(tested.numel())});
}

}  // namespace text
