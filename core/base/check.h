// The only way to raise an error. Internal: it needs fmt, so no public header includes it.
//
//   ADJOINT_CHECK(groups > 0, "{}: groups must be positive; got {}", op, groups);   // a user's mistake: throws Error
//   ADJOINT_ASSERT(rank == 2, "...");                                               // a broken invariant: aborts
//
// A message begins with the name of the called function: an operator composed of others sets it with an OpScope.
#pragma once

#include <adjoint/core/autograd/op_scope.h>
#include <adjoint/core/base/device.h>
#include <adjoint/core/base/error.h>
#include <adjoint/core/tensor/dtype.h>
#include <adjoint/core/tensor/shape.h>

#include <fmt/format.h>

#include <string>
#include <type_traits>
#include <utility>

namespace adjoint {

[[noreturn]] ADJOINT_API void throw_error(const std::string& message);
[[noreturn]] ADJOINT_API void throw_out_of_memory(const std::string& message);
[[noreturn]] ADJOINT_API void assertion_failed(const char* file, int line, const std::string& message);

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw_error(fmt::format(format, std::forward<Args>(args)...));
}

/// Throws Error, naming `op`, unless `value` is one of the enumerators 0 to `last`.
template <class Enum>
void check_enumerator(const char* op, const char* type, std::type_identity_t<Enum> value, Enum last) {
  if (static_cast<unsigned>(value) > static_cast<unsigned>(last)) [[unlikely]] {
    fail("{}: a value of {} must be one of its enumerators, 0 to {}; got {}", op, type, static_cast<int>(last),
         static_cast<int>(value));
  }
}

}  // namespace adjoint

#define ADJOINT_CHECK(condition, ...) \
  do {                                \
    if (!(condition)) [[unlikely]] {  \
      ::adjoint::fail(__VA_ARGS__);   \
    }                                 \
  } while (false)

#define ADJOINT_ASSERT(condition, ...)                                           \
  do {                                                                           \
    if (!(condition)) [[unlikely]] {                                             \
      ::adjoint::assertion_failed(__FILE__, __LINE__, fmt::format(__VA_ARGS__)); \
    }                                                                            \
  } while (false)

template <>
struct fmt::formatter<adjoint::Dims> : fmt::formatter<std::string> {
  auto format(const adjoint::Dims& dims, fmt::format_context& ctx) const {
    return fmt::formatter<std::string>::format(adjoint::to_string(dims), ctx);
  }
};
template <>
struct fmt::formatter<adjoint::Shape> : fmt::formatter<adjoint::Dims> {};
template <>
struct fmt::formatter<adjoint::DType> : fmt::formatter<std::string> {
  auto format(adjoint::DType dtype, fmt::format_context& ctx) const {
    return fmt::formatter<std::string>::format(adjoint::to_string(dtype), ctx);
  }
};
template <>
struct fmt::formatter<adjoint::Device> : fmt::formatter<std::string> {
  auto format(adjoint::Device device, fmt::format_context& ctx) const {
    return fmt::formatter<std::string>::format(adjoint::to_string(device), ctx);
  }
};
