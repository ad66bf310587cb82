// Padding by device: the mapping between elements of a padded tensor and their sources. For host and device.
//
// Tensors are contiguous, seen as (planes, D, H, W), of which the last three may be padded.
#pragma once

#include <adjoint/core/tensor/dtype.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/ops/pad/pad.h>

#include <cstdint>
#include <span>

namespace adjoint {

struct PadAxis {
  std::int64_t in = 1, out = 1, before = 0;
};

struct PadMap {
  PadAxis axes[3];  // D, H, W
  PadMode mode = PadMode::kConstant;
  std::uint64_t value = 0;  // the bits of an element
};

struct PadAttr {
  PadMap map;
  Shape in, out;
  Dims before;
};

namespace pad_map {

/// The source of element o of the padded axis; negative: the value.
ADJOINT_HD inline std::int64_t source(const PadAxis& axis, PadMode mode, std::int64_t o) {
  const std::int64_t i = o - axis.before, last = axis.in - 1;
  if (i >= 0 && i <= last) return i;
  switch (mode) {
    case PadMode::kReflect: return i < 0 ? -i : 2 * last - i;
    case PadMode::kReplicate: return i < 0 ? 0 : last;
    case PadMode::kCircular: return i < 0 ? i + axis.in : i - axis.in;
    default: return -1;
  }
}

/// The places of the padded axis that come from one element, in ascending order: a run, or at most three.
struct Places {
  std::int64_t first = 0, second = 0, third = 0;
  std::int64_t count = 0;
  bool run = false;

  ADJOINT_HD std::int64_t operator[](std::int64_t k) const {
    return run ? first + k : k == 0 ? first : k == 1 ? second : third;
  }
};

ADJOINT_HD inline Places places(const PadAxis& axis, PadMode mode, std::int64_t i) {
  const std::int64_t last = axis.in - 1, here = axis.before + i;
  Places at{.first = here, .count = 1};
  if (mode == PadMode::kReplicate) {
    at.first = i == 0 ? 0 : here;
    at.count = (i == last ? axis.out - 1 : here) - at.first + 1;
    at.run = true;
  } else if (mode != PadMode::kConstant) {
    const bool reflects = mode == PadMode::kReflect;
    const std::int64_t left = reflects ? axis.before - i : here - axis.in;
    const std::int64_t right = reflects ? axis.before + 2 * last - i : here + axis.in;
    const bool has_left = left >= 0 && !(reflects && i == 0);
    const bool has_right = right < axis.out && !(reflects && i == last);
    if (has_left) at.first = left;
    at.second = has_left ? here : right;
    at.third = right;
    at.count += (has_left ? 1 : 0) + (has_right ? 1 : 0);
  }
  return at;
}

/// The elements that have several places, in one or two runs. Every other element has only axis.before + i.
struct Repeated {
  std::int64_t begin[2] = {}, end[2] = {};

  ADJOINT_HD bool contains(std::int64_t i) const {
    return (i >= begin[0] && i < end[0]) || (i >= begin[1] && i < end[1]);
  }
};

inline Repeated repeated(const PadAxis& axis, PadMode mode) {
  const std::int64_t last = axis.in - 1, before = axis.before, after = axis.out - axis.in - before;
  switch (mode) {
    case PadMode::kReflect: return {{1, last - after}, {before + 1, last}};
    case PadMode::kReplicate: return {{0, last}, {before > 0 ? 1 : 0, after > 0 ? last + 1 : last}};
    case PadMode::kCircular: return {{axis.in - before, 0}, {axis.in, after}};
    default: return {};
  }
}

}  // namespace pad_map
}  // namespace adjoint

namespace adjoint::cpu {
/// in: x, of any dtype; out: x padded.
void pad(std::span<const Tensor> in, Tensor& out, const PadAttr& attr);
/// in: the padded shape, floating point; out: x's shape, with each element's sum over its copies.
void pad_adjoint(std::span<const Tensor> in, Tensor& out, const PadAttr& attr);
}  // namespace adjoint::cpu

namespace adjoint::cuda {
void pad(std::span<const Tensor> in, Tensor& out, const PadAttr& attr);
void pad_adjoint(std::span<const Tensor> in, Tensor& out, const PadAttr& attr);
}  // namespace adjoint::cuda
