// You are at stop 4 of 7 of the README's reading path, the trio: these are the public functions. trio.cpp comes next.
//
// The public convolutions: checks PyTorch's arguments and turns them into one operator of the trio, with its
// activation.

#include <adjoint/ops/conv/conv.h>

#include <adjoint/core/autograd/autocast.h>
#include <adjoint/core/autograd/op_scope.h>
#include <adjoint/ops/conv/check.h>
#include <adjoint/ops/conv/trio.h>
#include <adjoint/ops/elementwise/activate.h>

namespace adjoint {
namespace {

Extents extents(const Size2& size) { return {size.h, size.w}; }
Margins margins(const Size2& size) { return {size.h, size.w}; }
Extents extents(const Size3& size) { return {size.d, size.h, size.w}; }
Margins margins(const Size3& size) { return {size.d, size.h, size.w}; }

Tensor run(const ConvCall& call);

// In the surrounding region's dtype. A separate activation has its own policy.
Tensor run_in_region(const ConvCall& call) {
  const bool fused = fuses_into_convolution(call.activation);
  const auto cast = [&] {
    const detail::AutocastCall low(MixedPrecision::kLow, {call.input, call.weight, call.bias});
    return run({.op = call.op,
                .rank = call.rank,
                .transposed = call.transposed,
                .input = low[0],
                .weight = low[1],
                .bias = low[2],
                .stride = call.stride,
                .padding = call.padding,
                .dilation = call.dilation,
                .groups = call.groups,
                .output_padding = call.output_padding,
                .output_size = call.output_size,
                .activation = fused ? call.activation : Activation{},
                .causal = call.causal});
  };
  const Tensor result = cast();
  return fused ? result : activate(result, call.activation);
}

Tensor run(const ConvCall& call) {
  const OpScope scope(call.op);
  check_activation(call.op, call.activation);
  if (detail::autocast_region() != nullptr) return run_in_region(call);
  const ConvGeometry geometry = resolve_geometry(call);
  const auto op = call.transposed ? conv_transpose : conv;
  try {
    if (call.batched()) return op(call.input, call.weight, call.bias, geometry, call.activation);
    return op(call.input.unsqueeze(0), call.weight, call.bias, geometry, call.activation).squeeze(0);
  } catch (const OutOfMemoryError& error) {
    rethrow_out_of_memory(call, error);
  }
}

}  // namespace

Tensor conv1d(const Tensor& input, const Tensor& weight, const Tensor& bias, const Conv1dParams& params) {
  return run({.op = "conv1d",
              .rank = 1,
              .transposed = false,
              .input = input,
              .weight = weight,
              .bias = bias,
              .stride = {1, params.stride},
              .padding = {0, params.padding},
              .dilation = {1, params.dilation},
              .groups = params.groups,
              .activation = params.activation});
}

Tensor conv2d(const Tensor& input, const Tensor& weight, const Tensor& bias, const Conv2dParams& params) {
  return run({.op = "conv2d",
              .rank = 2,
              .transposed = false,
              .input = input,
              .weight = weight,
              .bias = bias,
              .stride = extents(params.stride),
              .padding = margins(params.padding),
              .dilation = extents(params.dilation),
              .groups = params.groups,
              .activation = params.activation});
}

Tensor conv3d(const Tensor& input, const Tensor& weight, const Tensor& bias, const Conv3dParams& params) {
  return run({.op = "conv3d",
              .rank = 3,
              .transposed = false,
              .input = input,
              .weight = weight,
              .bias = bias,
              .stride = extents(params.stride),
              .padding = margins(params.padding),
              .dilation = extents(params.dilation),
              .groups = params.groups,
              .activation = params.activation,
              .causal = params.causal});
}

Tensor conv_transpose1d(const Tensor& input, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose1dParams& params) {
  return run({.op = "conv_transpose1d",
              .rank = 1,
              .transposed = true,
              .input = input,
              .weight = weight,
              .bias = bias,
              .stride = {1, params.stride},
              .padding = {0, params.padding},
              .dilation = {1, params.dilation},
              .groups = params.groups,
              .output_padding = {0, params.output_padding},
              .output_size = {0, params.output_size},
              .activation = params.activation});
}

Tensor conv_transpose2d(const Tensor& input, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose2dParams& params) {
  return run({.op = "conv_transpose2d",
              .rank = 2,
              .transposed = true,
              .input = input,
              .weight = weight,
              .bias = bias,
              .stride = extents(params.stride),
              .padding = margins(params.padding),
              .dilation = extents(params.dilation),
              .groups = params.groups,
              .output_padding = margins(params.output_padding),
              .output_size = margins(params.output_size),
              .activation = params.activation});
}

Tensor conv_transpose3d(const Tensor& input, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose3dParams& params) {
  return run({.op = "conv_transpose3d",
              .rank = 3,
              .transposed = true,
              .input = input,
              .weight = weight,
              .bias = bias,
              .stride = extents(params.stride),
              .padding = margins(params.padding),
              .dilation = extents(params.dilation),
              .groups = params.groups,
              .output_padding = margins(params.output_padding),
              .output_size = margins(params.output_size),
              .activation = params.activation});
}

}  // namespace adjoint
