// Launches fused attention's kernels. Each arithmetic is one translation unit.
#pragma once

#include <adjoint/core/cuda/launch.h>
#include <adjoint/core/tensor/copy.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/ops/attention/cuda/attention.h>
#include <adjoint/ops/attention/cuda/kernel.cuh>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace adjoint::cuda {
namespace attention {

/// The tensor, or a contiguous copy if the copy engine cannot read it.
inline Tensor readable(const Tensor& t) {
  const std::int64_t size = element_size(t.dtype());
  bool fits = reinterpret_cast<std::uintptr_t>(t.raw_data()) % 16 == 0 && t.strides()[3] == 1;
  for (std::size_t axis = 0; axis < 3; ++axis) fits = fits && t.strides()[axis] * size % 16 == 0;
  return fits && (t.strides()[2] != 0 || t.size(2) == 1) ? t : contiguous_copy(t);
}

/// Boxes are one line of `rows` rows.
template <class F>
Operand operand(const Tensor& t, std::int32_t rows) {
  constexpr std::int32_t kLine = kLineBytes / F::kElementBytes;
  TensorMapLayout layout{.data = t.raw_data(), .dtype = t.dtype(), .box = {kLine, rows, 1, 1, 1}};
  layout.rounds_to_tf32 = !F::kHalf;
  layout.swizzled = true;
  const auto extents = [&](std::size_t axis) { return t.strides()[axis] == 0 ? 1 : t.shape()[axis]; };
  const auto steps = [&](std::size_t axis) { return extents(axis) > 1 ? 1 : 0; };
  for (std::size_t i = 0; i < kTensorMapAxes; ++i) {
    layout.extents[i] = i == 4 ? 1 : extents(3 - i);
    layout.strides[i] = i < 4 && layout.extents[i] > 1 ? t.strides()[3 - i] : kLine;
  }
  return {encode_tensor_map(layout), static_cast<std::int32_t>(t.size(1)), steps(0), steps(1)};
}

struct Call {
  Tensor query, key, value, mask;
  Tensor slopes;  // the result's gradient, in the backward pass
  float *logs, *maxima;
  const float* deltas;
};

template <class F>
Problem problem_of(const Call& call, const AttentionAttr& attr) {
  const Tensor &q = call.query, &k = call.key, &v = call.value;
  Problem p{};
  p.kept_x = operand<F>(F::kByKey ? k : q, kTeamRows);
  if (F::kKeepsY) p.kept_y = operand<F>(F::kByKey ? v : call.slopes, kTeamRows);
  p.moving_x = operand<F>(F::kByKey ? q : k, F::kColumns);
  p.moving_y = operand<F>(F::kByKey ? call.slopes : v, F::kColumns);
  p.heads = static_cast<std::int32_t>(q.size(1));
  p.group = static_cast<std::int32_t>(q.size(1) / k.size(1));
  p.queries = static_cast<std::int32_t>(q.size(2));
  p.keys = static_cast<std::int32_t>(k.size(2));
  p.padded_queries = static_cast<std::int32_t>(AttentionAttr::statistics(q)[2]);
  p.tiles = ((F::kByKey ? p.keys : p.queries) + F::kRows - 1) / F::kRows;
  const std::int64_t pairs = q.size(0) * (F::kByKey ? k.size(1) : q.size(1));
  p.pairs = static_cast<std::int32_t>(pairs);
  // With a causal mask, the heads of a section take turns, so that blocks get equal shares; the section's moving rows
  // fit into the L2.
  constexpr std::int64_t kSectionBytes = 16 << 20;
  const std::int64_t moving = 2 * F::kRowBytes * (F::kByKey ? q.size(2) * p.group : k.size(2));
  p.section =
      attr.is_causal ? static_cast<std::int32_t>(std::clamp<std::int64_t>(kSectionBytes / moving, 1, pairs)) : 1;
  p.causal = attr.is_causal;
  p.scale = static_cast<float>(attr.scale);
  if (call.mask.defined()) {
    p.mask.data = call.mask.raw_data();
    std::copy_n(call.mask.strides().begin(), 4, p.mask.strides);
    p.mask.added = call.mask.dtype() != kBool;
  }
  p.exponent = static_cast<float>((p.mask.added ? 1.0 : attr.scale) * 1.4426950408889634);
  if (attr.dropout_p > 0.0) {
    const double stays = 1.0 - attr.dropout_p;
    p.dropout = {static_cast<std::uint64_t>(std::ceil(stays * 0x1p53)),
                 stays > 0.0 ? static_cast<float>(1.0 / stays) : 1.0F, true, attr.at};
  }
  p.logs = call.logs;
  p.maxima = call.maxima;
  p.deltas = call.deltas;
  return p;
}

/// Launches a part. x, y: the results of Problem.
template <class F>
void run_part(const Call& call, const AttentionAttr& attr, Tensor* x, Tensor* y) {
  Problem p = problem_of<F>(call, attr);
  const int device = call.query.device().index;
  if (x != nullptr) {
    p.result_x = x->raw_mutable_data();
    p.result_x_extent = static_cast<std::int32_t>(x->size(3));
  }
  if (y != nullptr) {
    p.result_y = y->raw_mutable_data();
    p.result_y_extent = static_cast<std::int32_t>(y->size(3));
  }
  const DeviceGuard guard(device);
  const auto kernel = attention_kernel<F>;
  allow_smem(kernel, F::kSmemBytes);
  const int blocks = std::min(p.pairs * p.tiles, multiprocessor_count(device));
  launch(kernel, {dim3(static_cast<unsigned>(blocks)), dim3(F::kThreads), F::kSmemBytes}, device, p);
}

/// run.operator()<kHead>(), for rows of up to kHead elements.
template <class Run>
void with_head(const Call& call, const Run& run) {
  const std::int64_t extent = std::max(call.query.size(3), call.value.size(3));
  if (extent <= 64) return run.template operator()<64>();
  if (extent <= 128) return run.template operator()<128>();
  run.template operator()<256>();
}

/// statistics: null if no gradient needs them.
inline Call call_of(std::span<const Tensor> in, float* statistics) {
  Call call{.query = readable(in[0]), .key = readable(in[1]), .value = readable(in[2]), .mask = in[3]};
  call.logs = statistics;
  if (statistics != nullptr) call.maxima = statistics + AttentionAttr::statistics(in[0]).numel() / 2;
  return call;
}

}  // namespace attention

template <Arithmetic kArithmetic>
void run_attention(std::span<const Tensor> in, std::span<Tensor> out, const AttentionAttr& attr) {
  using namespace attention;
  float* const statistics = out[1].defined() ? static_cast<float*>(out[1].raw_mutable_data()) : nullptr;
  const Call call = call_of(in, statistics);
  with_head(call,
            [&]<int kHead>() { run_part<Form<kArithmetic, kHead, Part::kForward>>(call, attr, &out[0], nullptr); });
}

template <Arithmetic kArithmetic>
void run_attention_gradients(std::span<const Tensor> in, std::span<Tensor> out, const AttentionAttr& attr) {
  using namespace attention;
  using T = typename ArithmeticTraits<kArithmetic>::Element;
  // The kernels of the backward pass only read them.
  Call call = call_of(in.subspan(1, 4), const_cast<float*>(static_cast<const float*>(in[6].raw_data())));
  call.slopes = readable(in[0]);
  const Tensor& result = in[5];
  const int device = result.device().index;
  Tensor deltas = make_tensor({{result.size(0) * result.size(1), AttentionAttr::statistics(call.query)[2]}, kFloat32},
                              result.device());
  call.deltas = static_cast<const float*>(deltas.raw_mutable_data());
  const Strides& strides = call.slopes.strides();
  launch(attention_deltas<T>, {dim3(static_cast<unsigned>(deltas.numel() / kDeltaRows)), dim3(kDeltaThreads)}, device,
         Deltas<T>{.slopes = static_cast<const T*>(call.slopes.raw_data()),
                   .results = static_cast<const T*>(result.raw_data()),
                   .strides = {strides[0], strides[1], strides[2]},
                   .heads = static_cast<std::int32_t>(result.size(1)),
                   .queries = static_cast<std::int32_t>(result.size(2)),
                   .padded_queries = static_cast<std::int32_t>(deltas.size(1)),
                   .extent = static_cast<std::int32_t>(result.size(3)),
                   .out = static_cast<float*>(deltas.raw_mutable_data())});
  Tensor* const of_query = out[0].numel() > 0 ? &out[0] : nullptr;
  Tensor* const of_key = out[1].numel() > 0 ? &out[1] : nullptr;
  Tensor* const of_value = out[2].numel() > 0 ? &out[2] : nullptr;
  with_head(call, [&]<int kHead>() {
    if (of_query != nullptr) run_part<Form<kArithmetic, kHead, Part::kQuery>>(call, attr, of_query, nullptr);
    if constexpr (kHead > 128) {
      if (of_key != nullptr) run_part<Form<kArithmetic, kHead, Part::kKey>>(call, attr, of_key, nullptr);
      if (of_value != nullptr) run_part<Form<kArithmetic, kHead, Part::kValue>>(call, attr, nullptr, of_value);
    } else if (of_key != nullptr || of_value != nullptr) {
      Tensor unused;  // receives the gradient that is not needed
      const auto place = [&](Tensor* gradient, const Tensor& like) {
        if (gradient != nullptr) return gradient;
        unused = make_tensor({like.shape(), like.dtype()}, like.device());
        return &unused;
      };
      run_part<Form<kArithmetic, kHead, Part::kKeyValue>>(call, attr, place(of_key, in[2]), place(of_value, in[3]));
    }
  });
}

}  // namespace adjoint::cuda
