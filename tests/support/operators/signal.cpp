// Signals: transforms, frames, spectrograms and the losses made of them.
#include <adjoint/ops/signal/fft.h>
#include <adjoint/ops/signal/frame.h>
#include <adjoint/tests/support/operator_cases.h>

#include <utility>

namespace adjoint::testing {
namespace {

using In = const std::vector<Tensor>&;
using Out = std::vector<Tensor>;

// A transform's element is a sum of n terms, whose roundings are relative to the largest of them.
OperatorCase transform(std::string name, std::vector<Tensor> (*call)(In in)) {
  return {.name = std::move(name), .call = call, .roundings = 16};
}

}  // namespace

OperatorFamily signal_operators() {
  return {
      .name = "signal",
      .cases =
          {
              transform("rfft", [](In in) -> Out { return {rfft(in[0])}; }),
              transform("rfft/padded", [](In in) -> Out { return {rfft(in[0], 12, FFTNorm::kOrtho)}; }),
              transform("rfft/cut", [](In in) -> Out { return {rfft(in[0], 5, FFTNorm::kForward)}; }),
              transform("irfft", [](In in) -> Out { return {irfft(in[0])}; }),
              transform("irfft/odd", [](In in) -> Out { return {irfft(in[0], 7, FFTNorm::kOrtho)}; }),
              transform("irfft/padded", [](In in) -> Out { return {irfft(in[0], 10, FFTNorm::kForward)}; }),
              transform("irfft/one", [](In in) -> Out { return {irfft(in[0], 1)}; }),
              {.name = "frame", .call = [](In in) -> Out { return {frame(in[0], 4, 2)}; }, .takes = Takes::kEverything},
              {.name = "frame/apart",
               .call = [](In in) -> Out { return {frame(in[0], 2, 3)}; },
               .takes = Takes::kEverything},
              {.name = "overlap_add", .call = [](In in) -> Out { return {overlap_add(in[0], 2, 13)}; }},
              {.name = "overlap_add/apart", .call = [](In in) -> Out { return {overlap_add(in[0], 3)}; }},
              {.name = "overlap_add/empty", .call = [](In in) -> Out { return {overlap_add(in[0], 1)}; }},
          },
      .bad_calls = {
          {"rfft", [] { rfft(Tensor()); }, {"x"}},
          {"rfft", [] { rfft(Tensor::ones({4}, {.dtype = kInt64})); }, {"floating point", "int64"}},
          {"rfft", [] { rfft(Tensor::scalar(1)); }, {"axes", "()"}},
          {"rfft",
           [] {
             rfft(Tensor::ones({3, 0}));
           },
           {"n must", "got 0", "(3, 0)"}},
          {"rfft", [] { rfft(Tensor::ones({3}), -2); }, {"n must", "got -2"}},
          {"rfft", [] { rfft(Tensor::ones({3}), 0, static_cast<FFTNorm>(3)); }, {"FFTNorm", "3"}},
          {"irfft",
           [] {
             irfft(Tensor::ones({4, 3}));
           },
           {"(..., bins, 2)", "(4, 3)"}},
          {"irfft",
           [] {
             irfft(Tensor::ones({0, 2}));
           },
           {"bin at least", "(0, 2)"}},
          {"irfft",
           [] {
             irfft(Tensor::ones({1, 2}));
           },
           {"n must", "got 0"}},
          {"frame", [] { frame(Tensor::ones({3}), 4, 1); }, {"as long as one frame", "(3,)", "4"}},
          {"frame", [] { frame(Tensor::ones({3}), 2, 0); }, {"hop 0"}},
          {"frame", [] { frame(Tensor::scalar(1), 1, 1); }, {"axes", "()"}},
          {"overlap_add", [] { overlap_add(Tensor::ones({3}), 1); }, {"(..., T, size)", "(3,)"}},
          {"overlap_add",
           [] {
             overlap_add(Tensor::ones({3, 2}), 0);
           },
           {"hop", "got 0"}},
          {"overlap_add",
           [] {
             overlap_add(Tensor::ones({3, 2}), 1, 3);
           },
           {"at least", "= 4", "got 3"}},
          {"overlap_add",
           [] {
             overlap_add(Tensor::ones({3, 2}, {.dtype = kInt32}), 1);
           },
           {"floating point"}},
          {"overlap_add",
           [] {
             overlap_add(Tensor::ones({3, 2}), std::int64_t{1} << 62);
           },
           {"63 bits"}},
      }};
}

}  // namespace adjoint::testing
