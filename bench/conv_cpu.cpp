// Times convolutions on the CPU for bench/compare_pytorch_cpu.py, which writes one request per line.
//
// In:  conv | conv_transpose; name; rank, 2 or 3; batch in_channels out_channels groups and, with one value for each
//      axis, input, kernel, stride, padding, output_padding, dilation; forward | backward | both; calls
// Out: one line of milliseconds, one number per timed call. The program makes one call before, which it does not time.
#include <adjoint/adjoint.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

namespace {

using namespace adjoint;

struct Problem {
  std::string name;
  Tensor input, weight, gradient;
  std::function<Tensor(const Tensor&, const Tensor&)> call;
};

std::istream& operator>>(std::istream& in, Size2& size) { return in >> size.h >> size.w; }
std::istream& operator>>(std::istream& in, Size3& size) { return in >> size.d >> size.h >> size.w; }
Shape shape(std::int64_t first, std::int64_t second, const Size2& size) { return {first, second, size.h, size.w}; }
Shape shape(std::int64_t first, std::int64_t second, const Size3& size) {
  return {first, second, size.d, size.h, size.w};
}

/// The attributes of a call of conv or conv_transpose, and the call.
template <class Params, class Size>
void read_rest(std::istream& in, bool transposed,
               Tensor (*function)(const Tensor&, const Tensor&, const Tensor&, const Params&), Problem& p) {
  std::int64_t batch = 0, in_channels = 0, out_channels = 0;
  Size input, kernel, output_padding;
  Params params;
  in >> batch >> in_channels >> out_channels >> params.groups >> input >> kernel >> params.stride >> params.padding >>
      output_padding >> params.dilation;
  if constexpr (requires { params.output_padding; }) params.output_padding = output_padding;
  const std::int64_t first = transposed ? in_channels : out_channels, second = transposed ? out_channels : in_channels;
  p.input = Tensor::randn(shape(batch, in_channels, input), {.requires_grad = true});
  p.weight = Tensor::randn(shape(first, second / params.groups, kernel), {.requires_grad = true});
  p.call = [=](const Tensor& x, const Tensor& w) { return function(x, w, {}, params); };
  p.gradient = Tensor::randn(p.call(p.input, p.weight).shape());
}

Problem read_problem(std::istream& in) {
  Problem p;
  std::string kind;
  int rank = 0;
  in >> kind >> p.name >> rank;
  const bool transposed = kind == "conv_transpose";
  if (rank == 2) {
    transposed ? read_rest<ConvTranspose2dParams, Size2>(in, true, conv_transpose2d, p)
               : read_rest<Conv2dParams, Size2>(in, false, conv2d, p);
  } else {
    transposed ? read_rest<ConvTranspose3dParams, Size3>(in, true, conv_transpose3d, p)
               : read_rest<Conv3dParams, Size3>(in, false, conv3d, p);
  }
  return p;
}

double milliseconds(const Problem& p, const std::string& part) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point start) {
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  };
  if (part == "forward") {
    const auto start = Clock::now();
    const Tensor result = p.call(p.input, p.weight);
    return since(start);
  }
  const auto start = Clock::now();
  Tape tape;
  const Tensor result = p.call(p.input, p.weight);
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
