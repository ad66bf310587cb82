#include <adjoint/core/autograd/gradcheck.h>

#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/base/cpu_backend.h>
#include <adjoint/core/tensor/random.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>

namespace adjoint {

GradcheckError::~GradcheckError() = default;

namespace {

using Jacobian = std::vector<std::vector<double>>;  // (elements of all results, inputs)

// Contiguous private copies, so that elements can be nudged; those to be checked are leaves.
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
      copy.requires_grad_();
      any = true;
    }
    own.push_back(copy);
  }
  ADJOINT_CHECK(any,
                "{}: there must be a floating-point input to check; got {} inputs of other dtypes; convert one with "
                "to()",
                op, inputs.size());
  return own;
}

// The inputs of finite differences: the same values in float64, on the CPU.
std::vector<Tensor> references(const std::vector<Tensor>& inputs) {
  std::vector<Tensor> all;
  for (const Tensor& input : inputs) {
    const Tensor here = input.detach().to(kCPU);
    all.push_back((is_floating_point(here.dtype()) ? here.to(kFloat64) : here).clone());
    if (input.requires_grad()) all.back().requires_grad_();
  }
  return all;
}

// f with the checks that its results keep their number and shapes, and that some are floating point.
class CheckedFunction {
 public:
  CheckedFunction(const char* op, DifferentiableFunction f) : op_(op), f_(std::move(f)) {
    ADJOINT_CHECK(f_, "{}: f must be a function; got an empty std::function", op_);
  }

  // The floating-point results. Always under a tape, because f may compute gradients.
  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs) const {
    std::optional<Tape> own_tape;
    if (Tape::current() == nullptr) own_tape.emplace();
    std::vector<Tensor> results;
    std::vector<Shape> shapes;
    std::string others;
    for (const Tensor& out : f_(inputs)) {
      ADJOINT_CHECK(out.defined(), "{}: f's result must be defined; got Tensor{{}}", op_);
      if (is_floating_point(out.dtype())) {
        results.push_back(out);
        shapes.push_back(out.shape());
      } else {
        others += fmt::format(" {} {}", out.dtype(), out.shape());
      }
    }
    ADJOINT_CHECK(!results.empty(), "{}: f's result must be floating point; got{}", op_,
                  others.empty() ? " none" : others);
    if (!shapes_) shapes_ = shapes;
    if (shapes.size() != shapes_->size()) {
      throw GradcheckError(fmt::format("{}: f must have as many results each time; got {}, then {}", op_,
                                       shapes_->size(), shapes.size()));
    }
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      if (shapes[i] == (*shapes_)[i]) continue;
      throw GradcheckError(
          fmt::format("{}: f's results must have one shape; got {}, then {}", op_, (*shapes_)[i], shapes[i]));
    }
    return results;
  }

  // f of the float64 copies, through separate code.
  std::vector<Tensor> of_reference(const std::vector<Tensor>& inputs) const {
    const CpuBackendGuard guard(CpuBackend::kEigen);
    const char* remedy = "f must work on float64 copies of its inputs on the CPU; pass what it captured as inputs";
    std::vector<Tensor> results;
    try {
      results = (*this)(inputs);
    } catch (const GradcheckError&) {
      throw;
    } catch (const OutOfMemoryError&) {
      throw;
    } catch (const Error& error) {
      throw Error(fmt::format("{}: {}; got: {}", op_, remedy, error.what()));
    }
    for (const Tensor& result : results) {
      ADJOINT_CHECK(result.dtype() == kFloat64 && result.device().is_cpu(), "{}: {}; got a result of {} on {}", op_,
                    remedy, result.dtype(), result.device());
    }
    return results;
  }

 private:
  const char* op_;
  DifferentiableFunction f_;
  mutable std::optional<std::vector<Shape>> shapes_;
};

std::vector<double> values(const std::vector<Tensor>& results) {
  std::vector<double> all;
  for (const Tensor& result : results) {
    const std::vector<double> some = result.to_vector<double>();
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

// Checks that two results, or gradients, of f at the same inputs are equal.
void check_same(const char* op, const char* what, const std::vector<double>& first, const std::vector<double>& second) {
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (std::bit_cast<std::uint64_t>(first[i]) == std::bit_cast<std::uint64_t>(second[i])) continue;
    throw GradcheckError(fmt::format(
        "{}: f must be deterministic; got {:.17g}, then {:.17g} for element {} of its {} at the same inputs; "
        "seed the random numbers of f inside it",
        op, first[i], second[i], i, what));
  }
}

// f(inputs), recorded, even if f returns one of its inputs.
class Recorded {
 public:
  Recorded(const CheckedFunction& f, const std::vector<Tensor>& inputs) : out(f(inputs)) {
    for (Tensor& result : out) result = result.clone();
  }

  // The gradient of <out[which], seed>.
  std::vector<double> gradient(std::size_t which, const Tensor& input, const Tensor& seed) {
    Tensor grad;
    if (out[which].requires_grad()) {
      grad = tape_.gradient(out[which], {input}, {.retain = true, .grad_output = seed, .allow_unused = true})[0];
    }
    return grad.defined() ? grad.to_vector<double>()
                          : std::vector<double>(static_cast<std::size_t>(input.numel()), 0.0);
  }

 private:
  const PauseTape pause_;
  Tape tape_;

 public:
  std::vector<Tensor> out;
};

Jacobian analytic_jacobian(const char* op, const CheckedFunction& f, const std::vector<Tensor>& inputs,
                           const Tensor& input, const std::vector<double>& at_inputs) {
  Recorded recorded(f, inputs);
  check_same(op, "result", at_inputs, values(recorded.out));
  Recorded again(f, inputs);
  Jacobian jacobian;
  for (std::size_t which = 0; which < recorded.out.size(); ++which) {
    const Tensor& out = recorded.out[which];
    for (std::int64_t row = 0; row < out.numel(); ++row) {
      Tensor seed = Tensor::zeros(out.shape(), out.options());
      seed.view_as({1}, {1}, row).fill_(1.0);
      jacobian.push_back(recorded.gradient(which, input, seed));
    }
    // Another recording must give the same gradient: one sum with different weights reveals a difference.
    const Tensor weights = Tensor::arange(1, static_cast<double>(out.numel()) + 1, 1, {.dtype = kFloat64})
                               .reshape(out.shape())
                               .to(out.dtype())
                               .to(out.device());
    check_same(op, "gradient", recorded.gradient(which, input, weights), again.gradient(which, input, weights));
  }
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
      return values(f.of_reference(inputs));
    };
    const std::vector<double> above = at(high), below = at(low);
    element.fill_(value);
    for (std::size_t row = 0; row < rows; ++row) {
      jacobian[row][static_cast<std::size_t>(column)] = (above[row] - below[row]) / (2.0 * eps);
    }
  }
  return jacobian;
}

struct Tolerances {
  double atol, rtol;
};

// The tolerances of the narrowest dtype among the checked ones.
Tolerances tolerances(const GradcheckOptions& options, const std::vector<Tensor>& inputs) {
  Tolerances all{1e-5, 1e-3};
  for (const Tensor& input : inputs) {
    Tolerances own{};
    switch (input.dtype()) {
      case kFloat32: own = {1e-4, 1e-3}; break;
      case kFloat16: own = {1e-2, 1e-2}; break;
      case kBFloat16: own = {5e-2, 5e-2}; break;
      default: break;
    }
    all = {std::max(all.atol, own.atol), std::max(all.rtol, own.rtol)};
  }
  return {options.atol.value_or(all.atol), options.rtol.value_or(all.rtol)};
}

void compare(const char* op, std::size_t index, const Tensor& input, const Jacobian& analytic, const Jacobian& numeric,
             const Tolerances& within, double eps) {
  for (std::size_t row = 0; row < numeric.size(); ++row) {
    for (std::size_t column = 0; column < numeric[row].size(); ++column) {
      const double a = analytic[row][column], n = numeric[row][column];
      const bool finite = std::isfinite(a) && std::isfinite(n);
      if (finite && std::abs(a - n) <= within.atol + within.rtol * std::abs(n)) continue;
      throw GradcheckError(
          fmt::format("{}: analytic and numeric gradient {}; got {:.17g} and {:.17g} for result element {} by "
                      "element {} of input {} of shape {} (atol {}, rtol {}, eps {})",
                      op, finite ? "differ" : "must be finite", a, n, row, column, index, input.shape(), within.atol,
                      within.rtol, eps));
    }
  }
}

bool check(const char* op, const CheckedFunction& f, const std::vector<Tensor>& inputs,
           const GradcheckOptions& options) {
  const std::vector<double> at_inputs = values(f(inputs));
  const std::vector<Tensor> copies = references(inputs);
  const std::vector<double> at_copies = values(f.of_reference(copies));
  const Tolerances within = tolerances(options, inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].requires_grad()) continue;
    const Jacobian analytic = analytic_jacobian(op, f, inputs, inputs[i], at_inputs);
    const Jacobian numeric = numeric_jacobian(op, f, copies, copies[i], at_inputs.size(), options.eps);
    check_same(op, "result", at_copies, values(f.of_reference(copies)));
    compare(op, i, inputs[i], analytic, numeric, within, options.eps);
  }
  return true;
}

void check_options(const char* op, const GradcheckOptions& options) {
  ADJOINT_CHECK(std::isfinite(options.eps) && options.eps > 0.0, "{}: eps must be finite and above 0; got {}", op,
                options.eps);
  const double atol = options.atol.value_or(0.0), rtol = options.rtol.value_or(0.0);
  ADJOINT_CHECK(std::isfinite(atol) && atol >= 0.0 && std::isfinite(rtol) && rtol >= 0.0,
                "{}: atol and rtol must be finite and not negative; got {} and {}", op, atol, rtol);
}

// d(sum over k of <f_k(x), v_k>) / dx[index], where `arguments` are all x and then all v.
Tensor gradient_of(const CheckedFunction& f, const std::vector<Tensor>& arguments, std::size_t count,
                   std::size_t index) {
  const std::vector<Tensor> x(arguments.begin(), arguments.begin() + static_cast<std::ptrdiff_t>(count));
  Tensor total;
  const std::vector<Tensor> results = f(x);
  for (std::size_t k = 0; k < results.size(); ++k) {
    const Tensor y = results[k].clone();
    if (!y.requires_grad()) continue;
    const Tensor g =
        gradient(y, {x[index]}, {.record = true, .grad_output = arguments[count + k], .allow_unused = true})[0];
    if (g.defined()) total = total.defined() ? total + g : g;
  }
  return total.defined() ? total : Tensor::zeros(x[index].shape(), x[index].options());
}

double sum_of(const Tensor& x) { return x.to(kFloat64).sum().item<double>(); }

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
  const std::vector<Tensor> results = checked(own);
  check_same("gradgradcheck", "result", values(results), values(checked(own)));
  Generator generator(0x61646a6f696e74);  // any fixed seed, so that a failure repeats
  for (const Tensor& result : results) {
    Tensor incoming = Tensor::empty(result.shape(), result.options());
    fill_uniform(incoming, -1.0, 1.0, generator);
    own.push_back(incoming.requires_grad_());
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (!own[i].requires_grad()) continue;
    const CheckedFunction gradient("gradgradcheck", [&checked, i, count](const std::vector<Tensor>& arguments) {
      return gradient_of(checked, arguments, count, i);
    });
    check("gradgradcheck", gradient, own, options);
  }
  return true;
}

bool check_adjoint(const std::function<Tensor(const Tensor&)>& f, const Tensor& x, std::optional<double> tolerance) {
  const PauseTape pause;
  ADJOINT_CHECK(f, "check_adjoint: f must be a function; got an empty std::function");
  ADJOINT_CHECK(x.defined() && is_floating_point(x.dtype()), "check_adjoint: x must be floating point; got {}",
                x.defined() ? to_string(x.dtype()) : "Tensor{}");
  const Tensor leaf = x.detach().clone().requires_grad_();
  Tape tape;
  const Tensor result = f(leaf).clone();
  ADJOINT_CHECK(is_floating_point(result.dtype()), "check_adjoint: f's result must be floating point; got {}",
                result.dtype());
  Generator generator(0x61646a6f696e74);
  Tensor y = Tensor::empty(result.shape(), result.options()), v = Tensor::empty(x.shape(), x.options());
  fill_uniform(y, -1.0, 1.0, generator);
  fill_uniform(v, -1.0, 1.0, generator);
  Tensor back;
  if (result.requires_grad()) back = tape.gradient(result, {leaf}, {.grad_output = y, .allow_unused = true})[0];
  if (!back.defined()) back = Tensor::zeros(x.shape(), x.options());
  const PauseTape unrecorded;
  const double within = tolerance.value_or(64.0 * std::max(epsilon(x.dtype()), epsilon(result.dtype())));
  const auto compare_sums = [&](const char* what, double a, double b, double scale) {
    if (std::abs(a - b) <= within * scale) return;
    throw GradcheckError(
        fmt::format("check_adjoint: {}; got {:.17g} and {:.17g} (tolerance {} of {})", what, a, b, within, scale));
  };
  const auto wide = [](const Tensor& t) { return t.detach().to(kFloat64); };
  const auto size = [](const Tensor& products) {  // products may have both signs
    double all = 0.0;
    for (const double product : products.to_vector<double>()) all += std::abs(product);
    return all;
  };
  // Checks linearity first, because other functions have no adjoint. Powers of 2 scale without rounding.
  constexpr double kA = -0.5, kB = 2.0;
  const Tensor forward = wide(result) * wide(y), backward = wide(leaf) * wide(back);
  const auto of = [&](const Tensor& at) {  // under a tape, like above
    const Tape own;
    return f(at).detach();
  };
  const Tensor of_zero = wide(of(Tensor::zeros(x.shape(), x.options()))) * wide(y);
  compare_sums("f must be linear: sum |f(0) y| must be 0", size(of_zero), 0.0, size(forward));
  const Tensor both = wide(of(leaf.detach() * kA + v * kB)) * wide(y), other = wide(of(v)) * wide(y);
  compare_sums("f must be linear: <f(-x / 2 + 2 v), y> must be -<f(x), y> / 2 + 2 <f(v), y>", sum_of(both),
               kA * sum_of(forward) + kB * sum_of(other), size(both) + std::abs(kA) * size(forward) + kB * size(other));
  compare_sums("f is linear, but its gradient is not its adjoint A: <f(x), y> must be <x, A(y)>", sum_of(forward),
               sum_of(backward), std::max(size(forward), size(backward)));
  return true;
}

}  // namespace adjoint
