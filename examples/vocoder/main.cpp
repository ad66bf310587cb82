// vocoder: trains a network that makes sound from mel spectrograms, and lets it speak.
#include "measure.h"
#include "mel.h"
#include "stream.h"
#include "trainer.h"

#include "common/export.h"
#include "common/output.h"
#include "common/program.h"

#include <adjoint/core/base/error.h>
#include <adjoint/data/image.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/join/join.h>
#include <adjoint/ops/reduce/reduce.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace vocoder {
namespace {

using adjoint::Tensor;

constexpr std::int64_t kMostFrames = 32;  // that a stream computes at once

struct FileOptions {
  std::string model, from, to, spectrogram;
  std::int64_t chunk = kHop;
};

Generator model_on(const std::string& path, adjoint::Device device) {
  Generator model = load_model(path);
  model.to(device);
  return model;
}

void report(const Generator& model, const Tensor& made, const Tensor& original, double seconds) {
  const std::int64_t rate = model.options().sample_rate;
  const double length = static_cast<double>(original.size(-1)) / static_cast<double>(rate);
  const Distances distance = distances(made, original, rate);
  const Level level = level_of(made), before = level_of(original);
  fmt::print("{:.2f} seconds of sound in {:.2f}: real-time factor {:.3f}\n", length, seconds, seconds / length);
  fmt::print("STFT distance {:.4f}, mel distance {:.4f} from the input\n", distance.stft, distance.mel);
  fmt::print("peak {:.1f} dB (input {:.1f}), mean {:.1f} dB (input {:.1f}), {:.3f} % of samples clipped\n",
             level.peak_db, before.peak_db, level.rms_db, before.rms_db, 100.0 * level.clipped);
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void synthesize_file(const FileOptions& options, adjoint::Device device) {
  examples::check_output("vocoder", options.to, examples::sound_extensions());
  if (!options.spectrogram.empty()) examples::check_output("vocoder", options.spectrogram);
  const Generator model = model_on(options.model, device);
  const std::int64_t rate = model.options().sample_rate;
  const Tensor sound = read_sound(options.from, rate).samples;
  const auto start = std::chrono::steady_clock::now();
  const Tensor made = synthesize(model, sound, device);
  const double seconds = seconds_since(start);
  write_sound(options.to, made, rate);
  if (!options.spectrogram.empty()) {
    const std::vector<Tensor> pictures{spectrogram_picture(sound[0]), spectrogram_picture(made[0])};
    adjoint::data::write_image(options.spectrogram, adjoint::cat(pictures, 1));
  }
  report(model, made, sound, seconds);
}

/// Simulates a live source: takes a chunk at a time, and writes the part of the result known by then. The stream runs
/// on the CPU; `device` computes the whole at once, for comparison.
void stream_file(const FileOptions& options, adjoint::Device device) {
  if (options.chunk < 1 || options.chunk > 1 << 24)
    throw adjoint::Error(fmt::format("vocoder: --chunk must be from 1 to {}; got {}", 1 << 24, options.chunk));
  examples::check_output("vocoder", options.to, examples::sound_extensions());
  const Generator model = load_model(options.model);
  const std::int64_t rate = model.options().sample_rate;
  const Tensor sound = read_sound(options.from, rate).samples;
  const std::int64_t length = sound.size(-1);
  StreamingVocoder vocoder(model, sound.size(0), std::clamp<std::int64_t>(options.chunk / kHop, 1, kMostFrames));
  const double per_ms = static_cast<double>(rate) / 1000.0;
  std::vector<Tensor> parts;
  std::vector<double> times;
  double sum = 0.0;
  for (std::int64_t at = 0; at < length; at += options.chunk) {
    const std::int64_t count = std::min(options.chunk, length - at);
    const Tensor chunk = sound.narrow(-1, at, count).contiguous();
    const auto start = std::chrono::steady_clock::now();
    parts.push_back(vocoder(chunk, at + count == length));
    times.push_back(seconds_since(start));
    sum += times.back();
  }
  const Tensor made = adjoint::cat(parts, -1), whole = resynthesized(model_on(options.model, device), sound, device);
  write_sound(options.to, made, rate);
  std::sort(times.begin(), times.end());
  fmt::print("latency {} samples, {:.1f} ms, and a chunk of {}, {:.1f} ms\n", vocoder.latency(),
             static_cast<double>(vocoder.latency()) / per_ms, options.chunk,
             static_cast<double>(options.chunk) / per_ms);
  fmt::print("a chunk took {:.2f} ms, 99 % of them {:.2f} ms or less\n",
             1000.0 * sum / static_cast<double>(times.size()), 1000.0 * times[(times.size() - 1) * 99 / 100]);
  fmt::print("largest difference from the whole at once: {:.2e}\n", adjoint::abs(made - whole).max().item<float>());
  report(model, made, sound, sum);
}

void evaluate(const std::string& path, const std::string& folder, adjoint::Device device) {
  const Generator model = model_on(path, device);
  const std::int64_t rate = model.options().sample_rate;
  const std::vector<Sound> sounds = folder.empty() ? made_tests(rate) : read_sounds(folder, rate);
  std::vector<Measured> all = measure(model, sounds, device);
  all.push_back(mean_of(all));
  fmt::print("{:>13} {:>13}\n", "STFT distance", "mel distance");
  fmt::print("{:>6} {:>6} {:>6} {:>6}\n", "model", "G.-Lim", "model", "G.-Lim");
  for (const Measured& one : all) {
    fmt::print("{:6.4f} {:6.4f} {:6.4f} {:6.4f}  {}\n", one.model.stft, one.griffin_lim.stft, one.model.mel,
               one.griffin_lim.mel, one.name);
  }
  fmt::print("real-time factor {:.4f}\n", real_time_factor(model, sounds.front().samples, device));
}

void add_files(CLI::App& verb, FileOptions& options) {
  verb.add_option("model", options.model, "model.safetensors of a training")->required();
  verb.add_option("input", options.from, "WAV, FLAC or OGG file")->required();
  verb.add_option("output", options.to, "WAV, FLAC or OGG file to write")->required();
}

}  // namespace
}  // namespace vocoder

int main(int argc, char** argv) {
  using namespace vocoder;
  examples::Program program("vocoder", "Trains a network that makes sound from mel spectrograms.");
  Options options;
  program.defaults().lr = 1e-3;
  program.defaults().steps = 25000;
  program.defaults().batch = 8;
  program.defaults().graph = true;
  program.defaults().precision = "fp16";
  program.defaults().test_every = 2000;
  program.steps().quick(4800);
  program.batch().quick(4);
  program.precision().quick("tf32");  // which is float32 on a CPU
  program.test_every().quick(400);
  options.add_to(program.settings());
  program.on_train([&](const examples::Run& run) {
    options = options.resolved(run.steps);
    return std::make_unique<Trainer>(options, run);
  });

  FileOptions file;
  CLI::App& synthesizing = program.verb("synthesize", "Turn a file's sound into a mel spectrogram and back",
                                        [&](adjoint::Device device) { synthesize_file(file, device); });
  add_files(synthesizing, file);
  synthesizing.add_option("--spectrogram", file.spectrogram,
                          "PNG or JPEG file to write: the input, and the output below");
  FileOptions live;
  CLI::App& streaming = program.verb("stream", "Do the same in chunks on the CPU, as they would come from a microphone",
                                     [&](adjoint::Device device) { stream_file(live, device); });
  add_files(streaming, live);
  streaming.add_option("--chunk", live.chunk, "Samples per chunk")->capture_default_str();

  std::string model, sounds;
  CLI::App& evaluating = program.verb("evaluate", "Measure a model, and Griffin-Lim for comparison",
                                      [&](adjoint::Device device) { evaluate(model, sounds, device); });
  evaluating.add_option("model", model, "model.safetensors of a training")->required();
  evaluating.add_option("--sounds", sounds, "Folder of WAV, FLAC or OGG files (default: generated sounds)");
  examples::add_export(program, [](const std::string& path, const std::string& to) {
    constexpr std::int64_t kFrames = 256;  // of a generator with a clock as long as they are
    const Generator generator = load_model(path);
    examples::Exported exported{.example = Tensor::zeros({1, kMels, kFrames}),
                                .input = "mel",
                                .output = "sound",
                                .axes = {{0, "batch"}}};
    if (generator.options().clock == 0) exported.axes.emplace_back(2, "frames");
    examples::save_onnx(to, generator, exported);
  });
  return program.main(argc, argv);
}
