// Times conv_transpose2d on the CPU for bench/compare_pytorch_cpu.py, which writes one request per line.
//
// In:  name batch in_channels out_channels groups and h w of: input, kernel, stride, padding, output_padding, dilation;
//      forward | backward | both; calls
// Out: one line of milliseconds, one number per timed call. The program makes one call before, which it does not time.
#include <adjoint/adjoint.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

namespace {

using adjoint::Size2;
using adjoint::Tensor;

struct Problem {
  std::string name;
  Tensor input, weight, gradient;
  adjoint::ConvTranspose2dParams params;
};

Size2 read_size(std::istream& in) {
  Size2 size;
  in >> size.h >> size.w;
  return size;
}

Problem read_problem(std::istream& in) {
  Problem p;
  std::int64_t batch = 0, in_channels = 0, out_channels = 0;
  in >> p.name >> batch >> in_channels >> out_channels >> p.params.groups;
  const Size2 input = read_size(in), kernel = read_size(in);
  p.params.stride = read_size(in);
  p.params.padding = read_size(in);
  p.params.output_padding = read_size(in);
  p.params.dilation = read_size(in);
  p.input = Tensor::randn({batch, in_channels, input.h, input.w}, {.requires_grad = true});
  p.weight = Tensor::randn({in_channels, out_channels / p.params.groups, kernel.h, kernel.w}, {.requires_grad = true});
  p.gradient = Tensor::randn(conv_transpose2d(p.input, p.weight, {}, p.params).shape());
  return p;
}

double milliseconds(const Problem& p, const std::string& part) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point start) {
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  };
  if (part == "forward") {
    const auto start = Clock::now();
    const Tensor result = conv_transpose2d(p.input, p.weight, {}, p.params);
    return since(start);
  }
  const auto start = Clock::now();
  adjoint::Tape tape;
  const Tensor result = conv_transpose2d(p.input, p.weight, {}, p.params);
  const auto recorded = Clock::now();
  const std::vector<Tensor> gradients = tape.gradient(result, {p.input, p.weight}, {.grad_output = p.gradient});
  return since(part == "both" ? start : recorded);
}

}  // namespace

int main() {
  Problem problem;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream in(line);
    Problem next = read_problem(in);
    if (next.name != problem.name) problem = next;
    std::string part;
    int calls = 0;
    in >> part >> calls;
    milliseconds(problem, part);
    for (int i = 0; i < calls; ++i) std::printf("%.6f ", milliseconds(problem, part));
    std::printf("\n");
    std::fflush(stdout);
  }
}
