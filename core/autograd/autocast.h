// Autocast: a region of a program in mixed precision.
//
//   adjoint::Tape tape;
//   Tensor loss;
//   {
//     adjoint::AutocastGuard autocast(adjoint::kBFloat16);
//     loss = mse_loss(net(x), y);  // convolutions in bfloat16, the loss in float32
//   }
//   tape.backward(loss);           // in the dtypes of the forward calls; parameters' gradients are float32
//
// Each operator's table defines the dtype in which it computes (OpDef::mixed_precision). The assignment follows
// PyTorch's lists for CUDA, on both devices: convolutions, linear, matmul, attention and prelu in the region's dtype;
// exp, log, pow and similar functions, sums, norms, softmax, layer and group normalisation and losses in float32; all
// others in the widest dtype among their operands. float64, integers and in-place operations are left alone. Casts are
// recorded: gradients arrive in the dtype of the original tensor.
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/core/tensor/dtype.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace adjoint {

class Tensor;

struct AutocastOptions {
  /// False: behaves as if there were no guard, even inside another's region.
  bool enabled = true;
  /// True: casts a parameter once, and again after it was written to. False: casts it at each use.
  bool cache_enabled = true;
};

namespace detail {
struct AutocastRegion;
}  // namespace detail

/// While it lives, operators that this thread calls follow mixed precision. Guards nest and end in reverse order, on
/// the thread that made them. Backward passes, and calls from kernels, are outside every region.
class ADJOINT_API AutocastGuard {
 public:
  /// Throws Error unless dtype is float16 or bfloat16.
  explicit AutocastGuard(DType dtype, const AutocastOptions& options = {});
  ~AutocastGuard();
  AutocastGuard(const AutocastGuard&) = delete;
  AutocastGuard& operator=(const AutocastGuard&) = delete;

 private:
  std::unique_ptr<detail::AutocastRegion> region_;  // null if it is not enabled
  detail::AutocastRegion* outer_;
};

/// Hides every region of this thread while it lives; a guard made inside it casts again.
class ADJOINT_API PauseAutocast {
 public:
  PauseAutocast();
  ~PauseAutocast();
  PauseAutocast(const PauseAutocast&) = delete;
  PauseAutocast& operator=(const PauseAutocast&) = delete;

 private:
  detail::AutocastRegion* outer_;
};

/// The dtype of this thread's region; empty outside.
ADJOINT_API std::optional<DType> autocast_dtype();
/// Drops the casts of parameters that this thread's region keeps, as the end of its outermost guard does. For code that
/// writes to parameters without counting the write, such as the replay of a CUDA graph.
ADJOINT_API void clear_autocast_cache();

/// The dtype in which mixed precision computes an operator: the widest of its operands' dtypes, 16 bits, float32
/// (kFull), the dtype of its first operand, or the operands' dtypes, even if they differ.
enum class MixedPrecision : std::uint8_t { kWidest, kLow, kFull, kFirst, kAsGiven };

namespace detail {

/// A guard's dtype and options, from which to make another.
struct AutocastSettings {
  DType dtype = kBFloat16;
  AutocastOptions options = {.enabled = false};
};
/// The settings of this thread's region.
ADJOINT_API AutocastSettings autocast_settings();

/// Null outside every region.
ADJOINT_API AutocastRegion* autocast_region();

/// A call of a function that has a policy. Inside a region it converts to true, holds the operands as the policy casts
/// them, and hides the region while it lives. Undefined operands pass through. For functions that check their operands
/// before an operator does:
///
///   if (const detail::AutocastCall low(MixedPrecision::kLow, {x, weight}); low) return linear(low[0], low[1]);
class ADJOINT_API AutocastCall {
 public:
  AutocastCall(MixedPrecision policy, std::span<const Tensor> operands);
  AutocastCall(MixedPrecision policy, std::initializer_list<std::reference_wrapper<const Tensor>> operands);
  ~AutocastCall();
  AutocastCall(const AutocastCall&) = delete;
  AutocastCall& operator=(const AutocastCall&) = delete;

  explicit operator bool() const { return region_ != nullptr; }
  const Tensor& operator[](std::size_t i) const;
  std::span<const Tensor> operands() const { return operands_; }

 private:
  void cast(MixedPrecision policy);

  AutocastRegion* region_;
  PauseAutocast pause_;
  std::vector<Tensor> own_;  // if anything is cast
  std::span<const Tensor> operands_;
};

}  // namespace detail
}  // namespace adjoint
