#include <adjoint/nn/reparametrize.h>

#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/check.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/elementwise/widened.h>
#include <adjoint/ops/matmul/matmul.h>
#include <adjoint/ops/norm/normalize.h>
#include <adjoint/ops/reduce/reduce.h>
#include <adjoint/ops/view/view.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace adjoint::nn {
namespace {

constexpr const char* kWeightNorm = "weight_norm";
constexpr const char* kSpectralNorm = "spectral_norm";
constexpr std::int64_t kFirstIterations = 15;

// Throws Error if the module has no such parameter, or if it is undefined or computed.
Tensor parameter(const char* op, const Module& module, const std::string& name) {
  for (const auto& [path, tensor] : module.named_parameters()) {
    if (path == name) return tensor.detach();
  }
  fail("{}: the module must have the parameter, made by nothing else; got '{}' for {}", op, name, module.type());
}

// The norm of each slice along `axis`, with extents of 1; of everything if there is no axis.
Tensor norm_except(const Tensor& v, std::optional<std::size_t> axis) {
  if (!axis) return norm(v);
  Dims others;
  for (std::size_t i = 0; i < v.shape().size(); ++i) {
    if (i != *axis) others.push_back(static_cast<std::int64_t>(i));
  }
  return others.empty() ? abs(v) : norm(v, 2.0, others, true);
}

// g v / |v|, slice by slice: v divided by its root mean square, in one pass forward and one for the gradients.
Tensor weight_of(const Tensor& g, const Tensor& v, std::optional<std::size_t> axis) {
  const auto at = static_cast<std::int64_t>(axis.value_or(0));
  const std::int64_t slices = axis ? v.size(at) : 1, length = v.numel() / std::max<std::int64_t>(slices, 1);
  const Tensor scale = g.reshape({slices}) * (1.0 / std::sqrt(static_cast<double>(length)));
  const NormAttr attr{.groups = slices, .inner = length, .centred = false};
  if (at == 0) return normalize(v, scale, {}, {}, {}, attr).y;
  return normalize(v.movedim({at}, {0}), scale, {}, {}, {}, attr).y.movedim({0}, {at});
}

// (rows, everything else).
Tensor as_matrix(const Tensor& weight, std::size_t axis) {
  Dims order{static_cast<std::int64_t>(axis)};
  for (std::size_t i = 0; i < weight.shape().size(); ++i) {
    if (i != axis) order.push_back(static_cast<std::int64_t>(i));
  }
  const std::int64_t rows = weight.shape()[axis];
  return weight.permute(order).reshape({rows, weight.numel() / std::max<std::int64_t>(rows, 1)});
}

Tensor normalised(const Tensor& x, double eps) { return x / clamp_min(norm(x), eps); }

struct Vectors {
  Tensor u, v;

  void iterate(const Tensor& matrix, std::int64_t times, double eps) {
    for (std::int64_t i = 0; i < times; ++i) {
      v = normalised(matmul(matrix.transpose(0, 1), u), eps);
      u = normalised(matmul(matrix, v), eps);
    }
  }
};

}  // namespace

namespace detail {

void weight_norm(Module& module, const WeightNormOptions& options) {
  const OpScope scope(kWeightNorm);
  const Tensor weight = parameter(kWeightNorm, module, options.name);
  std::optional<std::size_t> axis;
  if (options.dim) axis = resolve_axis(kWeightNorm, *options.dim, weight.shape().size());
  Tensor g, v;
  {
    const PauseTape pause;
    g = norm_except(widened(weight), axis).to(weight.dtype()).clone();
    v = weight.clone();
  }
  const std::string path = "parametrizations." + options.name;
  module.reparametrize(options.name,
                       {.kind = kWeightNorm,
                        .parts = {{.name = options.name + "_g", .value = g, .alias = path + ".original0"},
                                  {.name = options.name + "_v", .value = v, .alias = path + ".original1"}},
                        .make = [axis](const std::vector<Tensor>& parts, bool) {
                          return weight_of(widened(parts[0]), widened(parts[1]), axis).to(parts[1].dtype());
                        }});
}

void spectral_norm(Module& module, const SpectralNormOptions& options, std::int64_t default_dim) {
  const OpScope scope(kSpectralNorm);
  const auto& [name, iterations, eps, dim] = options;
  ADJOINT_CHECK(iterations >= 1, "{}: n_power_iterations must be at least 1; got {}", kSpectralNorm, iterations);
  ADJOINT_CHECK(eps > 0.0, "{}: eps must be positive; got {}", kSpectralNorm, eps);
  const Tensor weight = parameter(kSpectralNorm, module, name);
  const std::size_t axis = resolve_axis(kSpectralNorm, dim.value_or(default_dim), weight.shape().size());
  Tensor original;
  Vectors first;
  {
    const PauseTape pause;
    original = weight.clone();
    const Tensor matrix = widened(as_matrix(weight, axis));
    first.u = normalised(Tensor::randn({matrix.size(0)}, matrix.options()), eps);
    first.v = normalised(Tensor::randn({matrix.size(1)}, matrix.options()), eps);
    first.iterate(matrix, kFirstIterations, eps);
    first = {first.u.to(weight.dtype()), first.v.to(weight.dtype())};
  }
  const std::string path = "parametrizations." + name;
  const auto make = [axis, times = iterations, least = eps](const std::vector<Tensor>& parts, bool training) {
    const Tensor matrix = widened(as_matrix(parts[0], axis));
    Vectors now;
    {
      // Copies, because another call may change the buffers before this one's gradient is computed.
      const PauseTape pause;
      now = {widened(parts[1]).clone(), widened(parts[2]).clone()};
      if (training) {
        now.iterate(matrix.detach(), times, least);
        Tensor(parts[1]).copy_(now.u);
        Tensor(parts[2]).copy_(now.v);
      }
    }
    const Tensor sigma = (matmul(matrix, now.v) * now.u).sum();
    return (widened(parts[0]) / sigma).to(parts[0].dtype());
  };
  module.reparametrize(name,
                       {.kind = kSpectralNorm,
                        .parts = {{.name = name + "_orig", .value = original, .alias = path + ".original"},
                                  {.name = name + "_u", .value = first.u, .trained = false, .alias = path + ".0._u"},
                                  {.name = name + "_v", .value = first.v, .trained = false, .alias = path + ".0._v"}},
                        .make = make});
}

}  // namespace detail

void remove_weight_norm(Module module, const std::string& name) {
  const OpScope scope("remove_weight_norm");
  module.remove_reparametrization(name, kWeightNorm);
}

void remove_spectral_norm(Module module, const std::string& name) {
  const OpScope scope("remove_spectral_norm");
  module.remove_reparametrization(name, kSpectralNorm);
}

}  // namespace adjoint::nn
