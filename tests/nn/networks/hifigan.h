// HiFi-GAN's generator (Kong, Kim, Bae: "HiFi-GAN: generative adversarial networks for efficient and high fidelity
// speech synthesis", 2020): transposed convolutions from a mel spectrogram's rate to the sound's, each followed by the
// mean of residual blocks of several kernel sizes and dilations. Every convolution is weight-normalised.
#pragma once

#include <adjoint/adjoint.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace adjoint::networks {

class ResBlock : public nn::Module {
 public:
  ResBlock(std::int64_t channels, std::int64_t kernel_size, const std::vector<std::int64_t>& dilations = {1, 3, 5})
      : Module("ResBlock"),
        convs1(register_module("convs1", nn::ModuleList<nn::Conv1d>())),
        convs2(register_module("convs2", nn::ModuleList<nn::Conv1d>())) {
    const auto conv = [&](std::int64_t dilation) {
      return nn::weight_norm(
          nn::Conv1d(channels, channels, {.kernel_size = kernel_size, .padding = nn::kSame, .dilation = dilation}));
    };
    for (const std::int64_t dilation : dilations) {
      convs1.append(conv(dilation));
      convs2.append(conv(1));
    }
  }
  Tensor operator()(Tensor x) const {
    for (std::size_t i = 0; i < convs1.size(); ++i) {
      x = x + convs2[i](leaky_relu(convs1[i](leaky_relu(x, 0.1)), 0.1));
    }
    return x;
  }

  nn::Child<nn::ModuleList<nn::Conv1d>> convs1, convs2;
};

/// Mel spectrograms (N, mels, frames) -> sound (N, 1, frames * the rates' product) in (-1, 1).
class HifiGan : public nn::Module {
 public:
  explicit HifiGan(std::int64_t mels = 6, std::int64_t channels = 8, const std::vector<std::int64_t>& rates = {4, 4},
                   const std::vector<std::int64_t>& kernel_sizes = {3, 7, 11})
      : Module("HifiGan"),
        conv_pre(
            register_module("conv_pre", nn::weight_norm(nn::Conv1d(mels, channels, {.kernel_size = 7, .padding = 3})))),
        ups(register_module("ups", nn::ModuleList<nn::ConvTranspose1d>())),
        resblocks(register_module("resblocks", nn::ModuleList<ResBlock>())),
        conv_post(register_module("conv_post", nn::weight_norm(nn::Conv1d(channels >> rates.size(), 1,
                                                                          {.kernel_size = 7, .padding = 3})))),
        blocks_(kernel_sizes.size()) {
    for (const std::int64_t rate : rates) {
      ups.append(nn::weight_norm(
          nn::ConvTranspose1d(channels, channels / 2, {.kernel_size = rate * 2, .stride = rate, .padding = rate / 2})));
      channels /= 2;
      for (const std::int64_t kernel_size : kernel_sizes) resblocks.append(ResBlock(channels, kernel_size));
    }
  }
  Tensor operator()(const Tensor& mel) const {
    Tensor x = conv_pre(mel);
    for (std::size_t i = 0; i < ups.size(); ++i) {
      x = ups[i](leaky_relu(x, 0.1));
      Tensor sum = resblocks[i * blocks_](x);
      for (std::size_t j = 1; j < blocks_; ++j) sum = sum + resblocks[i * blocks_ + j](x);
      x = sum / static_cast<double>(blocks_);
    }
    return tanh(conv_post(leaky_relu(x)));
  }

  /// The paper's loss of mel spectrograms, here of sound at 8 kHz.
  Tensor loss(const Tensor& mel, const Tensor& audio) const {
    return 45.0 * mel_loss((*this)(mel), audio,
                           {.spectrogram = {.sample_rate = 8000.0,
                                            .n_fft = 64,
                                            .n_mels = 6,
                                            .hop_length = 16,
                                            .power = 1.0,
                                            .mel = {.scale = MelScale::kSlaney, .norm = MelNorm::kSlaney}}});
  }

  nn::Child<nn::Conv1d> conv_pre;
  nn::Child<nn::ModuleList<nn::ConvTranspose1d>> ups;
  nn::Child<nn::ModuleList<ResBlock>> resblocks;
  nn::Child<nn::Conv1d> conv_post;

 private:
  std::size_t blocks_;  // behind each transposed convolution
};

}  // namespace adjoint::networks
