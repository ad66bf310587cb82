// Checks of analytic gradients against central finite differences, in float64.
#pragma once

#include <adjoint/core/error.h>
#include <adjoint/core/export.h>
#include <adjoint/core/tensor.h>

#include <functional>
#include <vector>

namespace adjoint {

/// Names the input, the element, the analytic and the numeric value of the first mismatch; or says that the function
/// gave other results, or other gradients, for the same inputs.
class ADJOINT_API GradcheckError : public Error {
 public:
  using Error::Error;
  ~GradcheckError() override;
};

struct GradcheckOptions {
  /// Step of the central difference (f(x + eps) - f(x - eps)) / (2 eps). Above 0, and large enough to change x.
  double eps = 1e-6;
  /// Passes where both are finite and |analytic - numeric| <= atol + rtol * |numeric|. Finite, not negative.
  double atol = 1e-5;
  double rtol = 1e-3;
};

using DifferentiableFunction = std::function<Tensor(const std::vector<Tensor>&)>;

/// Compares the full Jacobian of f with finite differences, for every input that requires a gradient (all of them,
/// where none was marked). Inputs to check are float64, as f's result is, and are not changed. Returns true; throws
/// GradcheckError at the first mismatch, and where f's results for the same inputs differ, or their shapes for others;
/// Error where there is no input to check, for other dtypes, and for options out of range.
ADJOINT_API bool gradcheck(const DifferentiableFunction& f, std::vector<Tensor> inputs, GradcheckOptions options = {});
/// The same for the gradient of f as a function of the inputs and of a random incoming gradient: second order.
ADJOINT_API bool gradgradcheck(const DifferentiableFunction& f, std::vector<Tensor> inputs,
                               GradcheckOptions options = {});

}  // namespace adjoint
