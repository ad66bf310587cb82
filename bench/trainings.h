// Training steps of the example programs' networks, for the benchmarks that time them.
#pragma once

#include <adjoint/adjoint.h>

#include "common/arithmetic.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace bench {

/// Networks with their optimisers.
class Training {
 public:
  virtual ~Training() = default;
  virtual std::vector<std::pair<std::string, adjoint::nn::Module*>> modules() = 0;
  /// Makes the optimisers of the modules where they are. With `parallel` the ranks average gradients (DataParallel).
  virtual void start(bool parallel, const adjoint::distributed::DataParallelOptions& options = {}) = 0;
  /// One update of each from a batch, whose tensors compare_training.py describes; returns the losses.
  virtual std::vector<adjoint::Tensor> step(examples::Arithmetic& arithmetic,
                                            const std::vector<adjoint::Tensor>& batch) = 0;
};

/// What a program trains by default (super_resolution, gan, vocoder, segmentation, autoencoder, by simpler losses for
/// the middle two of these); fsrcnn, dcgan, dcgan_plain, hifigan_v1, hifigan_v2; wide, of 104 million parameters.
/// Throws Error for another name.
std::unique_ptr<Training> make_training(const std::string& network);

}  // namespace bench
