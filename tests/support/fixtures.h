// The folder of committed test data.
#pragma once

#include <filesystem>
#include <string>

namespace adjoint::testing {

/// The path of a file in tests/fixtures.
std::filesystem::path fixture(const std::string& name);

}  // namespace adjoint::testing
