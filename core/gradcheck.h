// Checks of analytic gradients against central finite differences, in float64.
#pragma once

#include <adjoint/core/error.h>
#include <adjoint/core/export.h>
#include <adjoint/core/tensor.h>

#include <functional>
#include <vector>

namespace adjoint {

/// Names the input, the element, the analytic and the numeric value of the first mismatch.
class ADJOINT_API GradcheckError : public Error {
 public:
  using Error::Error;
  ~GradcheckError() override;
};

struct GradcheckOptions {
  /// Step of the central difference (f(x + eps) - f(x - eps)) / (2 eps).
  double eps = 1e-6;
  /// Passes where |analytic - numeric| <= atol + rtol * |numeric|.
  double atol = 1e-5;
  double rtol = 1e-3;
};

using DifferentiableFunction = std::function<Tensor(const std::vector<Tensor>&)>;

/// Compares the full Jacobian of f with finite differences, for every input that requires a gradient (all of them,
/// where none was marked). Inputs are float64 and are not changed. Returns true; throws GradcheckError at the first
/// mismatch, and Error for inputs that are not float64.
ADJOINT_API bool gradcheck(const DifferentiableFunction& f, std::vector<Tensor> inputs, GradcheckOptions options = {});
/// The same for the gradient of f as a function of the inputs and of a random incoming gradient: second order.
ADJOINT_API bool gradgradcheck(const DifferentiableFunction& f, std::vector<Tensor> inputs,
                               GradcheckOptions options = {});

}  // namespace adjoint
