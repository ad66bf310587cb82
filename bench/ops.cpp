// A library for bench/compare_ops.py: calls Adjoint's operators by name, on memory that PyTorch owns.
#include "guarded.h"

#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/precision.h>
#include <adjoint/core/base/stream.h>
#include <adjoint/core/memory/memory.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/ops/attention/attention.h>
#include <adjoint/ops/attention/attention_weights.h>
#include <adjoint/ops/elementwise/activation.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/fold/fold.h>
#include <adjoint/ops/grid/grid.h>
#include <adjoint/ops/index/index.h>
#include <adjoint/ops/join/join.h>
#include <adjoint/ops/loss/classification.h>
#include <adjoint/ops/loss/loss.h>
#include <adjoint/ops/norm/norm.h>
#include <adjoint/ops/pad/pad.h>
#include <adjoint/ops/pool/pool.h>
#include <adjoint/ops/reduce/reduce.h>
#include <adjoint/ops/resample/resample.h>
#include <adjoint/ops/roll/roll.h>
#include <adjoint/ops/scan/scan.h>
#include <adjoint/ops/softmax/softmax.h>
#include <adjoint/ops/view/view.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace {

using namespace adjoint;
using bench::guarded;
using Tensors = std::vector<Tensor>;
using Call = std::function<Tensor(const Tensors&)>;

Tensor upsampled(const Tensor& x, Interpolation mode) { return interpolate(x, {.scale_factor = 2.0, .mode = mode}); }

#define UNARY(f)                                 \
  {                                              \
#f, [](const Tensors& x) { return f(x[0]); } \
  }
#define BINARY(f)                                      \
  {                                                    \
#f, [](const Tensors& x) { return f(x[0], x[1]); } \
  }
#define CALL(name, ...)                                          \
  {                                                              \
    name, [](const Tensors& x) -> Tensor { return __VA_ARGS__; } \
  }

// One line per name. x holds the operands, whose shapes are in compare_ops.py.
const std::map<std::string, Call>& calls() {
  static const std::map<std::string, Call> all{
      UNARY(relu),
      UNARY(relu6),
      UNARY(leaky_relu),
      UNARY(elu),
      UNARY(selu),
      UNARY(gelu),
      UNARY(gelu_tanh),
      UNARY(sigmoid),
      UNARY(silu),
      UNARY(softplus),
      UNARY(logsigmoid),
      UNARY(softsign),
      UNARY(mish),
      UNARY(hardswish),
      UNARY(hardsigmoid),
      UNARY(hardtanh),
      UNARY(exp),
      UNARY(expm1),
      UNARY(log),
      UNARY(log1p),
      UNARY(log2),
      UNARY(sqrt),
      UNARY(rsqrt),
      UNARY(reciprocal),
      UNARY(sin),
      UNARY(cos),
      UNARY(tan),
      UNARY(asin),
      UNARY(acos),
      UNARY(atan),
      UNARY(sinh),
      UNARY(cosh),
      UNARY(tanh),
      UNARY(erf),
      UNARY(abs),
      UNARY(sign),
      UNARY(square),
      UNARY(floor),
      UNARY(ceil),
      UNARY(trunc),
      UNARY(round),
      UNARY(nan_to_num),
      UNARY(glu),
      UNARY(isnan),
      UNARY(logical_not),
      BINARY(atan2),
      BINARY(fmod),
      BINARY(remainder),
      BINARY(pow),
      BINARY(minimum),
      BINARY(maximum),
      BINARY(prelu),
      BINARY(snake),
      BINARY(mse_loss),
      BINARY(l1_loss),
      BINARY(smooth_l1_loss),
      BINARY(binary_cross_entropy_with_logits),
      BINARY(cross_entropy),
      BINARY(grid_sample),
      CALL("add", x[0] + x[1]),
      CALL("mul", x[0] * x[1]),
      CALL("div", x[0] / x[1]),
      CALL("less", x[0] < x[1]),
      CALL("add_scalar", x[0] + 2.0),
      CALL("pow_2.5", pow(x[0], 2.5)),
      CALL("clamp", clamp(x[0], -0.5, 0.5)),
      CALL("lerp", lerp(x[0], x[1], 0.3)),
      CALL("where", where(x[0], x[1], x[2])),
      CALL("add_channel", x[0] + x[1].reshape({-1, 1, 1})),
      // sums and their like
      CALL("sum_all", sum(x[0])),
      CALL("sum_last", sum(x[0], -1)),
      CALL("sum_nhw", sum(x[0], {0, 2, 3})),
      CALL("sum_channels", sum(x[0], 1)),
      CALL("sum_first", sum(x[0], 0)),
      CALL("mean_all", mean(x[0])),
      CALL("var_all", var(x[0])),
      CALL("var_last", var(x[0], -1)),
      CALL("var_nhw", var(x[0], {0, 2, 3})),
      CALL("amax_all", amax(x[0])),
      CALL("amax_last", amax(x[0], -1)),
      CALL("max_last", max(x[0], -1).first),
      CALL("argmax_last", argmax(x[0], -1)),
      CALL("argmax_channels", argmax(x[0], 1)),
      CALL("prod_last", prod(x[0], -1)),
      CALL("norm_all", norm(x[0])),
      CALL("norm_last", norm(x[0], 2.0, -1)),
      CALL("any_last", any(x[0], -1)),
      CALL("logsumexp_last", logsumexp(x[0], -1)),
      CALL("softmax_last", softmax(x[0], -1)),
      CALL("softmax_channels", softmax(x[0], 1)),
      CALL("log_softmax_last", log_softmax(x[0], -1)),
      CALL("cumsum_last", cumsum(x[0], -1)),
      CALL("cumsum_first", cumsum(x[0], 0)),
      // normalisation
      CALL("batch_norm", batch_norm(x[0], {}, {}, x[1], x[2], true)),
      CALL("group_norm", group_norm(x[0], 32, x[1], x[2])),
      CALL("layer_norm", layer_norm(x[0], {x[0].size(-1)}, x[1], x[2])),
      CALL("instance_norm", instance_norm(x[0], {}, {}, x[1], x[2])),
      CALL("rms_norm", rms_norm(x[0], {x[0].size(-1)}, x[1])),
      CALL("batch_norm_relu",
           batch_norm(x[0], {}, {}, x[1], x[2], true, 0.1, 1e-5, {.activation = ActivationKind::kReLU})),
      CALL("attention", scaled_dot_product_attention(x[0], x[1], x[2])),
      CALL("attention_causal", scaled_dot_product_attention(x[0], x[1], x[2], {.is_causal = true})),
      CALL("composed_attention", adjoint::detail::attention(x[0], x[1], x[2], {}, true).result),
      CALL("composed_attention_causal", adjoint::detail::attention(x[0], x[1], x[2], {.is_causal = true}, true).result),
      // moving elements
      CALL("cat_channels", cat({x[0], x[1]}, 1)),
      CALL("stack", stack({x[0], x[1]}, 0)),
      CALL("pad_zeros", pad(x[0], {1, 1, 1, 1})),
      CALL("pad_reflect", pad(x[0], {1, 1, 1, 1}, PadMode::kReflect)),
      CALL("transpose_last", x[0].transpose(-2, -1).contiguous()),
      CALL("to_channels_last", x[0].permute({0, 2, 3, 1}).contiguous()),
      CALL("from_channels_last", x[0].permute({0, 3, 1, 2}).contiguous()),
      CALL("flip", flip(x[0], {-1})),
      CALL("roll", roll(x[0], 3, -1)),
      CALL("repeat", repeat(x[0], {2, 1, 1, 1})),
      CALL("pixel_shuffle", pixel_shuffle(x[0], 2)),
      CALL("pixel_unshuffle", pixel_unshuffle(x[0], 2)),
      CALL("nearest_x2", upsampled(x[0], Interpolation::kNearest)),
      CALL("bilinear_x2", upsampled(x[0], Interpolation::kBilinear)),
      CALL("bicubic_x2", upsampled(x[0], Interpolation::kBicubic)),
      CALL("bilinear_half", interpolate(x[0], {.scale_factor = 0.5, .mode = Interpolation::kBilinear})),
      CALL("max_pool_2", max_pool2d(x[0], 2)),
      CALL("max_pool_3_2", max_pool2d(x[0], 3, {.stride = 2, .padding = 1})),
      CALL("avg_pool_2", avg_pool2d(x[0], 2)),
      CALL("avg_pool_3_2", avg_pool2d(x[0], 3, {.stride = 2, .padding = 1})),
      CALL("global_avg_pool", adaptive_avg_pool2d(x[0], 1)),
      CALL("unfold_3", unfold(x[0], {.kernel_size = 3, .padding = 1})),
      CALL("index_select", index_select(x[0], 0, x[1])),
      CALL("gather_last", gather(x[0], -1, x[1])),
      CALL("embedding", embedding(x[1], x[0])),
      CALL("masked_fill", masked_fill(x[0], x[1], 0.5)),
  };
  return all;
}

struct Bound {
  const Call* call = nullptr;
  Tensors operands, gradient_of, results;
  Tensor grad_output;
};

}  // namespace

extern "C" {

/// A contiguous tensor of PyTorch's.
struct BenchOperand {
  void* data;
  std::int64_t rank, extents[8];
  int dtype, requires_grad, on_cuda;
};

const char* bench_last_error() { return bench::last_error.c_str(); }
const char* bench_dtype(int dtype) {
  static thread_local std::string name;
  name = to_string(static_cast<DType>(dtype));
  return name.c_str();
}

/// Returns the handle for the other functions, or nullptr for an error. Without grad_output it runs forward alone.
Bound* bench_bind(const char* name, const BenchOperand* operands, std::int64_t count, const BenchOperand* grad_output) {
  auto bound = std::make_unique<Bound>();
  const auto tensor = [](const BenchOperand& operand) {
    return Tensor::from_blob(operand.data,
                             Shape(std::vector<std::int64_t>(operand.extents, operand.extents + operand.rank)),
                             {.dtype = static_cast<DType>(operand.dtype), .device = operand.on_cuda ? kCUDA : kCPU});
  };
  const int failed = guarded([&] {
    bound->call = &calls().at(name);
    for (std::int64_t i = 0; i < count; ++i) {
      bound->operands.push_back(tensor(operands[i]));
      if (!grad_output || !operands[i].requires_grad) continue;
      bound->operands.back().requires_grad_();
      bound->gradient_of.push_back(bound->operands.back());
    }
    if (grad_output) bound->grad_output = tensor(*grad_output);
  });
  return failed ? nullptr : bound.release();
}
void bench_release(Bound* bound) { delete bound; }

/// Runs the call on a CUDA stream; `stream` is nullptr for operands on the CPU.
int bench_run(Bound* bound, CUstream_st* stream) {
  return guarded([&] {
    std::optional<StreamGuard> guard;
    if (bound->operands[0].device() != kCPU) guard.emplace(Stream::wrap(stream));
    bound->results.clear();
    if (!bound->grad_output.defined()) {
      bound->results.push_back((*bound->call)(bound->operands));
      return;
    }
    Tape tape;
    const Tensor y = (*bound->call)(bound->operands);
    bound->results = tape.gradient(y, bound->gradient_of, {.grad_output = bound->grad_output});
  });
}

/// Lets this thread's products round float32 to TF32, or not.
void bench_set_tf32(int rounds) { set_float32_precision(rounds != 0 ? Precision::kTF32 : Precision::kFull); }

/// The most bytes of Adjoint's tensors on the GPU during one bench_run(), its results among them, or -1 for an error.
std::int64_t bench_peak_bytes(Bound* bound, CUstream_st* stream) {
  bound->results.clear();
  const auto before = memory_stats(kCUDA).in_use;
  reset_peak_memory_stats(kCUDA);
  if (bench_run(bound, stream) != 0) return -1;
  return static_cast<std::int64_t>(memory_stats(kCUDA).peak - before);
}

/// Writes the first `elements` elements of the last run's result, or of each gradient, one tensor after another.
int bench_read(const Bound* bound, double* to, std::int64_t elements) {
  return guarded([&] {
    for (const Tensor& result : bound->results) {
      const std::vector<double> values = slice(result.reshape({-1}), 0, 0, elements).to_vector<double>();
      to = std::copy(values.begin(), values.end(), to);
    }
  });
}
}
