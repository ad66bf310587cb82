// A call of one of the trio's operators on CUDA, and a kernel that may compute it.
#pragma once

#include <adjoint/core/dtype.h>
#include <adjoint/core/precision.h>
#include <adjoint/ops/conv/base/machine.h>
#include <adjoint/ops/conv/geometry.h>
#include <adjoint/ops/elementwise/activation.h>

#include <cstddef>
#include <cstdint>

namespace adjoint::detail {
class KeptForms;
}

namespace adjoint::cuda {

/// Named after the tensor that is computed.
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
  // That plans are made for, whatever the device is.
  Machine machine = {};
  // Null where kernels are chosen for it and none is run.
  const void* first = nullptr;   // image, or for kImage feature
  const void* second = nullptr;  // filter, or for kFilter feature
  const void* bias = nullptr;    // one value a channel of the result, or null
  void* out = nullptr;
  Activation activation = {};  // of sum and bias, before they are rounded
  void* linear = nullptr;      // where it is not null, gets sum and bias as they are, rounded; like `out`
  // Whether another kernel of the call reads the results: then the copy engine does not write them, for tools that
  // watch memory do not see what it writes.
  bool read_again = false;
  // Where the filter is frozen, and is the second operand: what is kept of it.
  adjoint::detail::KeptForms* forms = nullptr;
};

struct ConvKernel {
  /// Role and tile, never a version.
  const char* name;
  /// Whether this kernel is right for the problem; that it is the quickest, choose/ decides. Decides by geometry,
  /// dtype, precision and the device's architecture: the answer is kept.
  bool (*takes)(const ConvProblem& problem);
  /// Enqueues on the device's current stream. Of conv and conv_transpose applies the activation, and writes `linear`.
  void (*run)(const ConvProblem& problem);
  /// Bytes of the device's memory that run() takes for its own use and gives back; null for none. Bounded: a filter
  /// padded to tiles, an input of a bounded size in another order, or partial sums of a filter.
  std::size_t (*workspace_bytes)(const ConvProblem& problem) = nullptr;
};

}  // namespace adjoint::cuda
