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
  /// Makes the optimisers, on the modules' device. With `parallel` the ranks average gradients (DataParallel).
  virtual void start(bool parallel, const adjoint::distributed::DataParallelOptions& options = {}) = 0;
  /// Updates each network once from a batch, whose tensors compare_training.py describes, and returns the losses.
  virtual std::vector<adjoint::Tensor> step(examples::Arithmetic& arithmetic,
                                            const std::vector<adjoint::Tensor>& batch) = 0;
};

/// Returns a training by name. super_resolution, gan, vocoder, segmentation, autoencoder, diffusion and text are the
/// programs' defaults; vocoder and segmentation have simpler losses, and diffusion has no average of the weights. text
/// has no dropout, and Adam alone updates it: without decay, clipping or a schedule. The other names are fsrcnn, dcgan,
/// dcgan_plain, hifigan_v1, hifigan_v2, and wide, which has 104 million parameters. Throws Error for another name.
std::unique_ptr<Training> make_training(const std::string& network);

}  // namespace bench
