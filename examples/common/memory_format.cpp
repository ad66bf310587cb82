#include "common/memory_format.h"

#include <algorithm>

namespace examples {

using adjoint::MemoryFormat;
using adjoint::Tensor;

const std::vector<std::string>& memory_formats() {
  static const std::vector<std::string> names{"auto", "contiguous", "channels-last"};
  return names;
}

// The convolutions that read channels_last without copies need Hopper's instructions. In TF32 too they are faster for
// two networks of 64 channels (bench/results/steps.md); the programs' own steps in TF32 have only been measured
// contiguous.
MemoryFormat automatic_memory_format(int compute_capability, const std::string& precision) {
  constexpr int kHopper = 90;
  const bool is_half = precision == "bf16" || precision == "fp16";
  return compute_capability == kHopper && is_half ? adjoint::kChannelsLast : adjoint::kContiguous;
}

MemoryFormat memory_format_of(const std::string& value, adjoint::Device device, const std::string& precision) {
  if (value == "auto") return automatic_memory_format(adjoint::compute_capability(device), precision);
  return value == "channels-last" ? adjoint::kChannelsLast : adjoint::kContiguous;
}

Tensor in_format(const Tensor& batch, MemoryFormat format) {
  return batch.dim() == 4 || batch.dim() == 5 ? batch.to(format) : batch;
}

MemoryFormat format_of(const adjoint::nn::Module& net) {
  const std::vector<Tensor> parameters = net.parameters();
  const bool last = std::any_of(parameters.begin(), parameters.end(),
                                [](const Tensor& p) { return p.memory_format() == adjoint::kChannelsLast; });
  return last ? adjoint::kChannelsLast : adjoint::kContiguous;
}

adjoint::nn::Sequential in_format_after(std::size_t count, const adjoint::nn::Sequential& layers) {
  adjoint::nn::Sequential result;
  for (std::size_t i = 0; i <= layers.size(); ++i) {
    if (i == count) result.append("format", [layers](const Tensor& x) { return in_format(x, format_of(layers)); });
    if (i < layers.size()) result.append(std::to_string(i), layers[i]);
  }
  return result;
}

}  // namespace examples
