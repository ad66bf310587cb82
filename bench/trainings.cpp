#include "trainings.h"

#include "autoencoder/vae.h"
#include "diffusion/denoiser.h"
#include "diffusion/process.h"
#include "gan/networks.h"
#include "nn/networks/fsrcnn.h"
#include "segmentation/unet.h"
#include "super_resolution/model.h"
#include "text/gpt.h"
#include "vocoder/generator.h"

#include <functional>
#include <map>
#include <optional>

namespace bench {
namespace {

using namespace adjoint;
using Tensors = std::vector<Tensor>;

constexpr double kLr = 1e-4;

/// A network that trains alone, or together with those of the other ranks.
template <class Net>
struct Trained {
  Net net;
  std::unique_ptr<optim::Adam> adam = nullptr;
  std::optional<distributed::DataParallel<Net>> parallel = std::nullopt;

  void start(const optim::AdamOptions& options, bool in_parallel, const distributed::DataParallelOptions& of_parallel) {
    if (in_parallel) parallel.emplace(net, of_parallel);
    adam = std::make_unique<optim::Adam>(net.parameters(), options);
  }
  template <class... Inputs>
  auto operator()(const Inputs&... inputs) const {
    return parallel ? (*parallel)(inputs...) : net(inputs...);
  }
};

/// A training of one network by loss(net, batch); `loss` calls `net` like a Net.
template <class Net, class Loss>
class OfOneNet final : public Training {
 public:
  OfOneNet(Net net, const optim::AdamOptions& options, Loss loss)
      : trained_{std::move(net)}, options_(options), loss_(std::move(loss)) {}
  std::vector<std::pair<std::string, nn::Module*>> modules() override { return {{"net", &trained_.net}}; }
  void start(bool parallel, const distributed::DataParallelOptions& of_parallel) override {
    trained_.start(options_, parallel, of_parallel);
  }
  Tensors step(examples::Arithmetic& arithmetic, const Tensors& batch) override {
    return {arithmetic.minimise(*trained_.adam, [&] { return loss_(trained_, batch); })};
  }

 private:
  Trained<Net> trained_;
  optim::AdamOptions options_;
  Loss loss_;
};

template <class Net, class Loss>
std::unique_ptr<Training> of_one(Net net, const optim::AdamOptions& options, Loss loss) {
  return std::make_unique<OfOneNet<Net, Loss>>(std::move(net), options, std::move(loss));
}

/// The training of examples/gan, without its average of the weights.
class GanPair final : public Training {
 public:
  GanPair(std::int64_t features, gan::Normalisation normalisation)
      : generator_{gan::Generator({.latent = 64, .features = features})},
        discriminator_{gan::Discriminator(features, normalisation)} {}
  std::vector<std::pair<std::string, nn::Module*>> modules() override {
    return {{"generator", &generator_.net}, {"discriminator", &discriminator_.net}};
  }
  void start(bool parallel, const distributed::DataParallelOptions& of_parallel) override {
    const optim::AdamOptions options{.lr = 2e-4, .betas = {0.5, 0.999}};
    generator_.start(options, parallel, of_parallel);
    discriminator_.start(options, parallel, of_parallel);
  }
  Tensors step(examples::Arithmetic& arithmetic, const Tensors& batch) override {
    const std::int64_t n = batch[0].size(0);
    const Tensor fake = generator_(batch[1].narrow(0, 0, n));  // no tape records it
    const Tensor loss_d = arithmetic.minimise(*discriminator_.adam, [&] {
      const Tensor of_real = discriminator_(batch[0]);  // a separate statement fixes the order
      return gan_discriminator_loss(GanLoss::kNonSaturating, of_real, discriminator_(fake));
    });
    discriminator_.net.requires_grad_(false);
    const Tensor loss_g = arithmetic.minimise(*generator_.adam, [&] {
      return gan_generator_loss(GanLoss::kNonSaturating, discriminator_(generator_(batch[1].narrow(0, n, n))));
    });
    discriminator_.net.requires_grad_(true);
    return {loss_g, loss_d};
  }

 private:
  Trained<gan::Generator> generator_;
  Trained<gan::Discriminator> discriminator_;
};

std::unique_ptr<Training> hifigan(const std::string& network, std::int64_t clock) {
  return of_one(vocoder::Generator({.network = network, .clock = clock}), {.lr = 1e-4, .betas = {0.8, 0.99}},
                [](const auto& net, const Tensors& batch) { return l1_loss(net(batch[0]).to(kFloat32), batch[1]); });
}

constexpr auto mse = [](const auto& net, const Tensors& batch) { return mse_loss(net(batch[0]), batch[1]); };

nn::Sequential wide() {
  nn::Sequential network;
  for (int i = 0; i < 11; ++i) {
    network.append(nn::Conv2d(1024, 1024, {.kernel_size = 3, .padding = 1}));
    network.append(nn::ReLU());
  }
  return network;
}

}  // namespace

std::unique_ptr<Training> make_training(const std::string& network) {
  using Make = std::function<std::unique_ptr<Training>()>;
  static const std::map<std::string, Make> all{
      {"super_resolution", [] { return of_one(super_resolution::Model(), {.lr = kLr}, mse); }},
      {"fsrcnn", [] { return of_one(networks::Fsrcnn(3, 56, 12, 4), {.lr = kLr}, mse); }},
      {"gan", [] { return std::make_unique<GanPair>(64, gan::Normalisation::kBatch); }},
      {"dcgan", [] { return std::make_unique<GanPair>(32, gan::Normalisation::kBatch); }},
      {"dcgan_plain", [] { return std::make_unique<GanPair>(32, gan::Normalisation::kNone); }},
      {"vocoder", [] { return hifigan("v1", 8); }},
      {"hifigan_v1", [] { return hifigan("v1", 0); }},
      {"hifigan_v2", [] { return hifigan("v2", 0); }},
      {"segmentation",
       [] {
         return of_one(segmentation::UNet({.classes = 5}), {.lr = kLr},
                       [](const auto& net, const Tensors& batch) { return cross_entropy(net(batch[0]), batch[1]); });
       }},
      {"autoencoder",
       [] {
         return of_one(autoencoder::Vae({}), {.lr = kLr}, [](const auto& net, const Tensors& batch) {
           return autoencoder::vae_loss(net(batch[0], batch[1]), batch[0], 1.0);
         });
       }},
      {"diffusion",
       [] {
         return of_one(diffusion::Denoiser({}), {.lr = kLr},
                       [noising = std::optional<diffusion::Noising>()](const auto& net, const Tensors& batch) mutable {
                         if (!noising) noising.emplace(batch[0].device());
                         const auto [pictures, velocity] = (*noising)(batch[0], batch[1], batch[2]);
                         return mse_loss(net(pictures, batch[2]).to(kFloat32), velocity);
                       });
       }},
      {"text",
       [] {
         return of_one(text::Gpt({.dropout = 0.0}), {.lr = kLr}, [](const auto& net, const Tensors& batch) {
           const std::int64_t length = batch[0].size(1) - 1;
           const Tensor scores = net(batch[0].narrow(1, 0, length)).to(kFloat32);
           return cross_entropy(scores.reshape({-1, text::Gpt::kBytes}), batch[0].narrow(1, 1, length).reshape({-1}));
         });
       }},
      {"wide",
       [&] {
         return of_one(wide(), {.lr = kLr},
                       [](const auto& net, const Tensors& batch) { return net(batch[0]).square().mean(); });
       }},
  };
  const auto found = all.find(network);
  if (found == all.end()) throw Error("bench: there is no network '" + network + "'");
  return found->second();
}

}  // namespace bench
