// PlannedCall: a call of an operator that is repeated on the same operands and results. Internal.
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/core/tensor/tensor.h>

#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace adjoint::detail {

/// The operands and results may be replaced by others of the same shapes, dtypes and strides before prepare().
class ADJOINT_API PlannedCall {
 public:
  PlannedCall(const char* op, std::span<const Tensor> operands, std::span<const Tensor> results)
      : name(op), in(operands.begin(), operands.end()), out(results.begin(), results.end()) {}
  virtual ~PlannedCall() = default;
  PlannedCall(const PlannedCall&) = delete;
  PlannedCall& operator=(const PlannedCall&) = delete;

  /// Decides everything that does not depend on elements, except on those of frozen operands.
  virtual void prepare() = 0;
  /// Computes the results again.
  virtual void run() = 0;

  const char* const name;
  std::vector<Tensor> in, out;
};

/// target.copy_(source).
class ADJOINT_API PlannedCopy final : public PlannedCall {
 public:
  PlannedCopy(const Tensor& source, const Tensor& target) : PlannedCall("copy_", {&source, 1}, {&target, 1}) {}
  void prepare() override;
  void run() override;

 private:
  Tensor from_;  // in the target's shape
};

/// A check of elements, which throws Error.
class ADJOINT_API PlannedCheck final : public PlannedCall {
 public:
  PlannedCheck(const char* op, const Tensor& values, std::function<void(const Tensor&)> check)
      : PlannedCall(op, {&values, 1}, {}), check_(std::move(check)) {}
  void prepare() override {}
  void run() override { check_(in[0]); }

 private:
  std::function<void(const Tensor&)> check_;
};

}  // namespace adjoint::detail
