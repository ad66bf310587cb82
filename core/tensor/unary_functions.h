// The mathematical functions of each element of one tensor. A row defines such a function, except its functor, which
// has the same name in ops/elementwise/math_functors.h: its declaration (ops/elementwise/elementwise.h), the member of
// Tensor, the kernels of both devices, and its rows in the tables of the tests. A row has a comment if the name is not
// enough.
#pragma once

// X(Functor, function)
// clang-format off

// Floating point only, but for abs and square, whose results of integers are integers.
#define ADJOINT_UNARY_MATH_FUNCTIONS(X)                                                                             \
  X(Exp, exp)                                                                                                       \
  X(Expm1, expm1)           /* exp(x) - 1, accurate near 0. */                                                      \
  X(Log, log)                                                                                                       \
  X(Log1p, log1p)           /* log(1 + x), accurate near 0. */                                                      \
  X(Log2, log2)                                                                                                     \
  X(Sqrt, sqrt)             /* The gradient at 0 is infinite. */                                                    \
  X(Rsqrt, rsqrt)           /* 1 / sqrt(x). */                                                                      \
  X(Reciprocal, reciprocal) /* 1 / x. */                                                                            \
  X(Square, square)                                                                                                 \
  X(Sin, sin)                                                                                                       \
  X(Cos, cos)                                                                                                       \
  X(Tan, tan)                                                                                                       \
  X(Asin, asin)                                                                                                     \
  X(Acos, acos)                                                                                                     \
  X(Atan, atan)                                                                                                     \
  X(Sinh, sinh)                                                                                                     \
  X(Cosh, cosh)                                                                                                     \
  X(Erf, erf)               /* The error function, 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x. */     \
  X(Abs, abs)               /* The gradient at 0 is 0. */

// Steps, whose gradients are zero. Results of integers are integers.
#define ADJOINT_STEP_FUNCTIONS(X)                                                                                   \
  X(Sign, sign)             /* -1, 0 or 1; 0 for NaN. */                                                            \
  X(Floor, floor)           /* Rounds down to an integer. */                                                        \
  X(Ceil, ceil)             /* Rounds up to an integer. */                                                          \
  X(Trunc, trunc)           /* Rounds towards 0 to an integer. */                                                   \
  X(Round, round)           /* Rounds to the nearest integer, ties to even. */
// clang-format on
