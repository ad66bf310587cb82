// Every activation that convolutions fuse, for tests over all of them.
#pragma once

#include <adjoint/ops/elementwise/activation.h>

#include <ostream>
#include <string>
#include <vector>

namespace adjoint::testing {

struct ActivationCase {
  std::string name;
  Activation activation;
};

inline const std::vector<ActivationCase>& activation_cases() {
  static const std::vector<ActivationCase> cases{{"none", {}},
                                                 {"relu", Activation::relu()},
                                                 {"leaky_relu", Activation::leaky_relu(0.125)},
                                                 {"leaky_relu_default", Activation::leaky_relu()},
                                                 {"leaky_relu_negative", Activation::leaky_relu(-0.25)},
                                                 {"tanh", Activation::tanh()},
                                                 {"sigmoid", Activation::sigmoid()},
                                                 {"silu", Activation::silu()}};
  return cases;
}

inline std::ostream& operator<<(std::ostream& out, const ActivationCase& c) { return out << c.name; }

/// For INSTANTIATE_TEST_SUITE_P.
struct ActivationCaseName {
  template <class Info>
  std::string operator()(const Info& info) const {
    return info.param.name;
  }
};

}  // namespace adjoint::testing
