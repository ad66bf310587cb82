// Signals: transforms, frames, spectrograms and losses based on them.
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/reduce/reduce.h>
#include <adjoint/ops/signal/fft.h>
#include <adjoint/ops/signal/frame.h>
#include <adjoint/ops/signal/loss.h>
#include <adjoint/ops/signal/mel.h>
#include <adjoint/ops/signal/stft.h>
#include <adjoint/ops/signal/window.h>
#include <adjoint/tests/support/operator_cases.h>

#include <utility>

namespace adjoint::testing {
namespace {

using In = const std::vector<Tensor>&;
using Out = std::vector<Tensor>;

// A transform's element is a sum of n terms, whose roundings are relative to the largest term.
OperatorCase transform(std::string name, std::vector<Tensor> (*call)(In in)) {
  return {.name = std::move(name), .call = call, .roundings = 16};
}

// A constant of as many elements as its input has.
OperatorCase constant(std::string name, std::vector<Tensor> (*call)(In in)) {
  return {.name = std::move(name), .call = call, .differentiable = false};
}

std::int64_t length(In in) { return in[0].size(0); }
TensorOptions like(In in) { return {.dtype = in[0].dtype(), .device = in[0].device()}; }

// Which transforms are finite, over these axes, and those.
Out finite(const Tensor& y, const Dims& axes = {}) {
  const Tensor each = isfinite(y), mask = axes.size() == 0 ? each : each.all(axes, true);
  return {mask, where(mask, y, 0.0)};
}

const MelSpectrogramOptions kSlaney = {.sample_rate = 1000,
                                       .n_fft = 16,
                                       .n_mels = 3,
                                       .hop_length = 5,
                                       .power = 1.0,
                                       .mel = {.scale = MelScale::kSlaney, .norm = MelNorm::kSlaney}};

}  // namespace

OperatorFamily signal_operators() {
  return {
      .name = "signal",
      .cases =
          {
              transform("rfft", [](In in) -> Out { return {rfft(in[0])}; }),
              transform("rfft/nonfinite",
                        [](In in) -> Out {
                          return finite(rfft(in[0].reshape({-1, 7})), {1, 2});
                        }),
              transform("rfft/padded", [](In in) -> Out { return {rfft(in[0], 12, FFTNorm::kOrtho)}; }),
              transform("rfft/cut", [](In in) -> Out { return {rfft(in[0], 5, FFTNorm::kForward)}; }),
              transform("irfft", [](In in) -> Out { return {irfft(in[0])}; }),
              transform("irfft/nonfinite", [](In in) -> Out { return finite(irfft(in[0], 6), {-1}); }),
              transform("irfft/odd", [](In in) -> Out { return {irfft(in[0], 7, FFTNorm::kOrtho)}; }),
              transform("irfft/padded", [](In in) -> Out { return {irfft(in[0], 10, FFTNorm::kForward)}; }),
              transform("rfft2", [](In in) -> Out { return {rfft2(in[0])}; }),
              transform("rfft2/ortho", [](In in) -> Out { return {rfft2(in[0], {}, FFTNorm::kOrtho)}; }),
              transform("rfft2/forward",
                        [](In in) -> Out {
                          return {rfft2(in[0], {6, 3}, FFTNorm::kForward)};
                        }),
              transform("irfft2", [](In in) -> Out { return {irfft2(in[0])}; }),
              transform("irfft2/ortho",
                        [](In in) -> Out {
                          return {irfft2(in[0], {5, 7}, FFTNorm::kOrtho)};
                        }),
              transform("irfft2/forward", [](In in) -> Out { return {irfft2(in[0], {}, FFTNorm::kForward)}; }),
              transform("rfft2/nonfinite",
                        [](In in) -> Out {
                          return finite(rfft2(in[0].reshape({-1, 2, 3})), {1, 2, 3});
                        }),
              transform("irfft2/nonfinite",
                        [](In in) -> Out {
                          return finite(irfft2(in[0].reshape({-1, 1, 2, 2})), {1, 2});
                        }),
              transform("irfft/one", [](In in) -> Out { return {irfft(in[0], 1)}; }),
              {.name = "frame", .call = [](In in) -> Out { return {frame(in[0], 4, 2)}; }, .takes = Takes::kEverything},
              {.name = "frame/apart",
               .call = [](In in) -> Out { return {frame(in[0], 2, 3)}; },
               .takes = Takes::kEverything},
              {.name = "overlap_add", .call = [](In in) -> Out { return {overlap_add(in[0], 2, 13)}; }},
              {.name = "overlap_add/apart", .call = [](In in) -> Out { return {overlap_add(in[0], 3)}; }},
              {.name = "overlap_add/empty", .call = [](In in) -> Out { return {overlap_add(in[0], 1)}; }},
              transform("stft", [](In in) -> Out { return {stft(in[0], 8)}; }),
              transform("stft/window",
                        [](In in) -> Out {
                          return {
                              stft(in[0], 9, {.hop_length = 3, .win_length = 6, .window = in[1], .normalized = true})};
                        }),
              transform("stft/short",
                        [](In in) -> Out { return {stft(in[0], 9, {.hop_length = 3, .win_length = 6})}; }),
              transform("stft/plain",
                        [](In in) -> Out { return {stft(in[0], 7, {.hop_length = 2, .center = false})}; }),
              transform("stft/one", [](In in) -> Out { return {stft(in[0], 1, {.hop_length = 1})}; }),
              transform("stft/apart",
                        [](In in) -> Out {
                          const Tensor window = Tensor::from_vector({0.5, -1.0}, {2}, {.device = in[0].device()});
                          return {stft(in[0], 3, {.hop_length = 5, .win_length = 2, .window = window})};
                        }),
              transform("stft/nonfinite",
                        [](In in) -> Out {
                          return finite(stft(in[0], 5, {.hop_length = 3, .win_length = 3}), {-3, -1});
                        }),
              transform("stft/circular",
                        [](In in) -> Out { return {stft(in[0], 8, {.pad_mode = PadMode::kCircular})}; }),
              transform("stft/zeros", [](In in) -> Out { return {stft(in[0], 8, {.pad_mode = PadMode::kConstant})}; }),
              transform("stft/twosided",
                        [](In in) -> Out { return {stft(in[0], 8, {.hop_length = 4, .onesided = false})}; }),
              transform("stft/twosided_odd",
                        [](In in) -> Out { return {stft(in[0], 5, {.hop_length = 4, .onesided = false})}; }),
              transform("istft", [](In in) -> Out { return {istft(in[0], 8)}; }),
              transform("istft/window",
                        [](In in) -> Out {
                          return {
                              istft(in[0], 9, {.hop_length = 3, .win_length = 6, .window = in[1], .normalized = true})};
                        }),
              transform("istft/plain",
                        [](In in) -> Out { return {istft(in[0], 7, {.hop_length = 2, .center = false})}; }),
              transform("istft/tiled",
                        [](In in) -> Out { return {istft(in[0], 8, {.hop_length = 3, .win_length = 3})}; }),
              transform("istft/nonfinite",
                        [](In in) -> Out {
                          return finite(istft(in[0].reshape({3, 8, 2}), 5, {.hop_length = 3, .center = false}));
                        }),
              transform("istft/twosided_odd",
                        [](In in) -> Out { return {istft(in[0], 5, {.hop_length = 2, .onesided = false})}; }),
              transform("istft/cut_odd",
                        [](In in) -> Out {
                          const Tensor window =
                              Tensor::from_vector({0.5, 1.0, 2.0, 1.0, 0.25}, {5}, {.device = in[0].device()});
                          return {istft(in[0], 7, {.hop_length = 3, .win_length = 5, .window = window, .length = 1})};
                        }),
              transform("istft/twosided",
                        [](In in) -> Out { return {istft(in[0], 6, {.hop_length = 2, .onesided = false})}; }),
              transform("istft/cut", [](In in) -> Out { return {istft(in[0], 8, {.hop_length = 2, .length = 5})}; }),
              transform("istft/longer",
                        [](In in) -> Out { return {istft(in[0], 8, {.hop_length = 2, .length = 21})}; }),
              constant("hann_window", [](In in) -> Out { return {hann_window(length(in), true, like(in))}; }),
              constant("hann_window/symmetric",
                       [](In in) -> Out { return {hann_window(length(in), false, like(in))}; }),
              constant("hamming_window",
                       [](In in) -> Out { return {hamming_window(length(in), true, 0.54, 0.46, like(in))}; }),
              constant("hamming_window/symmetric",
                       [](In in) -> Out { return {hamming_window(length(in), false, 0.54, 0.46, like(in))}; }),
              constant("hamming_window/coefficients",
                       [](In in) -> Out { return {hamming_window(length(in), true, 0.6, 0.3, like(in))}; }),
              constant("blackman_window", [](In in) -> Out { return {blackman_window(length(in), true, like(in))}; }),
              constant("blackman_window/symmetric",
                       [](In in) -> Out { return {blackman_window(length(in), false, like(in))}; }),
              constant("mel_filter_bank",
                       [](In in) -> Out { return {mel_filter_bank(length(in) + 1, 32, 8000, {}, like(in))}; }),
              constant("mel_filter_bank/slaney",
                       [](In in) -> Out { return {mel_filter_bank(length(in), 32, 8000, kSlaney.mel, like(in))}; }),
              constant("mel_filter_bank/band",
                       [](In in) -> Out {
                         const MelOptions mel{.f_min = 300, .f_max = 3500, .scale = MelScale::kSlaney};
                         return {mel_filter_bank(length(in), 31, 8000, mel, like(in))};
                       }),
              constant("mel_filter_bank/crowded",
                       [](In in) -> Out { return {mel_filter_bank(length(in), 6, 8000, kSlaney.mel, like(in))}; }),
              constant("mel_filter_bank/one",
                       [](In in) -> Out { return {mel_filter_bank(length(in), 1, 8000, {}, like(in))}; }),
              transform("spectrogram/nonfinite",
                        [](In in) -> Out {
                          return finite(spectrogram(in[0], 5, {.hop_length = 3, .win_length = 4}), {-2});
                        }),
              transform("spectrogram/nonfinite_magnitude",
                        [](In in) -> Out {
                          return finite(spectrogram(in[0], 5, {.hop_length = 3, .win_length = 4, .power = 1.0}), {-2});
                        }),
              transform("spectrogram", [](In in) -> Out { return {spectrogram(in[0], 8)}; }),
              transform("spectrogram/magnitude",
                        [](In in) -> Out { return {spectrogram(in[0], 8, {.win_length = 6, .power = 1.0})}; }),
              transform("spectrogram/power",
                        [](In in) -> Out { return {spectrogram(in[0], 7, {.onesided = false, .power = 3.0})}; }),
              transform("mel_spectrogram",
                        [](In in) -> Out {
                          return {mel_spectrogram(in[0], {.sample_rate = 1000, .n_fft = 16, .n_mels = 4})};
                        }),
              transform("mel_spectrogram/nonfinite",
                        [](In in) -> Out {
                          return finite(mel_spectrogram(in[0], {.sample_rate = 1000, .n_fft = 16, .n_mels = 4}), {-2});
                        }),
              transform("mel_spectrogram/zeros",
                        [](In in) -> Out {
                          const MelSpectrogramOptions zeros{.sample_rate = 1000,
                                                            .n_fft = 16,
                                                            .n_mels = 4,
                                                            .pad_mode = PadMode::kConstant};
                          return {mel_spectrogram(in[0], zeros)};
                        }),
              transform("mel_spectrogram/slaney", [](In in) -> Out { return {mel_spectrogram(in[0], kSlaney)}; }),
              transform("multi_resolution_stft_loss",
                        [](In in) -> Out {
                          const MultiResolutionStftOptions two{.resolutions = {{8, 3, 6}, {16, 5, 16}}};
                          return {multi_resolution_stft_loss(in[0], in[1], two)};
                        }),
              transform("mel_loss", [](In in) -> Out { return {mel_loss(in[0], in[1], {.spectrogram = kSlaney})}; }),
          },
      .bad_calls = {
          {"rfft", [] { rfft(Tensor()); }, {"x"}},
          {"rfft", [] { rfft(Tensor::ones({4}, {.dtype = kInt64})); }, {"floating point", "int64"}},
          {"rfft", [] { rfft(Tensor::scalar(1.0)); }, {"axes", "()"}},
          {"rfft",
           [] {
             rfft(Tensor::ones({3, 0}));
           },
           {"n must", "got 0", "(3, 0)"}},
          {"rfft", [] { rfft(Tensor::ones({3}), -2); }, {"n must", "got -2"}},
          {"rfft", [] { rfft(Tensor::ones({3}), 0, static_cast<FFTNorm>(3)); }, {"FFTNorm", "3"}},
          {"rfft2", [] { rfft2(Tensor::ones({3})); }, {"axes", "(3,)"}},
          {"rfft2",
           [] {
             rfft2(Tensor::ones({3, 3}), {3});
           },
           {"two lengths", "(3,)"}},
          {"rfft2",
           [] {
             rfft2(Tensor::ones({3, 3}), {-1, 3});
           },
           {"n must", "got -1"}},
          {"irfft2",
           [] {
             irfft2(Tensor::ones({3, 2}));
           },
           {"(..., H, bins, 2)", "(3, 2)"}},
          {"irfft2",
           [] {
             irfft2(Tensor::ones({3, 1, 2}));
           },
           {"n must", "got 0"}},
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
          {"frame", [] { frame(Tensor::scalar(1.0), 1, 1); }, {"axes", "()"}},
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
          {"stft", [] { stft(Tensor(), 4); }, {"x"}},
          {"stft", [] { stft(Tensor::ones({9}, {.dtype = kInt64}), 4); }, {"floating point", "int64"}},
          {"stft", [] { stft(Tensor::ones(9), 0); }, {"n_fft", "got 0"}},
          {"stft", [] { stft(Tensor::ones(9), 3); }, {"hop_length", "got 0", "n_fft 3"}},
          {"stft", [] { stft(Tensor::ones(9), 4, {.win_length = 5}); }, {"win_length", "got 5"}},
          {"stft", [] { stft(Tensor::ones(9), 4, {.window = Tensor::ones(3)}); }, {"window", "(3,)", "4"}},
          {"stft", [] { stft(Tensor::ones(4), 8); }, {"padding must be less", "(4, 4)"}},
          {"stft", [] { stft(Tensor::ones(7), 8, {.center = false}); }, {"must fit", "8", "(7,)"}},
          {"istft",
           [] {
             istft(Tensor::ones({5, 4, 3}), 8);
           },
           {"(..., 5, frames, 2)", "(5, 4, 3)"}},
          {"istft",
           [] {
             istft(Tensor::ones({5, 0, 2}), 8);
           },
           {"a frame at least", "(5, 0, 2)"}},
          {"istft",
           [] {
             istft(Tensor::ones({5, 4, 2}), 8, {.onesided = false});
           },
           {"(..., 8, frames, 2)"}},
          {"istft",
           [] {
             istft(Tensor::ones({5, 4, 2}), 8, {.hop_length = 5, .win_length = 4});
           },
           {"5, 4"}},
          {"istft",
           [] {
             istft(Tensor::ones({5, 1, 2}), 8);
           },
           {"reach the result", "(5, 1, 2)"}},
          {"istft",
           [] {
             istft(Tensor::ones({5, 4, 2}), 8, {.length = -1});
           },
           {"length", "got -1"}},
          {"istft",
           [] {
             istft(Tensor::ones({5, 4, 2}), 8, {.window = hann_window(8), .center = false});
           },
           {"squares", "got 0"}},
          {"hann_window", [] { hann_window(-1); }, {"negative", "-1"}},
          {"hamming_window", [] { hamming_window(2, true, 1, 1, {.dtype = kInt32}); }, {"floating point", "int32"}},
          {"blackman_window", [] { blackman_window(-2); }, {"negative", "-2"}},
          {"mel_filter_bank", [] { mel_filter_bank(0, 8, 100); }, {"positive", "0, 8, 100"}},
          {"mel_filter_bank", [] { mel_filter_bank(4, 8, 100, {.f_min = 60}); }, {"f_min", "60", "50"}},
          {"mel_filter_bank", [] { mel_filter_bank(4, 8, 100, {.scale = static_cast<MelScale>(2)}); }, {"MelScale"}},
          {"mel_filter_bank", [] { mel_filter_bank(4, 8, 100, {}, {.dtype = kBool}); }, {"floating point"}},
          {"spectrogram", [] { spectrogram(Tensor::ones(9), 4, {.power = 0}); }, {"power", "got 0"}},
          {"spectrogram", [] { spectrogram(Tensor::ones(2), 4); }, {"padding must be less", "(2, 2)"}},
          {"mel_spectrogram", [] { mel_spectrogram(Tensor()); }, {"x"}},
          {"mel_spectrogram", [] { mel_spectrogram(Tensor::ones(9), {.n_fft = 8, .n_mels = -1}); }, {"n_mels", "-1"}},
          {"multi_resolution_stft_loss",
           [] {
             multi_resolution_stft_loss(Tensor::ones({2, 9}), Tensor::ones(9));
           },
           {"one shape", "(2, 9)", "(9,)"}},
          {"multi_resolution_stft_loss",
           [] { multi_resolution_stft_loss(Tensor::ones(9), Tensor::ones(9), {.resolutions = {}}); },
           {"resolution"}},
          {"mel_loss",
           [] { mel_loss(Tensor::ones(9), Tensor::ones(9, {.dtype = kFloat64})); },
           {"one shape", "float64"}},
          {"mel_loss", [] { mel_loss(Tensor::ones(9), Tensor::ones(9), {.floor = 0}); }, {"floor", "got 0"}},
      }};
}

}  // namespace adjoint::testing
