// Losses as modules, with PyTorch's names where they exist: nn::BCEWithLogitsLoss loss({.pos_weight = w}); loss(scores,
// target). All also accept just a reduction, nn::MSELoss(Reduction::kSum), and those that have a `weight` just that:
// nn::CrossEntropyLoss(w).
//
// Options are those of the functions (ops/loss), which document the arithmetic and the errors. Their weights are
// buffers of the module: they move with it, and belong to its state. The table of losses (ops/loss/table.h) makes
// MSELoss, L1Loss, SmoothL1Loss, HuberLoss and CharbonnierLoss.
#pragma once

#include <adjoint/nn/module.h>
#include <adjoint/ops/functions.h>
#include <adjoint/ops/loss/classification.h>
#include <adjoint/ops/loss/loss.h>
#include <adjoint/ops/loss/table.h>

#include <concepts>
#include <utility>

namespace adjoint::nn {

#define ADJOINT_OPTIONS(Kind, Functor, function, Module) \
  struct Module##Options {                               \
    Named<Reduction> reduction = Reduction::kMean;       \
  };
#define ADJOINT_OPTIONS_XP(Kind, Functor, function, Module, parameter, value) \
  struct Module##Options {                                                    \
    Named<Reduction> reduction = Reduction::kMean;                            \
    double parameter = value;                                                 \
  };
#define ADJOINT_OPTIONS_PX(Kind, Functor, function, Module, parameter, value) \
  struct Module##Options {                                                    \
    double parameter = value;                                                 \
    Named<Reduction> reduction = Reduction::kMean;                            \
  };
ADJOINT_LOSSES(ADJOINT_OPTIONS, ADJOINT_OPTIONS_XP, ADJOINT_OPTIONS_PX)
#undef ADJOINT_OPTIONS
#undef ADJOINT_OPTIONS_XP
#undef ADJOINT_OPTIONS_PX
using BCELossOptions = BinaryCrossEntropyOptions;
using BCEWithLogitsLossOptions = BinaryCrossEntropyWithLogitsOptions;
struct PoissonNLLLossOptions {
  bool log_input = true;
  double eps = 1e-8;
  Named<Reduction> reduction = Reduction::kMean;
};
struct HingeEmbeddingLossOptions {
  double margin = 1.0;
  Named<Reduction> reduction = Reduction::kMean;
};
struct MarginRankingLossOptions {
  double margin = 0.0;
  Named<Reduction> reduction = Reduction::kMean;
};
using CrossEntropyLossOptions = CrossEntropyOptions;
using NLLLossOptions = NllLossOptions;
using KLDivLossOptions = KlDivOptions;
using adjoint::DiceLossOptions;

namespace detail {

template <class Options>
concept Weighted = requires(Options o) {
  o.weight;
};

/// The base of the losses: `weight` and `pos_weight` of the options become buffers.
template <class Options>
class Loss : public Module {
 public:
  /// With the buffers' current weights.
  Options options() const {
    Options now = options_;
    if constexpr (Weighted<Options>) now.weight = weight_;
    if constexpr (kPosWeighted) now.pos_weight = pos_weight_;
    return now;
  }

 protected:
  Loss(const char* type, const Options& options) : Module(type), options_(options) {
    if constexpr (Weighted<Options>) weight_ = buffer("weight", options_.weight);
    if constexpr (kPosWeighted) pos_weight_ = buffer("pos_weight", options_.pos_weight);
  }

 private:
  static constexpr bool kPosWeighted = requires(Options o) { o.pos_weight; };

  Buffer buffer(const char* name, Tensor& option) {
    return register_buffer(name, std::exchange(option, Tensor()), {.optional = true});
  }

  Options options_;  // without weights
  Buffer weight_, pos_weight_;
};

}  // namespace detail

#define ADJOINT_LOSS(Name, function, ...)                                                                \
  class ADJOINT_API Name : public detail::Loss<Name##Options> {                                          \
   public:                                                                                               \
    explicit Name(const Name##Options& options = {}) : Loss(#Name, options) {}                           \
    explicit Name(Reduction reduction) : Name(Name##Options{.reduction = reduction}) {}                  \
    template <std::convertible_to<Tensor> T, class O = Name##Options>                                    \
    requires detail::Weighted<O>                                                                         \
    explicit Name(const T& weight) : Name(O{.weight = weight}) {}                                        \
    Tensor forward(const Tensor& input, const Tensor& target) const { return (*this)(input, target); }   \
    Tensor operator()(const Tensor& input, const Tensor& target) const {                                 \
      check_not_moved_from(#Name);                                                                       \
      const Name##Options o = options();                                                                 \
      return hooked(input, [&](const Tensor& x) -> Tensor { return function(x, target, __VA_ARGS__); }); \
    }                                                                                                    \
  };
#define ADJOINT_LOSS_X(Kind, Functor, function, Module) ADJOINT_LOSS(Module, function, o.reduction)
#define ADJOINT_LOSS_XP(Kind, Functor, function, Module, parameter, value) \
  ADJOINT_LOSS(Module, function, o.reduction, o.parameter)
#define ADJOINT_LOSS_PX(Kind, Functor, function, Module, parameter, value) \
  ADJOINT_LOSS(Module, function, o.parameter, o.reduction)
ADJOINT_LOSSES(ADJOINT_LOSS_X, ADJOINT_LOSS_XP, ADJOINT_LOSS_PX)
#undef ADJOINT_LOSS_X
#undef ADJOINT_LOSS_XP
#undef ADJOINT_LOSS_PX
ADJOINT_LOSS(BCELoss, binary_cross_entropy, o)
ADJOINT_LOSS(BCEWithLogitsLoss, binary_cross_entropy_with_logits, o)
ADJOINT_LOSS(CrossEntropyLoss, cross_entropy, o)
ADJOINT_LOSS(NLLLoss, nll_loss, o)
ADJOINT_LOSS(KLDivLoss, kl_div, o)
ADJOINT_LOSS(DiceLoss, dice_loss, o)
ADJOINT_LOSS(PoissonNLLLoss, poisson_nll_loss, o.log_input, o.reduction, o.eps)
ADJOINT_LOSS(HingeEmbeddingLoss, hinge_embedding_loss, o.margin, o.reduction)
#undef ADJOINT_LOSS

/// margin_ranking_loss(a, b, target).
class ADJOINT_API MarginRankingLoss : public Module {
 public:
  explicit MarginRankingLoss(const MarginRankingLossOptions& options = {})
      : Module("MarginRankingLoss"), options_(options) {}
  Tensor operator()(const Tensor& a, const Tensor& b, const Tensor& target) const {
    check_not_moved_from("MarginRankingLoss");
    return hooked(a, [&](const Tensor& x) {
      return margin_ranking_loss(x, b, target, options_.margin, options_.reduction);
    });
  }

 private:
  MarginRankingLossOptions options_;
};

}  // namespace adjoint::nn
