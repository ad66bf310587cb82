#include <adjoint/core/gradcheck.h>

#include <adjoint/core/check.h>
#include <adjoint/core/random.h>
#include <adjoint/core/tape.h>

#include <algorithm>
#include <cmath>

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
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    ADJOINT_CHECK(inputs[i].defined(), "{}: inputs must be defined; got Tensor{{}} as input {}", op, i);
    Tensor copy = Tensor::empty(inputs[i].shape(), inputs[i].options());
    copy.copy_(inputs[i]);
    if (any_marked ? marked(inputs[i]) : is_floating_point(copy.dtype())) {
      ADJOINT_CHECK(copy.dtype() == kFloat64,
                    "{}: inputs to check must be float64; got {} as input {}; convert with to()", op, copy.dtype(), i);
      copy.requires_grad_();
    }
    own.push_back(copy);
  }
  return own;
}

Jacobian analytic_jacobian(const DifferentiableFunction& f, const std::vector<Tensor>& inputs, const Tensor& input) {
  const PauseTape pause;
  Tape tape;
  const Tensor out = f(inputs).clone();  // recorded, also where f gives back one of its inputs
  Jacobian jacobian;
  for (std::int64_t row = 0; row < out.numel(); ++row) {
    if (!out.requires_grad()) {
      jacobian.emplace_back(static_cast<std::size_t>(input.numel()), 0.0);
      continue;
    }
    Tensor seed = Tensor::zeros(out.shape(), out.options());
    seed.view_as({1}, {1}, row).fill_(1.0);
    const Tensor grad = tape.gradient(out, {input}, {.retain = true, .grad_output = seed, .allow_unused = true})[0];
    jacobian.push_back(grad.defined() ? grad.to_vector<double>()
                                      : std::vector<double>(static_cast<std::size_t>(input.numel()), 0.0));
  }
  return jacobian;
}

Jacobian numeric_jacobian(const DifferentiableFunction& f, const std::vector<Tensor>& inputs, const Tensor& input,
                          double eps) {
  const PauseTape pause;
  Jacobian jacobian(static_cast<std::size_t>(f(inputs).numel()),
                    std::vector<double>(static_cast<std::size_t>(input.numel())));
  for (std::int64_t column = 0; column < input.numel(); ++column) {
    Tensor element = input.view_as({1}, {1}, column);
    const double value = element.item<double>();
    const auto at = [&](double x) {
      element.fill_(x);
      return f(inputs).to_vector<double>();
    };
    const std::vector<double> above = at(value + eps), below = at(value - eps);
    element.fill_(value);
    for (std::size_t row = 0; row < jacobian.size(); ++row) {
      jacobian[row][static_cast<std::size_t>(column)] = (above[row] - below[row]) / (2.0 * eps);
    }
  }
  return jacobian;
}

bool compare(const char* op, std::size_t index, const Tensor& input, const Jacobian& analytic, const Jacobian& numeric,
             const GradcheckOptions& options) {
  for (std::size_t row = 0; row < numeric.size(); ++row) {
    for (std::size_t column = 0; column < numeric[row].size(); ++column) {
      const double a = analytic[row][column], n = numeric[row][column];
      if (std::abs(a - n) <= options.atol + options.rtol * std::abs(n)) continue;  // NaN fails
      throw GradcheckError(
          fmt::format("{}: analytic and numeric gradient differ; got {:.17g} and {:.17g} for result element {} by "
                      "element {} of input {} of shape {} (atol {}, rtol {}, eps {})",
                      op, a, n, row, column, index, input.shape(), options.atol, options.rtol, options.eps));
    }
  }
  return true;
}

bool check(const char* op, const DifferentiableFunction& f, const std::vector<Tensor>& inputs,
           const GradcheckOptions& options) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].requires_grad()) continue;
    const Jacobian analytic = analytic_jacobian(f, inputs, inputs[i]);
    const Jacobian numeric = numeric_jacobian(f, inputs, inputs[i], options.eps);
    compare(op, i, inputs[i], analytic, numeric, options);
  }
  return true;
}

}  // namespace

bool gradcheck(const DifferentiableFunction& f, std::vector<Tensor> inputs, GradcheckOptions options) {
  const PauseTape pause;
  return check("gradcheck", f, own_inputs("gradcheck", inputs), options);
}

bool gradgradcheck(const DifferentiableFunction& f, std::vector<Tensor> inputs, GradcheckOptions options) {
  const PauseTape pause;
  std::vector<Tensor> own = own_inputs("gradgradcheck", inputs);
  const std::size_t count = own.size();
  const Tensor out = f(own);
  ADJOINT_CHECK(out.dtype() == kFloat64, "gradgradcheck: the result must be float64; got {}", out.dtype());
  Tensor incoming = Tensor::empty(out.shape(), out.options());
  Generator generator(0x61646a6f696e74);  // any fixed seed: a failure repeats
  fill_uniform(incoming, -1.0, 1.0, generator);
  own.push_back(incoming.requires_grad_());

  for (std::size_t i = 0; i < count; ++i) {
    if (!own[i].requires_grad()) continue;
    // d<f(x), v>/dx_i as a function of all x and of v.
    const DifferentiableFunction gradient = [&f, i, count](const std::vector<Tensor>& x) {
      const std::vector<Tensor> arguments(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(count));
      if (Tape* outer = Tape::current()) {
        const Tensor y = f(arguments).clone();
        if (!y.requires_grad()) return Tensor::zeros(x[i].shape(), x[i].options());
        const Tensor g = outer->gradient(y, {x[i]}, {.record = true, .grad_output = x[count], .allow_unused = true})[0];
        return g.defined() ? g : Tensor::zeros(x[i].shape(), x[i].options());
      }
      Tape tape;
      const Tensor y = f(arguments).clone();
      if (!y.requires_grad()) return Tensor::zeros(x[i].shape(), x[i].options());
      const Tensor g = tape.gradient(y, {x[i]}, {.grad_output = x[count], .allow_unused = true})[0];
      return g.defined() ? g : Tensor::zeros(x[i].shape(), x[i].options());
    };
    check("gradgradcheck", gradient, own, options);
  }
  return true;
}

}  // namespace adjoint
