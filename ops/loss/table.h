// The losses of pairs whose only options are the reduction and one parameter. A row defines such a loss beside its
// functor (functors.h) and its declaration (loss.h): the function, the kernels of both devices, the module
// (nn/loss.h), and its rows in the tables of the tests.
#pragma once

// X(Kind, Functor, function, Module), or with a parameter and its default:
//   XP: function(input, target, reduction, parameter)
//   PX: function(input, target, parameter, reduction)
// Kind is the functor's base. A Difference has one gradient for both operands, a Pair has two.
// clang-format off
#define ADJOINT_LOSSES(X, XP, PX)                                           \
  X(Difference, Mse, mse_loss, MSELoss)                                     \
  X(Difference, L1, l1_loss, L1Loss)                                        \
  XP(Difference, SmoothL1, smooth_l1_loss, SmoothL1Loss, beta, 1.0)         \
  XP(Difference, Huber, huber_loss, HuberLoss, delta, 1.0)                  \
  PX(Difference, Charbonnier, charbonnier_loss, CharbonnierLoss, eps, 1e-3)

// Functors of losses with other options, whose functions and modules are written out.
#define ADJOINT_LOSSES_WITH_OPTIONS(X) X(Pair, Bce) X(Pair, BceWithLogits) X(Pair, KlDiv) X(Pair, KlDivLog)
// clang-format on
