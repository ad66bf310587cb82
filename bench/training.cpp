// Training steps of the example programs' networks, for bench/compare_training.py, which loads this library into
// PyTorch's process: weights and batches come in a safetensors file, so that both sides train the same network on the
// same data.
#include "guarded.h"

#include <adjoint/adjoint.h>

#include "autoencoder/vae.h"
#include "common/arithmetic.h"
#include "gan/networks.h"
#include "nn/networks/fsrcnn.h"
#include "segmentation/unet.h"
#include "super_resolution/model.h"
#include "vocoder/generator.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace adjoint;
using bench::guarded;
using Tensors = std::vector<Tensor>;
using Clock = std::chrono::steady_clock;

/// A network with its optimiser. The step returns its losses and takes a batch, whose tensors compare_training.py
/// describes.
class Training {
 public:
  virtual ~Training() = default;
  virtual std::vector<std::pair<std::string, nn::Module*>> modules() = 0;
  virtual void make_optimizers() = 0;  // of the modules where they are
  virtual Tensors step(examples::Arithmetic& arithmetic, const Tensors& batch) = 0;
};

template <class Net>
class OfOneNet final : public Training {
 public:
  using Loss = std::function<Tensor(const Net&, const Tensors&)>;
  OfOneNet(Net net, const optim::AdamOptions& options, Loss loss)
      : net_(std::move(net)), options_(options), loss_(std::move(loss)) {}
  std::vector<std::pair<std::string, nn::Module*>> modules() override { return {{"net", &net_}}; }
  void make_optimizers() override { adam_ = std::make_unique<optim::Adam>(net_.parameters(), options_); }
  Tensors step(examples::Arithmetic& arithmetic, const Tensors& batch) override {
    return {arithmetic.minimise(*adam_, [&] { return loss_(net_, batch); })};
  }

 private:
  Net net_;
  optim::AdamOptions options_;
  Loss loss_;
  std::unique_ptr<optim::Adam> adam_;
};

template <class Net, class Loss>
std::unique_ptr<Training> of_one(Net net, const optim::AdamOptions& options, Loss loss) {
  return std::make_unique<OfOneNet<Net>>(std::move(net), options, std::move(loss));
}

/// As examples/gan trains, without its average of the weights.
class GanPair final : public Training {
 public:
  explicit GanPair(gan::Normalisation normalisation) : discriminator_(32, normalisation) {}
  std::vector<std::pair<std::string, nn::Module*>> modules() override {
    return {{"generator", &generator_}, {"discriminator", &discriminator_}};
  }
  void make_optimizers() override {
    const optim::AdamOptions options{.lr = 2e-4, .betas = {0.5, 0.999}};
    adam_g_ = std::make_unique<optim::Adam>(generator_.parameters(), options);
    adam_d_ = std::make_unique<optim::Adam>(discriminator_.parameters(), options);
  }
  Tensors step(examples::Arithmetic& arithmetic, const Tensors& batch) override {
    const std::int64_t n = batch[0].size(0);
    const Tensor fake = generator_(batch[1].narrow(0, 0, n));  // no tape records it
    const Tensor loss_d = arithmetic.minimise(*adam_d_, [&] {
      const Tensor of_real = discriminator_(batch[0]);  // first: C++ leaves the order within an expression open
      return gan_discriminator_loss(GanLoss::kNonSaturating, of_real, discriminator_(fake));
    });
    discriminator_.requires_grad_(false);
    const Tensor loss_g = arithmetic.minimise(*adam_g_, [&] {
      return gan_generator_loss(GanLoss::kNonSaturating, discriminator_(generator_(batch[1].narrow(0, n, n))));
    });
    discriminator_.requires_grad_(true);
    return {loss_g, loss_d};
  }

 private:
  gan::Generator generator_{{.latent = 64, .features = 32}};
  gan::Discriminator discriminator_;
  std::unique_ptr<optim::Adam> adam_g_, adam_d_;
};

std::unique_ptr<Training> vocoder_of(const std::string& network) {
  return of_one(vocoder::Generator({.network = network}), {.lr = 1e-4, .betas = {0.8, 0.99}},
                [](const vocoder::Generator& net, const Tensors& batch) {
                  return l1_loss(net(batch[0]).to(kFloat32), batch[1]);
                });
}

std::unique_ptr<Training> make_training(const std::string& network) {
  constexpr double kLr = 1e-4;
  const auto mse = [](const auto& net, const Tensors& batch) { return mse_loss(net(batch[0]), batch[1]); };
  using Make = std::function<std::unique_ptr<Training>()>;
  static const std::map<std::string, Make> all{
      {"super_resolution", [&] { return of_one(super_resolution::Model(), {.lr = kLr}, mse); }},
      {"fsrcnn", [&] { return of_one(networks::Fsrcnn(3, 56, 12, 4), {.lr = kLr}, mse); }},
      {"dcgan", [] { return std::make_unique<GanPair>(gan::Normalisation::kBatch); }},
      {"dcgan_plain", [] { return std::make_unique<GanPair>(gan::Normalisation::kNone); }},
      {"hifigan_v1", [] { return vocoder_of("v1"); }},
      {"hifigan_v2", [] { return vocoder_of("v2"); }},
      {"unet",
       [&] {
         return of_one(segmentation::UNet({}), {.lr = kLr}, [](const segmentation::UNet& net, const Tensors& batch) {
           return cross_entropy(net(batch[0]), batch[1]);
         });
       }},
      {"vae",
       [&] {
         return of_one(autoencoder::Vae({}), {.lr = kLr}, [](const autoencoder::Vae& net, const Tensors& batch) {
           return autoencoder::vae_loss(net(batch[0], batch[1]), batch[0], 1.0);
         });
       }},
  };
  const auto found = all.find(network);
  if (found == all.end()) throw Error("bench_training: there is no network '" + network + "'");
  return found->second();
}

double milliseconds(Clock::time_point since) {
  return std::chrono::duration<double, std::milli>(Clock::now() - since).count();
}

}  // namespace

/// What the functions below take.
struct BenchTraining {
  BenchTraining(const std::string& network, const std::string& file, std::string of_precision, Device on, bool graphed)
      : precision(std::move(of_precision)),
        device(on),
        before(memory_stats(on).in_use),
        training(make_training(network)) {
    const NamedTensors tensors = nn::load_safetensors(file).tensors;
    const auto below = [&](const std::string& prefix) {
      NamedTensors found;
      for (const auto& [name, tensor] : tensors) {
        if (name.starts_with(prefix + ".")) found.emplace_back(name.substr(prefix.size() + 1), tensor);
      }
      return found;
    };
    for (const auto& [name, module] : training->modules()) {
      module->load_state_dict(below(name));
      module->to(device);
    }
    training->make_optimizers();
    for (;;) {
      const NamedTensors batch = below("batch." + std::to_string(batches.size()));
      if (batch.empty()) break;
      batches.emplace_back();
      for (const auto& [name, tensor] : batch) batches.back().push_back(tensor.to(device));
    }
    if (graphed) {
      step = std::make_unique<GraphedStep>([this](const Tensors& batch) { return plain(batch); },
                                           GraphedStepOptions{.device = device});
    }
  }

  Tensors plain(const Tensors& batch) {
    examples::Arithmetic arithmetic(precision);
    return training->step(arithmetic, batch);
  }
  Tensors next() {
    const Tensors& batch = batches[count++ % batches.size()];
    if (!step) return plain(batch);
    const examples::Arithmetic arithmetic(precision);  // a graph serves the thread's precision
    return (*step)(batch);
  }

  std::string precision;
  Device device;
  std::size_t before;
  std::unique_ptr<Training> training;
  std::vector<Tensors> batches;
  std::unique_ptr<GraphedStep> step;
  std::size_t count = 0;
};

extern "C" {

const char* bench_last_error() { return bench::last_error.c_str(); }

/// `file` holds the modules' state, "net.<name>", and batches, "batch.<i>.<j>". Null for an error.
BenchTraining* bench_make(const char* network, const char* file, const char* precision, int on_cuda, int graphed) {
  std::unique_ptr<BenchTraining> made;
  const int failed = guarded([&] {
    made = std::make_unique<BenchTraining>(network, file, precision, on_cuda != 0 ? Device(kCUDA) : Device(kCPU),
                                           graphed != 0);
  });
  return failed ? nullptr : made.release();
}
void bench_release(BenchTraining* training) { delete training; }

/// Milliseconds of each of `steps` steps, one behind the other.
int bench_run(BenchTraining* training, std::int64_t steps, double* ms) {
  return guarded([&] {
    synchronize(training->device);
    const Clock::time_point begin = Clock::now();
    for (std::int64_t i = 0; i < steps; ++i) training->next();
    synchronize(training->device);
    *ms = milliseconds(begin) / static_cast<double>(steps);
  });
}

/// The median milliseconds that a step keeps the host, whose device has nothing to do.
int bench_host(BenchTraining* training, std::int64_t steps, double* ms) {
  return guarded([&] {
    std::vector<double> all;
    for (std::int64_t i = 0; i < steps; ++i) {
      synchronize(training->device);
      const Clock::time_point begin = Clock::now();
      training->next();
      all.push_back(milliseconds(begin));
    }
    synchronize(training->device);
    std::nth_element(all.begin(), all.begin() + steps / 2, all.end());
    *ms = all[static_cast<std::size_t>(steps / 2)];
  });
}

/// The next steps' losses, step by step: (steps, losses a step).
int bench_losses(BenchTraining* training, std::int64_t steps, double* losses) {
  return guarded([&] {
    std::vector<Tensors> all;
    for (std::int64_t i = 0; i < steps; ++i) all.push_back(training->next());
    for (const Tensors& step : all) {
      for (const Tensor& loss : step) *losses++ = loss.item<double>();
    }
  });
}

/// Most bytes of tensors during `steps` steps, the training's own from its making on; of a graphed one with its graphs.
int bench_peak(BenchTraining* training, std::int64_t steps, std::int64_t* bytes) {
  return guarded([&] {
    reset_peak_memory_stats(training->device);
    for (std::int64_t i = 0; i < steps; ++i) training->next();
    synchronize(training->device);
    const std::size_t graphs = training->step ? training->step->bytes() : 0;
    *bytes = static_cast<std::int64_t>(memory_stats(training->device).peak - training->before + graphs);
  });
}

}  // extern "C"
