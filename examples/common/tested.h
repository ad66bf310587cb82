// The number of drawn examples on which a training tests its network.
#pragma once

#include <cstdint>

namespace examples {

/// Returns `count` divided by the value of EXAMPLES_TEST_PART, if that is set, and at least 4. The programs' own tests
/// set it in sanitizer builds, where measuring thousands of pictures takes longer than training.
std::int64_t tested(std::int64_t count);

}  // namespace examples
