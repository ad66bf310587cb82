// Training steps of the example programs' networks. bench/compare_training.py loads this library into PyTorch's
// process. Weights and batches come in a safetensors file, and both sides train the same network on the same data.
#include "guarded.h"
#include "trainings.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace adjoint;
using bench::guarded;
using Tensors = std::vector<Tensor>;
using Clock = std::chrono::steady_clock;

double milliseconds(Clock::time_point since) {
  return std::chrono::duration<double, std::milli>(Clock::now() - since).count();
}

}  // namespace

/// The handle for the functions below.
struct BenchTraining {
  BenchTraining(const std::string& network, const std::string& file, std::string of_precision, Device on, bool graphed)
      : precision(std::move(of_precision)),
        device(on),
        before(memory_stats(on).in_use),
        training(bench::make_training(network)) {
    const NamedTensors tensors = nn::load_safetensors(file).tensors;
    const auto below = [&](const std::string& prefix) {
      NamedTensors found;
      for (const auto& [name, tensor] : tensors) {
        if (name.starts_with(prefix + ".")) found.emplace_back(name.substr(prefix.size() + 1), tensor);
      }
      return found;
    };
    for (const auto& [name, module] : training->modules()) {
      module->load_state_dict(below(name));
      module->to(device);
    }
    training->start(false);
    for (;;) {
      const NamedTensors batch = below("batch." + std::to_string(batches.size()));
      if (batch.empty()) break;
      batches.emplace_back();
      for (const auto& [name, tensor] : batch) batches.back().push_back(tensor.to(device));
    }
    if (graphed) {
      step = std::make_unique<GraphedStep>([this](const Tensors& batch) { return plain(batch); },
                                           GraphedStepOptions{.device = device});
    }
  }

  Tensors plain(const Tensors& batch) {
    examples::Arithmetic arithmetic(precision);
    return training->step(arithmetic, batch);
  }
  Tensors next() {
    const Tensors& batch = batches[count++ % batches.size()];
    if (!step) return plain(batch);
    const examples::Arithmetic arithmetic(precision);  // sets the thread's precision, which a graph depends on
    return (*step)(batch);
  }

  std::string precision;
  Device device;
  std::size_t before;
  std::unique_ptr<bench::Training> training;
  std::vector<Tensors> batches;
  std::unique_ptr<GraphedStep> step;
  std::size_t count = 0;
};

extern "C" {

const char* bench_last_error() { return bench::last_error.c_str(); }

/// `file` holds the modules' state, "net.<name>", and batches, "batch.<i>.<j>". Returns nullptr for an error.
BenchTraining* bench_make(const char* network, const char* file, const char* precision, int on_cuda, int graphed) {
  std::unique_ptr<BenchTraining> made;
  const int failed = guarded([&] {
    made = std::make_unique<BenchTraining>(network, file, precision, on_cuda != 0 ? Device(kCUDA) : Device(kCPU),
                                           graphed != 0);
  });
  return failed ? nullptr : made.release();
}
void bench_release(BenchTraining* training) { delete training; }

/// Measures the mean milliseconds of `steps` steps in a row.
int bench_run(BenchTraining* training, std::int64_t steps, double* ms) {
  return guarded([&] {
    synchronize(training->device);
    const Clock::time_point begin = Clock::now();
    for (std::int64_t i = 0; i < steps; ++i) training->next();
    synchronize(training->device);
    *ms = milliseconds(begin) / static_cast<double>(steps);
  });
}

/// Measures the median milliseconds for which a step blocks the host while the device is idle.
int bench_host(BenchTraining* training, std::int64_t steps, double* ms) {
  return guarded([&] {
    std::vector<double> all;
    for (std::int64_t i = 0; i < steps; ++i) {
      synchronize(training->device);
      const Clock::time_point begin = Clock::now();
      training->next();
      all.push_back(milliseconds(begin));
    }
    synchronize(training->device);
    std::nth_element(all.begin(), all.begin() + steps / 2, all.end());
    *ms = all[static_cast<std::size_t>(steps / 2)];
  });
}

/// Writes the next steps' losses: (steps, losses per step).
int bench_losses(BenchTraining* training, std::int64_t steps, double* losses) {
  return guarded([&] {
    std::vector<Tensors> all;
    for (std::int64_t i = 0; i < steps; ++i) all.push_back(training->next());
    for (const Tensors& step : all) {
      for (const Tensor& loss : step) *losses++ = loss.item<double>();
    }
  });
}

/// Measures the peak bytes of tensors during `steps` steps. Tensors from before the training do not count; a graphed
/// step's graphs do.
int bench_peak(BenchTraining* training, std::int64_t steps, std::int64_t* bytes) {
  return guarded([&] {
    reset_peak_memory_stats(training->device);
    for (std::int64_t i = 0; i < steps; ++i) training->next();
    synchronize(training->device);
    const std::size_t graphs = training->step ? training->step->bytes() : 0;
    *bytes = static_cast<std::int64_t>(memory_stats(training->device).peak - training->before + graphs);
  });
}

}  // extern "C"
