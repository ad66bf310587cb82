// The training and measuring of one kind of autoencoder; the Trainer does the parts common to both.
#pragma once

#include "model.h"

#include "common/settings.h"
#include "common/training.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace autoencoder {

struct Options {
  std::string model = "vae";
  /// Folder of pictures, or with MNIST's or CIFAR-10's files; empty: drawn ones.
  std::string images;
  std::string drawn = "shapes";
  std::int64_t features = 32;
  std::int64_t latent = 32;  // vae's
  double beta = 4.0;
  std::int64_t codes = 256, code_width = 32;  // vqvae's
  double commitment = 0.25;

  void add_to(examples::Settings& settings);
};

class Recipe {
 public:
  /// `variance` of the elements that are trained on, `batch` pictures a step. Throws Error for options that cannot be.
  static std::unique_ptr<Recipe> of(const Options& options, double variance, std::int64_t batch, adjoint::Device device,
                                    adjoint::MemoryFormat format);
  virtual ~Recipe() = default;
  Recipe(const Recipe&) = delete;
  Recipe& operator=(const Recipe&) = delete;

  virtual Model& model() = 0;
  virtual std::vector<std::string> names() const = 0;
  /// The random numbers that a step reads, on the device.
  virtual adjoint::Tensor random(std::int64_t batch) const = 0;
  /// A scalar for each name; training minimises their sum.
  virtual std::vector<adjoint::Tensor> losses(const adjoint::Tensor& pictures, const adjoint::Tensor& random) = 0;
  /// Changes state other than the parameters, after losses() and the optimiser's update.
  virtual void update(const adjoint::Tensor&) {}
  /// Further measurements besides the quality of reconstructions, in eval mode.
  virtual examples::Values test(const adjoint::Tensor& pictures) = 0;

 protected:
  Recipe() = default;
};

}  // namespace autoencoder
