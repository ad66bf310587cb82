// The vector-quantised autoencoder (van den Oord, Vinyals, Kavukcuoglu: "Neural discrete representation learning",
// 2017): a picture becomes 8 x 8 codes, and a network that predicts the next code generates new ones.
#pragma once

#include "codebook.h"
#include "model.h"
#include "prior.h"

#include <adjoint/nn/sequential.h>

#include <cstdint>

namespace autoencoder {

struct VqVaeOptions {
  /// The number of codes, and of numbers in each.
  std::int64_t codes = 256, width = 32;
  /// Channels at 16 x 16 pixels; twice as many at 8 x 8, and in the prior.
  std::int64_t features = 32;
};

class VqVae final : public adjoint::nn::Module, public Model {
 public:
  /// Throws Error for options out of range.
  explicit VqVae(const VqVaeOptions& options);

  struct Output {
    adjoint::Tensor pictures;
    adjoint::Tensor commitment;      // mean squared distance of vectors to their codes, whose gradient is the encoder's
    adjoint::Tensor prior;           // cross entropy of the codes under the prior, in nats a code
    adjoint::Tensor vectors, codes;  // (N, width, 8, 8) and (N, 8, 8), outside the tape
  };
  /// Reconstructs pictures from their codes. Their gradient passes the codes as if the vectors were not rounded
  /// (Bengio, Leonard, Courville: "Estimating or propagating gradients through stochastic neurons", 2013).
  Output operator()(const adjoint::Tensor& pictures) const;

  nlohmann::json options() const override;
  adjoint::nn::Module& module() override { return *this; }
  const Codebook& codebook() const { return codebook_; }
  const Prior& prior() const { return prior_; }
  adjoint::Tensor encode(const adjoint::Tensor& pictures) const override;
  adjoint::Tensor decode(const adjoint::Tensor& latent) const override { return decompress(codebook_.nearest(latent)); }
  adjoint::Tensor sample(std::int64_t count, adjoint::Device device) const override;
  adjoint::Tensor compress(const adjoint::Tensor& pictures) const override {
    return codebook_.nearest(encode(pictures));
  }
  adjoint::Tensor decompress(const adjoint::Tensor& kept) const override;
  std::int64_t kept() const override;
  double bits() const override;

 private:
  static constexpr std::int64_t kPriorBlocks = 4;
  static adjoint::nn::Sequential encoder(const VqVaeOptions& options);
  static adjoint::nn::Sequential decoder(const VqVaeOptions& options);
  adjoint::Tensor vectors_of(const adjoint::Tensor& codes) const;  // in the format of the decoder's filters

  VqVaeOptions options_;
  adjoint::nn::Child<adjoint::nn::Sequential> encoder_ = register_module("encoder", encoder(options_));
  adjoint::nn::Child<adjoint::nn::Sequential> decoder_ = register_module("decoder", decoder(options_));
  adjoint::nn::Child<Codebook> codebook_ = register_module("codebook", Codebook(options_.codes, options_.width));
  adjoint::nn::Child<Prior> prior_ =
      register_module("prior", Prior(options_.codes, 2 * options_.features, kPriorBlocks));
};

}  // namespace autoencoder
