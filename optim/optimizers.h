// The optimisers that update each element by a rule (rules.h), and their table, from which the library defines those of
// one rule and the tests enumerate all.
#pragma once

#include <adjoint/optim/adagrad.h>
#include <adjoint/optim/adam.h>
#include <adjoint/optim/adam_variants.h>
#include <adjoint/optim/lion.h>
#include <adjoint/optim/rmsprop.h>
#include <adjoint/optim/sgd.h>

// X(Optimizer, Rule), or Y(Optimizer) for one that chooses among several rules in its update_batch().
// clang-format off
#define ADJOINT_OPTIMIZERS(X, Y) \
  Y(SGD)                         \
  Y(Adam)                        \
  Y(AdamW)                       \
  Y(RMSprop)                     \
  X(Lion, LionRule)              \
  X(Adagrad, AdagradRule)        \
  X(Adamax, AdamaxRule)          \
  X(NAdam, NAdamRule)            \
  X(RAdam, RAdamRule)
// clang-format on
