// The trio on the CPU: the backend, the dtype of the computation, and the activation.
#include <adjoint/core/base/cpu_backend.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/ops/conv/cpu/backend.h>
#include <adjoint/ops/conv/kernels.h>
#include <adjoint/ops/elementwise/activate.h>
#include <adjoint/ops/matmul/cpu/widen.h>
#include <adjoint/ops/reduce/kernels.h>

#include <utility>

namespace adjoint::cpu {
namespace {

template <class T>
const Backend<T>& backend() {
  static constexpr Backend<T> kVector{vector_conv<T>, vector_conv_transpose<T>, vector_conv_weight<T>};
  if (cpu_backend() == CpuBackend::kVector) return kVector;
  if constexpr (std::is_same_v<T, float>) {
    return eigen_float;
  } else {
    return eigen_double;
  }
}

// Applies the activation in a separate pass, over sums that are not yet rounded to 16 bits. `kernel(backend)` computes
// the sums.
template <class Kernel>
void run_activated(std::span<const Tensor> in, std::span<Tensor> out, const ConvAttr& attr, Kernel&& kernel) {
  in_compute_type(in, out[0], [&]<class T>(std::span<const Tensor> operands, Tensor& result) {
    kernel(backend<T>())(operands, result, attr.geometry);
    if (out.size() > 1 && out[1].defined()) copy_into(result, out[1]);
    activate_in_place(result, attr.activation);
  });
}

}  // namespace

void conv(std::span<const Tensor> in, std::span<Tensor> out, const ConvAttr& attr) {
  run_activated(in, out, attr, [](const auto& backend) { return backend.conv; });
}

void conv_transpose(std::span<const Tensor> in, std::span<Tensor> out, const ConvAttr& attr) {
  run_activated(in, out, attr, [](const auto& backend) { return backend.conv_transpose; });
}

std::function<void()> prepare_conv(std::span<const Tensor> in, std::span<Tensor> out, const ConvAttr& attr,
                                   bool transposed) {
  const bool is_wide = in[0].dtype() == kFloat32 || in[0].dtype() == kFloat64;
  if (cpu_backend() != CpuBackend::kVector || in[1].impl()->storage->forms() == nullptr || !is_wide) return {};
  PreparedConv prepared = in[0].dtype() == kFloat64 ? prepare_vector_conv<double>(in, attr.geometry, transposed)
                                                    : prepare_vector_conv<float>(in, attr.geometry, transposed);
  return [prepared = std::move(prepared), in, out, activation = attr.activation] {
    prepared(in, out[0]);
    activate_in_place(out[0], activation);
  };
}

void conv_weight(std::span<const Tensor> in, Tensor& out, const ConvGeometry& geometry) {
  in_compute_type(in, out, [&]<class T>(std::span<const Tensor> operands, Tensor& result) {
    backend<T>().conv_weight(operands, result, geometry);
  });
}

void activation_and_bias_gradient(std::span<const Tensor> in, std::span<Tensor> out, const ActivationAttr& attr) {
  activation_gradient_into(out[0], attr.activation, in[0], in[1]);
  const std::uint32_t channels = 1U << attr.channel_axis;
  const Shape& shape = out[0].shape();
  reduce_sum(out.first(1), out[1], {shape, ((1U << shape.size()) - 1U) & ~channels, false, 1.0});
}

}  // namespace adjoint::cpu
