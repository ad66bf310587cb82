#include <adjoint/optim/gate.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/copy.h>

#include <algorithm>

namespace adjoint::optim {

Gate GateTensors::gate() const {
  Gate gate{.max_norm = max_norm};
  if (scale.defined()) gate.scale = scale.data<float>();
  if (found_inf.defined()) gate.found_inf = found_inf.data<float>();
  if (norm.defined()) gate.norm = norm.data<double>();
  return gate;
}

std::vector<GateTensors> measure(const std::string& op, const std::vector<Tensor>& parameters, const Tensor& scale,
                                 const std::optional<double>& max_norm) {
  ADJOINT_CHECK(!max_norm || *max_norm >= 0.0, "{}: max_norm must not be negative; got {}", op, max_norm.value_or(0.0));
  std::vector<GateTensors> gates;
  std::vector<std::vector<Tensor>> gradients;  // one per gate
  for (const Tensor& parameter : parameters) {
    if (!parameter.grad().defined()) continue;
    const Device device = parameter.grad().device();
    const auto found =
        std::find_if(gates.begin(), gates.end(), [&](const GateTensors& gate) { return gate.device == device; });
    const auto at = static_cast<std::size_t>(found - gates.begin());
    if (found == gates.end()) {
      gates.push_back({.device = device});
      gradients.emplace_back();
    }
    gradients[at].push_back(parameter.grad());
  }
  ADJOINT_CHECK(!max_norm || gates.size() < 2, "{}: gradients must be on one device to be clipped; got {} and {}", op,
                gates[0].device, gates[1].device);
  if (!scale.defined() && !max_norm) return gates;
  for (std::size_t g = 0; g < gates.size(); ++g) {
    GateTensors& gate = gates[g];
    gate.norm = Tensor::zeros({}, {.dtype = kFloat64, .device = gate.device});
    if (scale.defined()) {
      gate.scale = scale.to(gate.device);
      gate.found_inf = Tensor::zeros({}, {.dtype = kFloat32, .device = gate.device});
    }
    std::vector<Piece> pieces;
    for (Tensor& gradient : gradients[g]) {
      if (gradient.numel() == 0) continue;
      gradient = contiguous_copy(gradient);
      pieces.push_back({const_cast<void*>(gradient.raw_data()), gradient.numel(), gradient.dtype()});
    }
    const Norm rule{2.0, gate.gate().scale, scale.defined() ? gate.found_inf.mutable_data<float>() : nullptr};
    auto* const norm = gate.norm.mutable_data<double>();
    if (gate.device.is_cpu()) cpu::norm(pieces, rule, norm);
#if defined(ADJOINT_WITH_CUDA)
    if (gate.device.is_cuda()) cuda::norm(pieces, rule, norm, gate.device.index);
#endif
    max_norm ? void(gate.max_norm = *max_norm) : void(gate.norm = {});
  }
  return gates;
}

}  // namespace adjoint::optim
