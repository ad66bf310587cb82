// What codes follow which: the distribution of a grid of codes, each given those before it, line by line, by
// convolutions that see nothing else, as in PixelCNN++ (Salimans, Karpathy, Chen, Kingma, 2017): one stream sees the
// lines above, the other, beside that, what stands to the left.
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
  using Convs = adjoint::nn::ModuleList<adjoint::nn::Conv2d>;
  adjoint::nn::Child<adjoint::nn::Embedding> embedding_;
  adjoint::nn::Child<adjoint::nn::Conv2d> first_above_, first_line_, first_left_;
  adjoint::nn::Child<Convs> above_, left_, across_;
  adjoint::nn::Child<adjoint::nn::Conv2d> out_;
};

}  // namespace autoencoder
