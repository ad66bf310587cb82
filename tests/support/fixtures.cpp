#include <adjoint/tests/support/fixtures.h>

namespace adjoint::testing {

std::filesystem::path fixture(const std::string& name) { return std::filesystem::path(ADJOINT_FIXTURES) / name; }

}  // namespace adjoint::testing
