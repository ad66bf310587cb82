// Unfold and Fold as modules; ops/fold/fold.h has the arithmetic.
#pragma once

#include <adjoint/nn/module.h>
#include <adjoint/ops/fold/fold.h>

namespace adjoint::nn {

using UnfoldOptions = UnfoldParams;

/// nn::Unfold({.kernel_size = {2, 3}, .padding = 1}): (N, C, H, W) -> (N, C kh kw, L). A call throws
/// unfold's errors.
class ADJOINT_API Unfold : public Module {
 public:
  explicit Unfold(const UnfoldOptions& options) : Module("Unfold"), options_(options) {}
  Tensor operator()(const Tensor& input) const {
    check_not_moved_from("Unfold");
    return hooked(input, [&](const Tensor& x) { return unfold(x, options_); });
  }

 private:
  UnfoldOptions options_;
};

/// nn::Fold({4, 5}, {.kernel_size = {2, 2}}), its adjoint: (N, C kh kw, L) -> (N, C, 4, 5).
class ADJOINT_API Fold : public Module {
 public:
  Fold(const Size2& output_size, const UnfoldOptions& options)
      : Module("Fold"), output_size_(output_size), options_(options) {}
  Tensor operator()(const Tensor& input) const {
    check_not_moved_from("Fold");
    return hooked(input, [&](const Tensor& x) { return fold(x, output_size_, options_); });
  }

 private:
  Size2 output_size_;
  UnfoldOptions options_;
};

}  // namespace adjoint::nn
