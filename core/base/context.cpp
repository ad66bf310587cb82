#include <adjoint/core/base/context.h>

#include <type_traits>

namespace adjoint::detail {

static_assert(std::is_trivially_destructible_v<Context>);

constinit thread_local Context Context::of_this_thread_;

}  // namespace adjoint::detail
