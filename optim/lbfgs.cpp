#include <adjoint/optim/lbfgs.h>

#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/check.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/join/join.h>
#include <adjoint/ops/reduce/reduce.h>
#include <adjoint/optim/batch.h>
#include <adjoint/optim/saved_state.h>
#include <adjoint/optim/strong_wolfe.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace adjoint::optim {
namespace {

constexpr const char* kPrefix = "lbfgs.";
std::string prefixed(const char* name) { return std::string(kPrefix) + name; }

double dot(const Tensor& a, const Tensor& b) { return (a * b).sum().item<double>(); }
double largest(const Tensor& x) { return abs(x).max().item<double>(); }

}  // namespace

void LBFGSOptions::check() const {
  ADJOINT_CHECK(max_iter >= 1 && max_eval.value_or(1) >= 1 && history_size >= 1,
                "LBFGS: max_iter, max_eval and history_size must be at least 1; got {}, {} and {}", max_iter,
                max_eval.value_or(1), history_size);
  ADJOINT_CHECK(tolerance_grad >= 0.0 && tolerance_change >= 0.0,
                "LBFGS: tolerances must not be negative; got tolerance_grad {} and tolerance_change {}", tolerance_grad,
                tolerance_change);
  ADJOINT_CHECK(line_search_fn.empty() || line_search_fn == "strong_wolfe",
                "LBFGS: line_search_fn must be \"strong_wolfe\" or empty; got \"{}\"", line_search_fn);
}

LBFGS::LBFGS(std::vector<Tensor> parameters, const LBFGSOptions& options)
    : Optimizer("LBFGS", std::move(parameters), options.lr, {}), options_(options) {
  options.check();
}

LBFGSOptions LBFGS::options() const {
  LBFGSOptions now = options_;
  now.lr = lr();
  return now;
}

void LBFGS::update(const ParameterUpdate&) {
  fail("LBFGS: step() must be given a closure, which computes the loss; got a step without one");
}

// All parameters' elements, or gradients, one after the other.
Tensor LBFGS::flat(bool gradients) const {
  const PauseTape pause;
  std::vector<Tensor> parts;
  for (const Tensor& parameter : parameters()) {
    const Tensor& first = parameters().front();
    ADJOINT_CHECK(parameter.dtype() == first.dtype() && parameter.device() == first.device(),
                  "LBFGS: parameters must share a dtype and a device; got {} on {} and {} on {}", first.dtype(),
                  first.device(), parameter.dtype(), parameter.device());
    const Tensor values = !gradients                   ? parameter
                          : parameter.grad().defined() ? parameter.grad()
                                                       : zeros_like(parameter);
    parts.push_back(values.detach().to(state_dtype(first.dtype())).reshape({parameter.numel()}));
  }
  return cat(parts);
}

void LBFGS::write(const Tensor& values) {
  const PauseTape pause;
  std::int64_t at = 0;
  for (Tensor parameter : parameters()) {
    parameter.copy_(values.narrow(0, at, parameter.numel()).reshape(parameter.shape()));
    at += parameter.numel();
  }
}

double LBFGS::evaluate(const Closure& closure, Tensor& loss) {
  loss = closure();
  ADJOINT_CHECK(loss.defined() && loss.numel() == 1, "LBFGS: the closure must return a loss of one element; got {}",
                loss.defined() ? to_string(loss.shape()) : "Tensor{}");
  return loss.item<double>();
}

// The gradient times the inverse Hessian's approximation, by the recursion of two loops.
void LBFGS::find_direction(Memory& m, const Tensor& gradient) const {
  if (m.iterations == 1) {
    m.direction = -gradient;
    m.gradient_changes.clear();
    m.parameter_changes.clear();
    m.scale = 1.0;
    return;
  }
  const Tensor gradient_change = gradient - m.gradient, change = m.direction * m.length;
  if (const double curvature = dot(gradient_change, change); curvature > 1e-10) {
    if (static_cast<std::int64_t>(m.gradient_changes.size()) == options_.history_size) {
      m.gradient_changes.erase(m.gradient_changes.begin());
      m.parameter_changes.erase(m.parameter_changes.begin());
    }
    m.gradient_changes.push_back(gradient_change);
    m.parameter_changes.push_back(change);
    m.scale = curvature / dot(gradient_change, gradient_change);
  }
  const std::size_t count = m.gradient_changes.size();
  std::vector<double> shares(count), inverses(count);
  Tensor direction = -gradient;
  for (std::size_t i = count; i-- > 0;) {
    inverses[i] = 1.0 / dot(m.gradient_changes[i], m.parameter_changes[i]);
    shares[i] = dot(m.parameter_changes[i], direction) * inverses[i];
    direction.add_(m.gradient_changes[i], -shares[i]);
  }
  direction.mul_(m.scale);
  for (std::size_t i = 0; i < count; ++i) {
    const double other = dot(m.gradient_changes[i], direction) * inverses[i];
    direction.add_(m.parameter_changes[i], shares[i] - other);
  }
  m.direction = direction;
}

void LBFGS::iterate(const Closure& closure, Memory& m, double loss, Tensor gradient) {
  const std::int64_t most_evaluations = options_.max_eval.value_or(std::min(options_.max_iter, kMostSteps / 8) * 5 / 4);
  std::int64_t evaluations = 1;
  for (std::int64_t iteration = 1;; ++iteration) {
    ++m.iterations;
    find_direction(m, gradient);
    m.gradient = gradient;
    m.loss = loss;
    m.length = lr() * (m.iterations == 1 ? std::min(1.0, 1.0 / abs(gradient).sum().item<double>()) : 1.0);
    const double slope = dot(gradient, m.direction);
    if (slope > -options_.tolerance_change) return;
    const Tensor from = flat(false);
    Tensor ignored;
    if (!options_.line_search_fn.empty()) {
      const auto trial = [&](double length) {
        write(from + m.direction * length);
        LineTrial found{.length = length, .loss = evaluate(closure, ignored)};
        found.gradient = flat(true);
        found.slope = dot(found.gradient, m.direction);
        ++evaluations;
        ++m.evaluations;
        return found;
      };
      const LineTrial best =
          strong_wolfe(trial, {0.0, loss, slope, gradient}, m.length, largest(m.direction), options_.tolerance_change);
      m.length = best.length;
      loss = best.loss;
      gradient = best.gradient;
      write(from + m.direction * m.length);
    } else {
      write(from + m.direction * m.length);
      // The last iteration needs no new gradient.
      if (iteration == options_.max_iter) return;
      loss = evaluate(closure, ignored);
      gradient = flat(true);
      ++evaluations;
      ++m.evaluations;
    }
    if (iteration == options_.max_iter || evaluations >= most_evaluations) return;
    if (largest(gradient) <= options_.tolerance_grad) return;
    if (largest(m.direction) * std::abs(m.length) <= options_.tolerance_change) return;
    if (std::abs(loss - m.loss) < options_.tolerance_change) return;
  }
}

Tensor LBFGS::step(const Closure& closure) {
  check_not_moved_from("LBFGS::step");
  ADJOINT_CHECK(closure != nullptr, "LBFGS: the closure must not be empty; got none");
  const Tensor before = flat(false);
  Memory memory = memory_;
  Tensor first;
  const double loss = evaluate(closure, first);
  if (frozen(0)) return first;
  ++memory.evaluations;
  const Tensor gradient = flat(true);
  try {
    if (gradient.numel() > 0 && !(largest(gradient) <= options_.tolerance_grad)) {
      iterate(closure, memory, loss, gradient);
    }
  } catch (...) {
    write(before);
    throw;
  }
  memory_ = std::move(memory);
  return first;
}

NamedTensors LBFGS::state_dict() const {
  NamedTensors state = Optimizer::state_dict();
  const Memory& m = memory_;
  if (m.iterations == 0) return state;
  const auto add = [&](const char* name, const Tensor& tensor) { state.emplace_back(prefixed(name), tensor); };
  const auto number = [](double value) { return Tensor::scalar(value, {.dtype = kFloat64}); };
  const auto count = [](std::int64_t value) {
    return Tensor::from_vector<std::int64_t>({value}, {}, {.dtype = kInt64});
  };
  const auto rows = [&](const std::vector<Tensor>& all) {
    return all.empty() ? Tensor::empty({0, m.direction.numel()}, m.direction.options()) : stack(all);
  };
  add("n_iter", count(m.iterations));
  add("func_evals", count(m.evaluations));
  add("t", number(m.length));
  add("H_diag", number(m.scale));
  add("prev_loss", number(m.loss));
  add("d", m.direction);
  add("prev_flat_grad", m.gradient);
  add("old_dirs", rows(m.gradient_changes));
  add("old_stps", rows(m.parameter_changes));
  return state;
}

void LBFGS::load_state_dict(const NamedTensors& state, const LoadStateOptions& options) {
  check_not_moved_from("load_state_dict");
  const PauseTape pause;
  NamedTensors own, others;
  for (const auto& entry : state) (entry.first.starts_with(kPrefix) ? own : others).push_back(entry);
  Memory memory;
  if (!own.empty()) {
    SavedState saved("LBFGS", own);
    const Tensor position = flat(false);
    const auto number = [&](const char* name) {
      const Tensor tensor = saved.take(prefixed(name));
      ADJOINT_CHECK(tensor.numel() == 1 && is_floating_point(tensor.dtype()),
                    "load_state_dict (LBFGS): '{}{}' must be one number; got {} {}", kPrefix, name, tensor.dtype(),
                    tensor.shape());
      return tensor.item<double>();
    };
    const auto rows = [&](const char* name) {
      const Tensor all = saved.take(prefixed(name));
      ADJOINT_CHECK(all.dim() == 2 && all.size(1) == position.numel() && is_floating_point(all.dtype()),
                    "load_state_dict (LBFGS): '{}{}' must have the shape (history, {}); got {} {}", kPrefix, name,
                    position.numel(), all.dtype(), all.shape());
      std::vector<Tensor> parts;
      for (std::int64_t i = 0; i < all.size(0); ++i) {
        parts.push_back(all[i].detach().to(position.device(), position.dtype()).clone());
      }
      return parts;
    };
    memory.iterations = saved.take_count(prefixed("n_iter"), 1);
    memory.evaluations = saved.take_count(prefixed("func_evals"), 1);
    memory.length = number("t");
    memory.scale = number("H_diag");
    memory.loss = number("prev_loss");
    memory.direction = saved.take_like(prefixed("d"), position);
    memory.gradient = saved.take_like(prefixed("prev_flat_grad"), position);
    memory.gradient_changes = rows("old_dirs");
    memory.parameter_changes = rows("old_stps");
    ADJOINT_CHECK(memory.gradient_changes.size() == memory.parameter_changes.size(),
                  "load_state_dict (LBFGS): '{0}old_dirs' and '{0}old_stps' must be as long; got {1} and {2}", kPrefix,
                  memory.gradient_changes.size(), memory.parameter_changes.size());
    if (options.strict) saved.check_taken("optimiser's own");
  }
  Optimizer::load_state_dict(others, options);
  memory_ = std::move(memory);
}

}  // namespace adjoint::optim
