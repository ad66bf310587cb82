#include <adjoint/core/gradcheck.h>

#include <adjoint/core/check.h>
#include <adjoint/core/random.h>
#include <adjoint/core/tape.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

namespace adjoint {

GradcheckError::~GradcheckError() = default;

namespace {

using Jacobian = std::vector<std::vector<double>>;  // (outputs, inputs)

// Contiguous copies of the caller's own, so that elements can be nudged; those to be checked are leaves.
std::vector<Tensor> own_inputs(const char* op, const std::vector<Tensor>& inputs) {
  ADJOINT_CHECK(!inputs.empty(), "{}: there must be an input to check; got none", op);
  const auto marked = [](const Tensor& input) { return input.defined() && input.requires_grad(); };
  const bool any_marked = std::any_of(inputs.begin(), inputs.end(), marked);
  std::vector<Tensor> own;
  bool any = false;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    ADJOINT_CHECK(inputs[i].defined(), "{}: inputs must be defined; got Tensor{{}} as input {}", op, i);
    Tensor copy = Tensor::empty(inputs[i].shape(), inputs[i].options());
    copy.copy_(inputs[i]);
    if (any_marked ? marked(inputs[i]) : is_floating_point(copy.dtype())) {
      ADJOINT_CHECK(copy.dtype() == kFloat64,
                    "{}: inputs to check must be float64; got {} as input {}; convert with to()", op, copy.dtype(), i);
      copy.requires_grad_();
      any = true;
    }
    own.push_back(copy);
  }
  ADJOINT_CHECK(any, "{}: there must be a float64 input to check; got {} inputs of other dtypes; convert one with to()",
                op, inputs.size());
  return own;
}

// f, held to what a check needs of it: every result is float64 and of the first one's shape.
class CheckedFunction {
 public:
  CheckedFunction(const char* op, DifferentiableFunction f) : op_(op), f_(std::move(f)) {
    ADJOINT_CHECK(f_ != nullptr, "{}: f must be a function; got an empty std::function", op_);
  }

  Tensor operator()(const std::vector<Tensor>& inputs) const {
    const Tensor out = f_(inputs);
    ADJOINT_CHECK(out.defined(), "{}: f's result must be defined; got Tensor{{}}", op_);
    ADJOINT_CHECK(out.dtype() == kFloat64, "{}: f's result must be float64; got {} {}", op_, out.dtype(), out.shape());
    if (!shape_) shape_ = out.shape();
    if (out.shape() != *shape_) {
      throw GradcheckError(
          fmt::format("{}: f's results must have one shape; got {}, then {}", op_, *shape_, out.shape()));
    }
    return out;
  }

 private:
  const char* op_;
  DifferentiableFunction f_;
  mutable std::optional<Shape> shape_;
};

// Two results, or gradients, of f at the same inputs.
void check_same(const char* op, const char* what, const std::vector<double>& first, const std::vector<double>& second) {
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (std::bit_cast<std::uint64_t>(first[i]) == std::bit_cast<std::uint64_t>(second[i])) continue;
    throw GradcheckError(fmt::format(
        "{}: f must be deterministic; got {:.17g}, then {:.17g} for element {} of its {} at the same inputs; "
        "seed what f draws inside it",
        op, first[i], second[i], i, what));
  }
}

// f(inputs), recorded, also where f gives back one of its inputs.
class Recorded {
 public:
  Recorded(const CheckedFunction& f, const std::vector<Tensor>& inputs) : out(f(inputs).clone()) {}

  // The gradient of <out, seed>.
  std::vector<double> gradient(const Tensor& input, const Tensor& seed) {
    Tensor grad;
    if (out.requires_grad()) {
      grad = tape_.gradient(out, {input}, {.retain = true, .grad_output = seed, .allow_unused = true})[0];
    }
    return grad.defined() ? grad.to_vector<double>()
                          : std::vector<double>(static_cast<std::size_t>(input.numel()), 0.0);
  }

 private:
  const PauseTape pause_;
  Tape tape_;

 public:
  const Tensor out;
};

Jacobian analytic_jacobian(const char* op, const CheckedFunction& f, const std::vector<Tensor>& inputs,
                           const Tensor& input, const std::vector<double>& at_inputs) {
  Recorded recorded(f, inputs);
  const Tensor& out = recorded.out;
  check_same(op, "result", at_inputs, out.to_vector<double>());
  Jacobian jacobian;
  for (std::int64_t row = 0; row < out.numel(); ++row) {
    Tensor seed = Tensor::zeros(out.shape(), out.options());
    seed.view_as({1}, {1}, row).fill_(1.0);
    jacobian.push_back(recorded.gradient(input, seed));
  }
  // Another recording must give the same gradient: one sum with different weights tells.
  const Tensor weights = Tensor::arange(1, static_cast<double>(out.numel()) + 1, 1, out.options()).reshape(out.shape());
  const std::vector<double> first = recorded.gradient(input, weights);
  check_same(op, "gradient", first, Recorded(f, inputs).gradient(input, weights));
  return jacobian;
}

Jacobian numeric_jacobian(const char* op, const CheckedFunction& f, const std::vector<Tensor>& inputs,
                          const Tensor& input, std::size_t rows, double eps) {
  Jacobian jacobian(rows, std::vector<double>(static_cast<std::size_t>(input.numel())));
  for (std::int64_t column = 0; column < input.numel(); ++column) {
    Tensor element = input.view_as({1}, {1}, column);
    const double value = element.item<double>(), high = value + eps, low = value - eps;
    ADJOINT_CHECK(high > low, "{}: eps must change each element of the inputs; got eps {} beside {:.17g}", op, eps,
                  value);
    const auto at = [&](double x) {
      element.fill_(x);
      return f(inputs).to_vector<double>();
    };
    const std::vector<double> above = at(high), below = at(low);
    element.fill_(value);
    for (std::size_t row = 0; row < rows; ++row) {
      jacobian[row][static_cast<std::size_t>(column)] = (above[row] - below[row]) / (2.0 * eps);
    }
  }
  return jacobian;
}

void compare(const char* op, std::size_t index, const Tensor& input, const Jacobian& analytic, const Jacobian& numeric,
             const GradcheckOptions& options) {
  for (std::size_t row = 0; row < numeric.size(); ++row) {
    for (std::size_t column = 0; column < numeric[row].size(); ++column) {
      const double a = analytic[row][column], n = numeric[row][column];
      const bool finite = std::isfinite(a) && std::isfinite(n);
      if (finite && std::abs(a - n) <= options.atol + options.rtol * std::abs(n)) continue;
      throw GradcheckError(
          fmt::format("{}: analytic and numeric gradient {}; got {:.17g} and {:.17g} for result element {} by "
                      "element {} of input {} of shape {} (atol {}, rtol {}, eps {})",
                      op, finite ? "differ" : "must be finite", a, n, row, column, index, input.shape(), options.atol,
                      options.rtol, options.eps));
    }
  }
}

bool check(const char* op, const CheckedFunction& f, const std::vector<Tensor>& inputs,
           const GradcheckOptions& options) {
  const std::vector<double> at_inputs = f(inputs).to_vector<double>();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].requires_grad()) continue;
    const Jacobian analytic = analytic_jacobian(op, f, inputs, inputs[i], at_inputs);
    const Jacobian numeric = numeric_jacobian(op, f, inputs, inputs[i], at_inputs.size(), options.eps);
    check_same(op, "result", at_inputs, f(inputs).to_vector<double>());
    compare(op, i, inputs[i], analytic, numeric, options);
  }
  return true;
}

void check_options(const char* op, const GradcheckOptions& options) {
  ADJOINT_CHECK(std::isfinite(options.eps) && options.eps > 0.0, "{}: eps must be finite and above 0; got {}", op,
                options.eps);
  ADJOINT_CHECK(std::isfinite(options.atol) && options.atol >= 0.0 && std::isfinite(options.rtol) &&
                    options.rtol >= 0.0,
                "{}: atol and rtol must be finite and not negative; got {} and {}", op, options.atol, options.rtol);
}

}  // namespace

bool gradcheck(const DifferentiableFunction& f, std::vector<Tensor> inputs, GradcheckOptions options) {
  const PauseTape pause;
  check_options("gradcheck", options);
  const CheckedFunction checked("gradcheck", f);
  return check("gradcheck", checked, own_inputs("gradcheck", inputs), options);
}

bool gradgradcheck(const DifferentiableFunction& f, std::vector<Tensor> inputs, GradcheckOptions options) {
  const PauseTape pause;
  check_options("gradgradcheck", options);
  const CheckedFunction checked("gradgradcheck", f);
  std::vector<Tensor> own = own_inputs("gradgradcheck", inputs);
  const std::size_t count = own.size();
  const Tensor out = checked(own);
  check_same("gradgradcheck", "result", out.to_vector<double>(), checked(own).to_vector<double>());
  Tensor incoming = Tensor::empty(out.shape(), out.options());
  Generator generator(0x61646a6f696e74);  // any fixed seed: a failure repeats
  fill_uniform(incoming, -1.0, 1.0, generator);
  own.push_back(incoming.requires_grad_());

  for (std::size_t i = 0; i < count; ++i) {
    if (!own[i].requires_grad()) continue;
    // d<f(x), v>/dx_i as a function of all x and of v.
    const CheckedFunction gradient("gradgradcheck", [&checked, i, count](const std::vector<Tensor>& x) {
      const std::vector<Tensor> arguments(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(count));
      // Recorded with and without an outer tape: a gradient computed in one pass may have other bits than its
      // operators.
      std::optional<Tape> own_tape;
      Tape& tape = Tape::current() != nullptr ? *Tape::current() : own_tape.emplace();
      const Tensor y = checked(arguments).clone();
      if (!y.requires_grad()) return Tensor::zeros(x[i].shape(), x[i].options());
      const Tensor g = tape.gradient(y, {x[i]}, {.record = true, .grad_output = x[count], .allow_unused = true})[0];
      return g.defined() ? g : Tensor::zeros(x[i].shape(), x[i].options());
    });
    check("gradgradcheck", gradient, own, options);
  }
  return true;
}

}  // namespace adjoint
