// Checks the operands of a call of the trio from PyTorch, and computes the library's geometry and the result's shape.
// problem.py is the counterpart in Python.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "c_api.h"

namespace adjoint_torch {

using at::IntArrayRef;
using at::Tensor;
using Numbers = c10::SmallVector<int64_t, 4>;

/// The role of a tensor. An operator reads two of the three, and its name in this file is the role that it computes.
enum Role { kImage, kFeature, kFilter };
constexpr const char* kNames[] = {"adjoint::conv_transpose", "adjoint::conv", "adjoint::conv_weight"};

/// The steps of a convolution, and the activation of its result (kind 0: no activation). frozen: the handle of a frozen
/// filter, or null.
struct Steps {
  IntArrayRef stride, padding, dilation;
  int64_t groups;
  adjoint_activation activation;
  adjoint_frozen_filter* frozen;
};

// Numbers reach a message as text. A stream would format them by the facets of a libstdc++ that a compiler linked into
// the extension, and would crash the process if PyTorch has loaded another one.
using std::to_string;
inline std::string tuple(IntArrayRef values) {
  std::string text = "(";
  for (std::size_t i = 0; i < values.size(); ++i) text += (i == 0 ? "" : ", ") + to_string(values[i]);
  return text + (values.size() == 1 ? ",)" : ")");
}

inline void check_axes(const char* name, const char* what, IntArrayRef values, std::size_t rank, int64_t least) {
  TORCH_CHECK_VALUE(values.size() == rank, name, ": ", what, " must have one value for each of ", to_string(rank),
                    " axes; got ", tuple(values));
  for (const int64_t value : values) {
    TORCH_CHECK_VALUE(value >= least, name, ": stride and dilation must be positive, padding and output_padding not ",
                      "negative; got ", what, " ", tuple(values));
  }
}

inline void check_operands(const char* name, const Tensor& first, const Tensor& second, const Tensor& bias) {
  const int64_t axes = first.dim();
  TORCH_CHECK_VALUE(axes >= 3 && axes <= 5, name, ": operands must have 3 to 5 axes; got ", tuple(first.sizes()));
  TORCH_CHECK_VALUE(second.dim() == axes, name, ": input and weight must have ", to_string(axes), " axes; got input ",
                    tuple(first.sizes()), ", weight ", tuple(second.sizes()));
  TORCH_CHECK_VALUE(first.scalar_type() == second.scalar_type() && first.device() == second.device(), name,
                    ": input and weight must share dtype and device; got ", first.scalar_type(), " on ", first.device(),
                    " and ", second.scalar_type(), " on ", second.device());
  TORCH_CHECK_VALUE(!bias.defined() || (bias.scalar_type() == first.scalar_type() && bias.device() == first.device()),
                    name, ": bias must have input's dtype and device; got ", bias.scalar_type(), " on ", bias.device(),
                    " beside ", first.scalar_type(), " on ", first.device());
}

/// Writes `values` to the last axes of `to`, and those of volumes to `depth` too. A missing height becomes `unit`: 1,
/// or 0 for paddings.
inline void fill(int64_t (&to)[2], int64_t& depth, IntArrayRef values, int64_t unit) {
  depth = values.size() == 3 ? values[0] : 0;
  to[0] = unit;
  const IntArrayRef plane = values.size() == 3 ? values.slice(1) : values;
  std::copy(plane.begin(), plane.end(), to + 2 - plane.size());
}

/// A call's geometry and its result's shape. Operands come in the order in which the operator takes them. `size`: the
/// image's output_padding, or the filter's extents.
struct Problem {
  adjoint_conv_geometry geometry{};
  Numbers shape;  // of the result

  Problem(Role yields, const Tensor& first, const Tensor& second, const Tensor& bias, const Steps& steps,
          IntArrayRef size) {
    const char* const name = kNames[yields];
    check_operands(name, first, second, bias);
    const std::size_t rank = static_cast<std::size_t>(first.dim()) - 2;
    check_axes(name, "stride", steps.stride, rank, 1);
    check_axes(name, "padding", steps.padding, rank, 0);
    check_axes(name, "dilation", steps.dilation, rank, 1);
    TORCH_CHECK_VALUE(steps.groups >= 1, name, ": groups must be positive; got ", to_string(steps.groups));
    if (yields == kImage) check_axes(name, "output_padding", size, rank, 0);
    if (yields == kFilter) check_axes(name, "kernel_size", size, rank, 1);
    const IntArrayRef in = first.sizes();
    Numbers filter(second.sizes().begin(), second.sizes().end());
    if (yields == kFilter) {
      filter = {second.size(1), in[1] / steps.groups};
      filter.append(size.begin(), size.end());
    }
    const int64_t channels = yields == kImage ? filter[1] * steps.groups : filter[0];  // of the result or the feature
    check_channels(name, yields, in, filter, steps.groups);

    shape = {in[0], channels};
    for (std::size_t axis = 0; axis < rank; ++axis) {
      const int64_t i = in[axis + 2], k = filter[axis + 2];
      const int64_t s = steps.stride[axis], p = steps.padding[axis], d = steps.dilation[axis];
      if (yields == kImage) {
        TORCH_CHECK_VALUE(size[axis] < std::max(s, d), name,
                          ": output_padding must be below stride or below dilation; ", "got output_padding ",
                          tuple(size), ", stride ", tuple(steps.stride), ", dilation ", tuple(steps.dilation));
        shape.push_back((i - 1) * s - 2 * p + d * (k - 1) + size[axis] + 1);
      } else {
        shape.push_back((i + 2 * p - d * (k - 1) - 1 + s) / s);  // an extent below 1 becomes 0
      }
      TORCH_CHECK_VALUE(i >= 1 && k >= 1 && shape.back() >= 1, name, ": extents must be at least 1; got input ",
                        tuple(in.slice(2)), ", weight ", tuple(filter), " and output ",
                        tuple(IntArrayRef(shape).slice(2)));
    }
    TORCH_CHECK_VALUE(!bias.defined() || (bias.dim() == 1 && bias.size(0) == channels), name,
                      ": bias must have shape (", to_string(channels), ",); got ", tuple(bias.sizes()));
    if (yields == kFilter) take_feature(name, second.sizes(), steps);
    const IntArrayRef out = IntArrayRef(shape).slice(2);
    geometry.batch = in[0];
    geometry.groups = steps.groups;
    geometry.image_channels = yields == kImage ? channels : in[1];
    geometry.feature_channels = yields == kImage ? in[1] : channels;
    fill(geometry.image, geometry.image_depth, yields == kImage ? out : in.slice(2), 1);
    fill(geometry.feature, geometry.feature_depth, yields == kImage ? in.slice(2) : out, 1);
    fill(geometry.kernel, geometry.kernel_depth, IntArrayRef(filter).slice(2), 1);
    fill(geometry.stride, geometry.stride_depth, steps.stride, 1);
    fill(geometry.padding, geometry.padding_depth, steps.padding, 0);
    fill(geometry.dilation, geometry.dilation_depth, steps.dilation, 1);
    if (yields == kFilter) shape = filter;
  }

  /// Takes the feature's extents, which may be smaller than those that follow from the image, as an output_padding
  /// allows.
  void take_feature(const char* name, IntArrayRef feature, const Steps& steps) {
    bool fits = feature[0] == shape[0] && feature[1] == shape[1];
    for (std::size_t axis = 2; axis < shape.size(); ++axis) {
      const int64_t s = steps.stride[axis - 2], fewer = shape[axis] - feature[axis];
      fits = fits && feature[axis] >= 1 && fewer >= 0 && fewer * s < std::max(s, steps.dilation[axis - 2]);
    }
    TORCH_CHECK_VALUE(fits, name, ": feature must have shape ", tuple(shape), "; got ", tuple(feature));
    shape.assign(feature.begin(), feature.end());
  }

  static void check_channels(const char* name, Role yields, IntArrayRef in, IntArrayRef filter, int64_t groups) {
    if (yields == kImage) {
      TORCH_CHECK_VALUE(in[1] == filter[0] && in[1] % groups == 0 && filter[1] >= 1 && filter[0] >= 1, name,
                        ": input channels must equal weight's first axis and be a multiple of groups; got input ",
                        tuple(in), ", weight ", tuple(filter), ", groups ", to_string(groups));
    } else {
      TORCH_CHECK_VALUE(
          in[1] == filter[1] * groups && filter[0] % groups == 0 && filter[1] >= 1 && filter[0] >= 1, name,
          ": input channels must equal weight's second axis times groups, and groups must divide weight's ",
          "first axis; got input ", tuple(in), ", weight ", tuple(filter), ", groups ", to_string(groups));
    }
  }
};

}  // namespace adjoint_torch
