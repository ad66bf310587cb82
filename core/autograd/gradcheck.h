// Checks of analytic gradients against central finite differences.
//
// Analytic gradients come from the device and dtype of the inputs; finite differences come from the same function on
// float64 copies of the inputs on the CPU, where convolutions run through Eigen (core/base/cpu_backend.h). So values
// that share no code with a CUDA kernel check its gradients.
#pragma once

#include <adjoint/core/base/error.h>
#include <adjoint/core/base/export.h>
#include <adjoint/core/tensor/tensor.h>

#include <concepts>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace adjoint {

/// Names the input, the element, the analytic and the numeric value of the first mismatch; or reports that the function
/// gave different results, or different gradients, for the same inputs.
class ADJOINT_API GradcheckError : public Error {
 public:
  using Error::Error;
  ~GradcheckError() override;
};

struct GradcheckOptions {
  /// Step of the central difference (f(x + eps) - f(x - eps)) / (2 eps). Above 0, and large enough to change x.
  double eps = 1e-6;
  /// Passes if both are finite and |analytic - numeric| <= atol + rtol * |numeric|. Finite, not negative. The defaults
  /// follow from the inputs' dtypes: 1e-5 and 1e-3 for float64, 1e-4 and 1e-3 for float32, 1e-2 for float16, 5e-2 for
  /// bfloat16.
  std::optional<double> atol, rtol;
};

/// Takes tensors and returns one Tensor or several.
class DifferentiableFunction {
 public:
  using Inputs = std::vector<Tensor>;
  using Results = std::vector<Tensor>;

  DifferentiableFunction() = default;
  template <class F>
  requires(!std::same_as<std::remove_cvref_t<F>, DifferentiableFunction> &&
           (std::is_invocable_r_v<Tensor, F&, const Inputs&> || std::is_invocable_r_v<Results, F&, const Inputs&>))
      DifferentiableFunction(F f) {  // NOLINT(google-explicit-constructor)
    if constexpr (requires { f == nullptr; }) {
      if (f == nullptr) return;
    }
    if constexpr (std::is_invocable_r_v<Results, F&, const Inputs&>) {
      f_ = std::move(f);
    } else {
      f_ = [one = std::move(f)](const Inputs& in) mutable { return Results{one(in)}; };
    }
  }

  explicit operator bool() const { return f_ != nullptr; }
  Results operator()(const Inputs& in) const { return f_(in); }

 private:
  std::function<Results(const Inputs&)> f_;
};

/// Compares the full Jacobian of f with finite differences, for every input that requires a gradient (if none is
/// marked, for all floating-point inputs) and every floating-point result. f runs under gradcheck's own tape each time,
/// so it may call gradient(). Inputs are not changed. Returns true. Throws GradcheckError at the first mismatch, if f's
/// results for the same inputs differ, and if their number or shapes vary. Throws Error if there is no input to check,
/// if no result is floating point, if f does not work on the copies because it holds tensors of another device or dtype
/// (pass them as inputs), and for options out of range.
ADJOINT_API bool gradcheck(const DifferentiableFunction& f, std::vector<Tensor> inputs, GradcheckOptions options = {});
/// The same for the gradient of f as a function of the inputs and of a random incoming gradient: second order.
ADJOINT_API bool gradgradcheck(const DifferentiableFunction& f, std::vector<Tensor> inputs,
                               GradcheckOptions options = {});

/// Checks that f is linear, f(0) = 0 and f(a x + b v) = a f(x) + b f(v), and then that its recorded gradient is its
/// adjoint A, <f(x), y> = <x, A(y)>, for random v and y, within `tolerance` of the sum of absolute products (by default
/// 64 roundings of the narrower dtype). Any device, dtype and size. Returns true. Throws GradcheckError, with both
/// values, if f is not linear or its gradient is not its adjoint; throws Error unless x and f's result are floating
/// point.
ADJOINT_API bool check_adjoint(const std::function<Tensor(const Tensor&)>& f, const Tensor& x,
                               std::optional<double> tolerance = {});

}  // namespace adjoint
