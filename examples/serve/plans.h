// The plans of one worker thread: one for each size of batch.
#pragma once

#include "network.h"
#include "protocol.h"

#include <adjoint/nn/plan.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace serve {

/// The sizes of the batches that are formed: powers of two up to `most`, and `most` itself, in ascending order.
std::vector<std::int64_t> batch_sizes(std::int64_t most);

/// All workers' plans share the weights, so they are made and destroyed by one thread, as nn::Plan requires.
class Plans {
 public:
  /// Throws Error if the network cannot be planned for a size, or does not keep the batch as its results' first axis.
  Plans(const Network& network, const std::vector<std::int64_t>& sizes);

  /// Computes the results of a batch of one of the sizes and writes the replies. If the network throws an Error, each
  /// request is computed alone, so that it fails for its own input only.
  void answer(std::span<const std::unique_ptr<Request>> batch);

 private:
  void compute(std::span<const std::unique_ptr<Request>> batch);

  std::vector<adjoint::nn::Plan> plans_;  // in the order of the sizes
};

}  // namespace serve
