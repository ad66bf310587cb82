// Vector quantisation with a codebook that follows what it quantises (van den Oord, Vinyals, Kavukcuoglu: "Neural
// discrete representation learning", 2017, with the averages of appendix A.1), in which codes that are not used begin
// again at vectors of the batch (Dhariwal et al.: "Jukebox", 2020).
#pragma once

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
  /// Moves each code towards the mean of the vectors that it is nearest to, of all ranks. A code that has hardly any
  /// begins again at one of the batch's vectors: that which its number of `chances` (codes), from 0 to 1, points at.
  void update(const adjoint::Tensor& vectors, const adjoint::Tensor& codes, const adjoint::Tensor& chances) const;

  std::int64_t size() const { return codes_; }

 private:
  std::int64_t codes_, width_;
  // Averages of how many vectors a batch has of each code, (codes), and of their sum, (codes, width).
  adjoint::nn::Buffer counts_, sums_;
  adjoint::nn::Buffer codebook_;  // (codes, width)
};

}  // namespace autoencoder
