// Times chains of small recorded operations. One source serves Adjoint and libtorch, so both do the same work.
//
// A framework provides three names. Tensor is its tensor. leaf(rows, columns, on_gpu) returns a float32 tensor that
// requires a gradient. run(x, step, count) waits for the device, records y = step(y) `count` times from y = x, sweeps
// back, drops the record, and returns the time of each part. On a GPU these are the host's times: the device may still
// work.
#pragma once

#include <time.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <vector>

namespace overhead {

/// Times in seconds.
struct Times {
  double forward = 0;
  double backward = 0;
  double total = 0;  // forward, backward, and dropping the record
};

/// Returns the CPU time of all threads of the process, which other programs on the machine hardly disturb.
inline double now() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Returns the median of each part over `repeats` runs, in microseconds per operation.
template <class Run>
Times median(Run&& run, int count, int repeats) {
  std::vector<Times> samples;
  for (int i = 0; i < repeats; ++i) samples.push_back(run());
  const auto middle = [&](double Times::*part) {
    std::nth_element(samples.begin(), samples.begin() + repeats / 2, samples.end(),
                     [&](const Times& a, const Times& b) { return a.*part < b.*part; });
    return samples[static_cast<std::size_t>(repeats / 2)].*part * 1e6 / count;
  };
  return {middle(&Times::forward), middle(&Times::backward), middle(&Times::total)};
}

/// Prints a line for each case: name, then microseconds per operation forward, backward and in total. Runs on a GPU if
/// the first argument is "cuda".
template <class Framework>
void run_all(int argc, char** argv) {
  using Tensor = typename Framework::Tensor;
  const bool on_gpu = argc > 1 && std::string_view(argv[1]) == "cuda";
  const int count = on_gpu ? 300 : 1000;  // the launches of both passes fit in a stream's queue
  constexpr int kRepeats = 51;
  const Tensor x = Framework::leaf(4, 4, on_gpu);
  const Tensor other = Framework::leaf(4, 4, on_gpu);
  const Tensor row = Framework::leaf(1, 4, on_gpu);

  const auto report = [&](const char* name, const auto& step) {
    const Times t = median([&] { return Framework::run(x, step, count); }, count, kRepeats);
    std::printf("%s %.4f %.4f %.4f\n", name, t.forward, t.backward, t.total);
  };
  report("scale", [](const Tensor& y) { return y * 1.0; });
  report("add", [&](const Tensor& y) { return y + other; });
  report("mul", [&](const Tensor& y) { return y * other; });
  report("add_broadcast", [&](const Tensor& y) { return y + row; });
  report("relu", [](const Tensor& y) { return relu(y); });
  report("tanh", [](const Tensor& y) { return tanh(y); });
  report("matmul", [&](const Tensor& y) { return matmul(y, other); });
  report("transpose", [](const Tensor& y) { return y.transpose(0, 1); });
}

}  // namespace overhead
