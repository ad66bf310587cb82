// Times recurrent and attention layers on the CPU for bench/compare_sequences.py, which writes one request per line.
//
// In:  layer steps batch features; forward | training (forward and backward); the clock, wall | cpu; calls
// Out: one line of milliseconds, one number per timed call. The program makes one call before, which it does not time.
#include <adjoint/adjoint.h>

#include <time.h>

#include <cstdint>
#include <cstdio>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <string>

namespace {

using adjoint::Tensor;
namespace nn = adjoint::nn;

struct Subject {
  nn::Module module;
  std::function<Tensor(const Tensor& x)> call;
};

template <class M, class Call>
Subject subject(const M& module, const Call& call) {
  return {module, [module, call](const Tensor& x) { return call(module, x); }};
}

const auto kOutput = [](const auto& module, const Tensor& x) { return module(x).output; };

// Layers by name. They have as many features inside as outside, and keep their input's layout (steps, batch, features).
const std::map<std::string, std::function<Subject(std::int64_t features)>>& subjects() {
  constexpr std::int64_t kHeads = 4;
  static const std::map<std::string, std::function<Subject(std::int64_t)>> all{
      {"rnn", [](std::int64_t n) { return subject(nn::RNN(n, n), kOutput); }},
      {"lstm", [](std::int64_t n) { return subject(nn::LSTM(n, n), kOutput); }},
      {"gru", [](std::int64_t n) { return subject(nn::GRU(n, n), kOutput); }},
      {"attention",
       [](std::int64_t n) {
         return subject(nn::MultiheadAttention(n, kHeads), [](const auto& attention, const Tensor& x) {
           return attention(x, x, x, {.need_weights = false}).output;
         });
       }},
      {"encoder_layer", [](std::int64_t n) {
         return subject(nn::TransformerEncoderLayer(n, kHeads, {.dim_feedforward = 4 * n, .dropout = 0.0}),
                        [](const auto& layer, const Tensor& x) { return layer(x); });
       }}};
  return all;
}

struct Problem {
  Subject subject;
  Tensor x, gradient;
};

// Returns the wall clock's time, or the CPU time of this process's threads.
double clock_milliseconds(bool cpu) {
  timespec time{};
  clock_gettime(cpu ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

double milliseconds(Problem& problem, bool training, bool cpu) {
  problem.subject.module.zero_grad();
  problem.x.set_grad({});
  const double start = clock_milliseconds(cpu);
  if (training) {
    adjoint::Tape tape;
    tape.backward(problem.subject.call(problem.x), {.grad_output = problem.gradient});
  } else {
    problem.subject.call(problem.x);
  }
  return clock_milliseconds(cpu) - start;
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream in(line);
    std::string layer, part, clock;
    std::int64_t steps = 0, batch = 0, features = 0;
    int calls = 0;
    in >> layer >> steps >> batch >> features >> part >> clock >> calls;
    const adjoint::Shape shape{steps, batch, features};
    Problem problem{subjects().at(layer)(features), Tensor::randn(shape, {.requires_grad = true}),
                    Tensor::randn(shape)};
    const auto once = [&] { return milliseconds(problem, part == "training", clock == "cpu"); };
    once();
    for (int i = 0; i < calls; ++i) std::printf("%.6f ", once());
    std::printf("\n");
    std::fflush(stdout);
  }
}
