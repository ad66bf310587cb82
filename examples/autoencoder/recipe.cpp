#include "recipe.h"

#include "vae.h"
#include "vqvae.h"

#include "common/drawn.h"
#include "common/memory_format.h"

#include <adjoint/core/base/error.h>
#include <adjoint/nn/data_parallel.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/index/index.h>
#include <adjoint/ops/loss/loss.h>
#include <adjoint/ops/reduce/reduce.h>

#include <fmt/format.h>

#include <cmath>

namespace autoencoder {
namespace {

using adjoint::Tensor;

class VaeRecipe final : public Recipe {
 public:
  VaeRecipe(const Options& options, adjoint::Device device, adjoint::MemoryFormat format)
      : beta_(options.beta),
        latent_(options.latent),
        device_(device),
        model_({.latent = options.latent, .features = options.features}),
        parallel_(examples::placed(model_, device, format)) {}

  Model& model() override { return model_; }
  std::vector<std::string> names() const override { return {"loss"}; }
  Tensor random(std::int64_t batch) const override { return Tensor::randn({batch, latent_}, {.device = device_}); }
  std::vector<Tensor> losses(const Tensor& pictures, const Tensor& random) override {
    return {vae_loss(parallel_(pictures, random), pictures, beta_)};
  }
  examples::Values test(const Tensor& pictures) override {
    const Vae::Output output = model_(pictures, Tensor::zeros({pictures.size(0), latent_}, {.device = device_}));
    const Tensor each = divergence(output.mean, output.log_variance).mean({0});  // (latent)
    constexpr double kActive = 0.01;                                             // nats
    return {{"divergence", each.sum().item<float>()},
            {"active_numbers", (each > kActive).to(adjoint::kFloat32).sum().item<float>()}};
  }

 private:
  double beta_;
  std::int64_t latent_;
  adjoint::Device device_;
  Vae model_;
  adjoint::distributed::DataParallel<Vae> parallel_;
};

class VqVaeRecipe final : public Recipe {
 public:
  VqVaeRecipe(const Options& options, double variance, adjoint::Device device, adjoint::MemoryFormat format)
      : commitment_(options.commitment),
        variance_(variance),
        device_(device),
        model_({.codes = options.codes, .width = options.code_width, .features = options.features}),
        parallel_(examples::placed(model_, device, format)) {}

  Model& model() override { return model_; }
  std::vector<std::string> names() const override { return {"loss", "prior_loss"}; }
  Tensor random(std::int64_t) const override { return Tensor::rand({model_.codebook().size()}, {.device = device_}); }
  std::vector<Tensor> losses(const Tensor& pictures, const Tensor&) override {
    last_ = parallel_(pictures);
    const Tensor loss = adjoint::mse_loss(last_.pictures, pictures) / variance_ + commitment_ * last_.commitment;
    return {loss, last_.prior};
  }
  void update(const Tensor& random) override {
    model_.codebook().update(last_.vectors, last_.codes, random);
    last_ = {};
  }
  examples::Values test(const Tensor& pictures) override {
    const VqVae::Output output = model_(pictures);
    const Tensor shares =
        adjoint::one_hot(output.codes.reshape({-1}), model_.codebook().size()).to(adjoint::kFloat32).mean({0});
    const Tensor entropy = -1.0 * (shares * adjoint::log(adjoint::clamp_min(shares, 1e-30))).sum();
    return {{"perplexity", std::exp(entropy.item<float>())},
            {"codes_used", (shares > 0.0).to(adjoint::kFloat32).sum().item<float>()},
            {"bits_a_code", output.prior.item<float>() / std::log(2.0)}};
  }

 private:
  double commitment_, variance_;
  adjoint::Device device_;
  VqVae model_;
  adjoint::distributed::DataParallel<VqVae> parallel_;
  VqVae::Output last_;
};

}  // namespace

void Options::add_to(examples::Settings& settings) {
  settings.add("--model", model, "vae (normally distributed numbers) or vqvae (codes)").choices({"vae", "vqvae"});
  settings.add("--images", images, "Folder of pictures, MNIST or CIFAR-10 (default: drawn pictures)");
  settings.add("--drawn", drawn, "Drawn pictures: shapes or digits").choices(examples::drawn_sets()).added();
  settings.add("--features", features, "Channels at 16 x 16 pixels").range(1, 1024).quick(16);
  settings.add("--latent", latent, "Numbers in a picture's code, for vae").range(1, 4096);
  settings.add("--beta", beta, "Weight of the divergence, for vae").range(0.0, 1e6);
  settings.add("--codes", codes, "Number of codes, for vqvae").range(2, 1 << 16);
  settings.add("--code-width", code_width, "Numbers in a code, for vqvae").range(1, 4096);
  settings.add("--commitment", commitment, "Weight of the distance of vectors to their codes").range(0.0, 1e6);
}

std::unique_ptr<Recipe> Recipe::of(const Options& options, double variance, std::int64_t batch, adjoint::Device device,
                                   adjoint::MemoryFormat format) {
  if (options.model == "vae" && batch < 2)  // with one, BatchNorm's statistics are those of the picture
    throw adjoint::Error(fmt::format("autoencoder: --batch must be at least 2 with --model vae; got {}", batch));
  if (options.model == "vae") return std::make_unique<VaeRecipe>(options, device, format);
  return std::make_unique<VqVaeRecipe>(options, variance, device, format);
}

}  // namespace autoencoder
