// A call of one of the trio's operators on CUDA, and a kernel that may compute it.
#pragma once

#include <adjoint/core/base/precision.h>
#include <adjoint/core/tensor/dtype.h>
#include <adjoint/ops/conv/base/machine.h>
#include <adjoint/ops/conv/geometry.h>
#include <adjoint/ops/elementwise/activation.h>

#include <cstddef>
#include <cstdint>

namespace adjoint::detail {
class KeptForms;
}

namespace adjoint::cuda {

/// Named after the computed tensor.
enum class ConvRole : std::uint8_t {
  kFeature,  // conv: from image and filter
  kImage,    // conv_transpose: from feature and filter
  kFilter,   // conv_weight: from image and feature
};
inline constexpr ConvRole kConvRoles[] = {ConvRole::kFeature, ConvRole::kImage, ConvRole::kFilter};

/// The operator that computes it.
constexpr const char* role_name(ConvRole role) {
  switch (role) {
    case ConvRole::kFeature: return "conv";
    case ConvRole::kImage: return "conv_transpose";
    case ConvRole::kFilter: break;
  }
  return "conv_weight";
}

/// One call: operands are contiguous, on `device`, and have the geometry's shapes.
struct ConvProblem {
  ConvRole role;
  ConvGeometry geometry;
  DType dtype;
  Precision precision;  // of float32
  int device;
  // The machine for which plans are made on every device.
  Machine machine = {};
  // Null if kernels are only chosen and not run.
  const void* first = nullptr;           // image, or for kImage feature
  const void* second = nullptr;          // filter, or for kFilter feature
  const void* bias = nullptr;            // one value per channel of the result, or null
  bool filter_is_channels_last = false;  // (Cf, taps, Ci) in memory, read or written; only for run_channels_last()
  bool image_is_padded = false;          // to channels of multiples of 16 bytes; only for run_channels_last()
  void* out = nullptr;
  Activation activation = {};  // applied to sum and bias, before rounding
  void* linear = nullptr;  // if not null, receives sum and bias without the activation, rounded; laid out like `out`
  // True if another kernel of the call reads the results: then the copy engine does not write them, because memory
  // checkers do not see its writes.
  bool read_again = false;
  // The kept forms of the filter, if it is frozen and the second operand.
  adjoint::detail::KeptForms* forms = nullptr;
};

struct ConvKernel {
  /// Role and tile, never a version.
  const char* name;
  /// Returns true if this kernel supports the problem, which has no depth unless takes_depth is set; choose/ decides if
  /// the kernel is the fastest. Depends on geometry, dtype, precision and the device's architecture only, because the
  /// answer is kept.
  bool (*supports)(const ConvProblem& problem);
  /// Enqueues on the device's current stream. For conv and conv_transpose it applies the activation, and writes
  /// `linear`.
  void (*run)(const ConvProblem& problem);
  /// Bytes of device memory that run() needs temporarily; null: no memory. Bounded: a filter padded to tiles, an input
  /// of a bounded size in another order, or partial sums of a filter.
  std::size_t (*workspace_bytes)(const ConvProblem& problem) = nullptr;
  bool takes_depth = false;

  bool takes(const ConvProblem& problem) const {
    return (takes_depth || is_planar(problem.geometry)) && supports(problem);
  }
};

}  // namespace adjoint::cuda
