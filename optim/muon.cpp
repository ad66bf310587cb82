#include <adjoint/optim/muon.h>

#include <adjoint/core/base/check.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/matmul/matmul.h>
#include <adjoint/ops/reduce/reduce.h>

#include <algorithm>
#include <cmath>

namespace adjoint::optim {

template class OptimizerOf<MuonOptions>;

void MuonOptions::check() const {
  ADJOINT_CHECK(weight_decay >= 0.0, "Muon: weight_decay must not be negative; got {}", weight_decay);
  ADJOINT_CHECK(momentum >= 0.0 && momentum < 1.0, "Muon: momentum must be in [0, 1); got {}", momentum);
  ADJOINT_CHECK(eps >= 0.0, "Muon: eps must not be negative; got {}", eps);
  ADJOINT_CHECK(ns_steps >= 1, "Muon: ns_steps must be at least 1; got {}", ns_steps);
  check_enumerator("Muon", "MuonRate", adjust_lr_fn, MuonRate::kMatchRmsAdamW);
}

void MuonOptions::check(const Tensor& parameter) const {
  ADJOINT_CHECK(!parameter.defined() || parameter.dim() >= 2,
                "Muon: parameters must have two axes at least; got {}; give biases and scales to AdamW",
                parameter.shape());
}

std::vector<std::string> MuonOptions::state_names() const { return {"momentum_buffer"}; }

namespace {

// Nearly U V^T of `matrix` = U S V^T.
Tensor orthogonalised(const Tensor& matrix, const MuonOptions& o) {
  const bool tall = matrix.size(0) > matrix.size(1);
  Tensor x = tall ? matrix.t() : matrix;
  x = x / clamp_min(norm(x), o.eps);
  const auto& [a, b, c] = o.ns_coefficients;
  for (std::int64_t step = 0; step < o.ns_steps; ++step) {
    const Tensor gram = matmul(x, x.t());
    x = x * a + matmul(gram * b + matmul(gram, gram) * c, x);
  }
  return tall ? x.t() : x;
}

}  // namespace

void Muon::update(const ParameterUpdate& u) {
  const MuonOptions o = options(u.group);
  Tensor& buffer = u.state[0];
  const Tensor gradient = u.gradient.to(buffer.dtype());
  buffer.lerp_(gradient, 1.0 - o.momentum);
  const Tensor change = o.nesterov ? lerp(gradient, buffer, o.momentum) : buffer;
  const Tensor matrix = change.reshape({change.size(0), -1});
  const auto rows = static_cast<double>(matrix.size(0)), columns = static_cast<double>(matrix.size(1));
  const double scale = o.adjust_lr_fn == MuonRate::kOriginal ? std::sqrt(std::max(1.0, rows / columns))
                                                             : 0.2 * std::sqrt(std::max(rows, columns));
  const Tensor step = orthogonalised(matrix, o).reshape(u.parameter.shape());
  u.parameter.copy_(u.parameter.to(buffer.dtype()) * (1.0 - u.lr * o.weight_decay) - step * (u.lr * scale));
}

}  // namespace adjoint::optim
