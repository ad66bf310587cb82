// weight_norm and spectral_norm: reparametrisations of any layer that has a parameter with the given name.
//
//   nn::Sequential net{nn::weight_norm(nn::Conv1d(80, 512, {.kernel_size = 7, .padding = 3})), nn::ReLU()};
//   nn::Conv1d conv = net[0].as<nn::Conv1d>();
//   nn::remove_weight_norm(conv);
//
// The layer still reads `weight`, whose slot in the registry now holds its computation (Module::reparametrize): each
// call computes it again, on the tape, and fuses the activation behind it as before. Make optimisers afterwards, so
// that they hold the parts. Values written to `weight` itself are an error. States load under the names of both
// torch.nn.utils.weight_norm and torch.nn.utils.parametrizations, and are saved under the former's.
#pragma once

#include <adjoint/nn/conv.h>
#include <adjoint/nn/module.h>

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace adjoint::nn {

struct WeightNormOptions {
  std::string name = "weight";
  /// The axis along which each slice has its own norm; empty: one norm for everything.
  std::optional<std::int64_t> dim = 0;
};

struct SpectralNormOptions {
  std::string name = "weight";
  std::int64_t n_power_iterations = 1;
  double eps = 1e-12;
  /// The axis of the matrix's rows; empty: 1 for transposed convolutions, else 0.
  std::optional<std::int64_t> dim = {};
};

namespace detail {
ADJOINT_API void weight_norm(Module& module, const WeightNormOptions& options);
ADJOINT_API void spectral_norm(Module& module, const SpectralNormOptions& options, std::int64_t default_dim);
}  // namespace detail

/// weight = weight_g weight_v / |weight_v|, both trained; initially they change nothing (Salimans, Kingma: "Weight
/// normalization", 2016). Returns the module. Throws Error, before anything changes, if it has no such parameter, if
/// another reparametrisation computes it, and for an axis that it does not have.
template <std::derived_from<Module> M>
M weight_norm(M module, const WeightNormOptions& options = {}) {
  detail::weight_norm(module, options);
  return module;
}
/// Makes weight a parameter again, with its current values. Throws Error if weight_norm does not compute it.
ADJOINT_API void remove_weight_norm(Module module, const std::string& name = "weight");

/// weight = weight_orig / sigma, sigma = u^T W v, where W is the weight as a matrix of its rows (Miyato, Kataoka,
/// Koyama, Yoshida: "Spectral normalization for generative adversarial networks", 2018). u and v, the buffers weight_u
/// and weight_v, are estimates of the first singular vectors: random at first and iterated 15 times, then each read in
/// training mode iterates n_power_iterations times; in eval mode they stay. They are constants to the gradient. Returns
/// the module. Throws Error as weight_norm does, and for n_power_iterations or eps that are not positive.
template <std::derived_from<Module> M>
M spectral_norm(M module, const SpectralNormOptions& options = {}) {
  constexpr bool kTransposed = std::derived_from<M, ConvTranspose1d> || std::derived_from<M, ConvTranspose2d>;
  detail::spectral_norm(module, options, kTransposed ? 1 : 0);
  return module;
}
/// Makes weight a parameter again, with its current values in eval mode. Throws Error if spectral_norm does not compute
/// it.
ADJOINT_API void remove_spectral_norm(Module module, const std::string& name = "weight");

}  // namespace adjoint::nn
