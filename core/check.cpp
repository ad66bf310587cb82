#include <adjoint/core/check.h>

#include <cstdio>
#include <cstdlib>

namespace adjoint {

// Out of line, so that each class has one vtable and one type_info across the shared library's boundary.
Error::~Error() = default;
OutOfMemoryError::~OutOfMemoryError() = default;

void throw_error(const std::string& message) { throw Error(message); }

void assertion_failed(const char* file, int line, const std::string& message) {
  std::fprintf(stderr, "%s:%d: adjoint: broken invariant: %s\n", file, line, message.c_str());
  std::abort();
}

}  // namespace adjoint
