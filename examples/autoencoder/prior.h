// The distribution of a grid of codes: each code depends on the codes before it, line by line. Its convolutions see
// only these codes, as in PixelCNN++ (Salimans, Karpathy, Chen, Kingma, 2017): one stream sees the lines above, the
// other also the codes to the left.
#pragma once

#include <adjoint/nn/conv.h>
#include <adjoint/nn/embedding.h>
#include <adjoint/nn/module_list.h>

#include <cstdint>

namespace autoencoder {

class Prior : public adjoint::nn::Module {
 public:
  Prior(std::int64_t codes, std::int64_t width, std::int64_t blocks);
  /// Codes (N, H, W), int64 -> scores (N, codes, H, W) of each, which depend on those before it alone.
  adjoint::Tensor operator()(const adjoint::Tensor& codes) const;
  /// New codes (count, height, width), one after the other, by the thread's default generator.
  adjoint::Tensor sample(std::int64_t count, std::int64_t height, std::int64_t width, adjoint::Device device) const;

 private:
  using Conv = adjoint::nn::Conv2d;
  using Convs = adjoint::nn::ModuleList<Conv>;
  std::int64_t codes_, width_;
  adjoint::nn::Child<adjoint::nn::Embedding> embedding_ =
      register_module("embedding", adjoint::nn::Embedding(codes_, width_));
  adjoint::nn::Child<Conv> first_above_ = register_module("first_above", Conv(width_, width_, {2, 3}));
  adjoint::nn::Child<Conv> first_line_ =
      register_module("first_line", Conv(width_, width_, {1, 3}, {.padding = {0, 1}}));
  adjoint::nn::Child<Conv> first_left_ = register_module("first_left", Conv(width_, width_, {2, 1}));
  adjoint::nn::Child<Convs> above_ = register_module("above", Convs());
  adjoint::nn::Child<Convs> left_ = register_module("left", Convs());
  adjoint::nn::Child<Convs> across_ = register_module("across", Convs());
  adjoint::nn::Child<Conv> out_ = register_module("out", Conv(width_, codes_, 1));
};

}  // namespace autoencoder
