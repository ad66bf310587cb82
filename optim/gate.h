// Numbers in the device's memory on which an update depends: the scale of its gradients, a flag that is set if one of
// them was infinite, and their norm. The host does not read them, so a step with a GradScaler or clipping neither waits
// nor rewrites the gradients in an extra pass. Internal to optim.
#pragma once

#include <adjoint/core/base/device.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/optim/clip_kernels.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <string>
#include <vector>

namespace adjoint::optim {

/// The most bytes of a rule.
inline constexpr std::size_t kRuleBytes = 96;

/// The numbers that an update reads; null if absent.
struct Gate {
  const float* scale = nullptr;      // gradients are divided by it
  const float* found_inf = nullptr;  // if it is not 0 nothing is updated, and the update does not count
  const double* norm = nullptr;      // of the gradients after that division; they are clipped to max_norm
  double max_norm = 0.0;

  /// The factor of the gradients.
  ADJOINT_HD double factor() const {
    const double factor = scale == nullptr ? 1.0 : inverse(scale);
    return norm == nullptr ? factor : factor * clip_factor(*norm, max_norm);
  }
};

/// A parameter's part, kept on its device from the first update with a Gate on: only the device knows how many of its
/// updates were skipped. The rule, which depends on that number, is therefore made there.
struct Gated {
  std::int64_t skipped;  // among the updates that the host counted
  std::int64_t skips;    // 1 if this update is skipped
  double factor;
  alignas(16) std::byte rule[kRuleBytes];

  /// Opens or closes it for one update with the host's count in `attr`.
  template <class Rule>
  ADJOINT_HD void decide(typename Rule::Attr attr, const Gate& gate) {
    if constexpr (requires { attr.step; }) attr.step -= static_cast<double>(skipped);
    skips = gate.found_inf != nullptr && *gate.found_inf != 0.0F ? 1 : 0;
    skipped += skips;
    factor = gate.factor();
    ::new (static_cast<void*>(rule)) Rule(attr);
  }
};
inline constexpr std::int64_t kGatedWords = sizeof(Gated) / sizeof(std::int64_t);

/// The Gate for the parameters on one device.
struct GateTensors {
  Device device;
  Tensor scale = {}, found_inf = {}, norm = {};
  double max_norm = 0.0;

  Gate gate() const;
};

/// A gate for each device with gradients. It reads the gradients at most once and does not change them: for found_inf
/// if there is a `scale` (float32), and for their norm if there is a max_norm. Throws Error for a max_norm that is
/// negative or NaN, and for a max_norm with gradients on several devices.
std::vector<GateTensors> measure(const std::string& op, const std::vector<Tensor>& parameters, const Tensor& scale,
                                 const std::optional<double>& max_norm);

}  // namespace adjoint::optim
