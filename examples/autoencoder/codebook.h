// Vector quantisation with a codebook that follows the vectors it quantises (van den Oord, Vinyals, Kavukcuoglu:
// "Neural discrete representation learning", 2017, with the averages of appendix A.1), in which unused codes restart at
// vectors of the batch (Dhariwal et al.: "Jukebox", 2020).
#pragma once

#include <adjoint/core/tensor/factories.h>
#include <adjoint/nn/module.h>

#include <cstdint>

namespace autoencoder {

class Codebook : public adjoint::nn::Module {
 public:
  Codebook(std::int64_t codes, std::int64_t width);

  /// Vectors (N, width, H, W) -> the nearest code of each, (N, H, W), int64. Not recorded.
  adjoint::Tensor nearest(const adjoint::Tensor& vectors) const;
  /// Codes (N, H, W) -> their vectors (N, width, H, W), float32. Not recorded.
  adjoint::Tensor vectors(const adjoint::Tensor& codes) const;
  /// Moves each code towards the mean of the vectors, of all ranks, that it is nearest to. A code with hardly any
  /// vector restarts at one of the batch's vectors, which its number in `chances` (codes), from 0 to 1, selects.
  void update(const adjoint::Tensor& vectors, const adjoint::Tensor& codes, const adjoint::Tensor& chances) const;

  std::int64_t size() const { return codes_; }

 private:
  std::int64_t codes_, width_;
  // Averages of how many vectors a batch has of each code, (codes), and of their sum, (codes, width).
  adjoint::nn::Buffer counts_ = register_buffer("counts", adjoint::zeros({codes_}));
  adjoint::nn::Buffer sums_ = register_buffer("sums", adjoint::zeros({codes_, width_}));
  adjoint::nn::Buffer codebook_ = register_buffer("codebook", adjoint::randn({codes_, width_}));  // (codes, width)
};

}  // namespace autoencoder
