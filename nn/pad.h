// Padding as modules: nn::ReflectionPad2d(1), nn::ReplicationPad2d({left, right, top, bottom}). They pad the last axes
// and accept any others; ops/pad/pad.h has the rules.
#pragma once

#include <adjoint/nn/module.h>
#include <adjoint/ops/pad/pad.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace adjoint::nn {

namespace detail {

/// The common base: a pair of numbers for each of the `axes` last axes.
class ADJOINT_API Padding : public Module {
 public:
  /// Throws Error for an input with fewer axes than are padded, and as pad does.
  Tensor forward(const Tensor& input) const { return (*this)(input); }
  Tensor operator()(const Tensor& input) const;
  const std::vector<std::int64_t>& padding() const { return padding_; }

 protected:
  /// Throws Error unless there are 2 `axes` numbers.
  Padding(const char* type, std::size_t axes, const std::vector<std::int64_t>& padding, PadMode mode,
          double value = 0.0);

 private:
  std::vector<std::int64_t> padding_;
  PadMode mode_;
  double value_;
};

}  // namespace detail

#define ADJOINT_PAD(Name, axes, mode)                                                                   \
  class ADJOINT_API Name : public detail::Padding {                                                     \
   public:                                                                                              \
    explicit Name(std::int64_t every_side) : Name(std::vector<std::int64_t>(2 * (axes), every_side)) {} \
    explicit Name(const std::vector<std::int64_t>& padding) : Padding(#Name, axes, padding, mode) {}    \
  };
ADJOINT_PAD(ReflectionPad1d, 1, PadMode::kReflect)
ADJOINT_PAD(ReflectionPad2d, 2, PadMode::kReflect)
ADJOINT_PAD(ReflectionPad3d, 3, PadMode::kReflect)
ADJOINT_PAD(ReplicationPad1d, 1, PadMode::kReplicate)
ADJOINT_PAD(ReplicationPad2d, 2, PadMode::kReplicate)
ADJOINT_PAD(ReplicationPad3d, 3, PadMode::kReplicate)
ADJOINT_PAD(CircularPad1d, 1, PadMode::kCircular)
ADJOINT_PAD(CircularPad2d, 2, PadMode::kCircular)
ADJOINT_PAD(CircularPad3d, 3, PadMode::kCircular)
ADJOINT_PAD(ZeroPad1d, 1, PadMode::kConstant)
ADJOINT_PAD(ZeroPad2d, 2, PadMode::kConstant)
ADJOINT_PAD(ZeroPad3d, 3, PadMode::kConstant)
#undef ADJOINT_PAD

#define ADJOINT_PAD(Name, axes)                                                                                     \
  class ADJOINT_API Name : public detail::Padding {                                                                 \
   public:                                                                                                          \
    Name(std::int64_t every_side, double value) : Name(std::vector<std::int64_t>(2 * (axes), every_side), value) {} \
    Name(const std::vector<std::int64_t>& padding, double value)                                                    \
        : Padding(#Name, axes, padding, PadMode::kConstant, value) {}                                               \
  };
ADJOINT_PAD(ConstantPad1d, 1)
ADJOINT_PAD(ConstantPad2d, 2)
ADJOINT_PAD(ConstantPad3d, 3)
#undef ADJOINT_PAD

}  // namespace adjoint::nn
