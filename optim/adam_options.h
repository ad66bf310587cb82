// What Adam and its variants ask of their options. Internal to optim.
#pragma once

#include <adjoint/core/base/check.h>

namespace adjoint::optim {

template <class Options>
void check_adam_options(const Options& options) {
  constexpr const char* name = Options::kName;
  for (const double beta : options.betas) {
    ADJOINT_CHECK(beta >= 0.0 && beta < 1.0, "{}: betas must be in [0, 1); got {}, {}", name, options.betas[0],
                  options.betas[1]);
  }
  ADJOINT_CHECK(options.eps >= 0.0, "{}: eps must not be negative; got {}", name, options.eps);
  ADJOINT_CHECK(options.weight_decay >= 0.0, "{}: weight_decay must not be negative; got {}", name,
                options.weight_decay);
}

}  // namespace adjoint::optim
