// True if AddressSanitizer or ThreadSanitizer, which have separate memory, watch the tests.
#pragma once

namespace adjoint::testing {

// GCC and clang report it differently.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
inline constexpr bool kSanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace adjoint::testing
