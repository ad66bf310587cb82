// You are at stop 7 of 7 of the README's reading path, the loop: this is one update of a training. training.cpp comes
// next.
#include "common/arithmetic.h"

#include <adjoint/core/autograd/autocast.h>
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/error.h>
#include <adjoint/core/base/precision.h>

#include <fmt/format.h>

#include <algorithm>

namespace examples {

using adjoint::NamedTensors;
using adjoint::Tensor;
using adjoint::optim::GradScaler;

const std::vector<std::string>& precisions() {
  static const std::vector<std::string> names{"float32", "tf32", "bf16", "fp16"};
  return names;
}

Arithmetic::Arithmetic(const std::string& precision) {
  adjoint::set_float32_precision(precision == "float32" ? adjoint::Precision::kFull : adjoint::Precision::kTF32);
  if (precision == "bf16") half_ = adjoint::kBFloat16;
  if (precision == "fp16") half_ = adjoint::kFloat16;
}

GradScaler& Arithmetic::scaler_of(const adjoint::optim::Optimizer& optimizer) {
  const auto find = [&](const adjoint::optim::Optimizer* wanted) {
    return std::find_if(scalers_.begin(), scalers_.end(), [&](const Scaler& s) { return s.first == wanted; });
  };
  auto found = find(&optimizer);
  if (found == scalers_.end()) found = find(nullptr);
  if (found == scalers_.end()) found = scalers_.emplace(scalers_.end());
  found->first = &optimizer;
  return found->second;
}

Tensor Arithmetic::minimise(adjoint::optim::Optimizer& optimizer, const std::function<Tensor()>& loss,
                            const adjoint::optim::StepOptions& options) {
  GradScaler* const scaler = half_ == adjoint::kFloat16 ? &scaler_of(optimizer) : nullptr;
  Tensor value;
  {
    adjoint::Tape tape;
    Tensor scalar;
    {
      const adjoint::AutocastGuard autocast(half_.value_or(adjoint::kBFloat16), {.enabled = half_.has_value()});
      scalar = loss();
    }
    tape.backward(scaler != nullptr ? scaler->scale(scalar) : scalar);
    value = scalar.detach();
  }
  if (scaler != nullptr) {
    scaler->step(optimizer, options);
    scaler->update();
  } else {
    optimizer.step(options);
  }
  optimizer.zero_grad();
  return value;
}

NamedTensors Arithmetic::state_dict() const {
  NamedTensors state;
  int i = 0;
  for (const auto& [optimizer, scaler] : scalers_) {
    for (const auto& [name, tensor] : scaler.state_dict()) state.emplace_back(fmt::format("{}.{}", i, name), tensor);
    ++i;
  }
  return state;
}

void Arithmetic::load_state_dict(const NamedTensors& state) {
  scalers_.clear();
  for (std::size_t taken = 0; taken < state.size();) {
    const std::string prefix = fmt::format("{}.", scalers_.size());
    NamedTensors own;
    for (const auto& [name, tensor] : state) {
      if (name.starts_with(prefix)) own.emplace_back(name.substr(prefix.size()), tensor);
    }
    if (own.empty()) throw adjoint::Error(fmt::format("it holds no '{}scale'", prefix));
    scalers_.emplace_back().second.load_state_dict(own);
    taken += own.size();
  }
}

}  // namespace examples
