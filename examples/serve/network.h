// The network that the server runs and that the client compares with.
#pragma once

#include <adjoint/core/tensor/tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace serve {

struct NetworkOptions {
  /// An ONNX file, or model.safetensors of examples/gan; empty: a small classifier with fixed random weights.
  std::string model;
  /// Of an ONNX file: the extents of one input, without the batch.
  std::vector<std::int64_t> shape;
};

struct Network {
  std::string name;
  /// Of one input, without the batch.
  adjoint::Shape shape;
  /// Inputs (batch, shape...) in float32 -> results (batch, ...), in eval mode.
  std::function<adjoint::Tensor(const adjoint::Tensor&)> call;

  /// The shape of a batch of inputs.
  adjoint::Shape batch_of(std::int64_t size) const;
};

/// Throws Error, naming the file, if it cannot be read or does not fit the options.
Network load_network(const NetworkOptions& options);

}  // namespace serve
