#include <adjoint/core/base/check.h>

#include <cstdio>
#include <cstdlib>

namespace adjoint {

// Out of line, so that each class has one vtable and one type_info across the shared library's boundary.
Error::~Error() = default;
OutOfMemoryError::~OutOfMemoryError() = default;

namespace {

// Changes "permute: rule" to "transpose: rule", inside transpose's scope.
std::string in_scope(const std::string& message) {
  if (OpScope::op() == nullptr) return message;
  const std::size_t colon = message.find(": ");
  return OpScope::op() + (colon == std::string::npos ? ": " + message : message.substr(colon));
}

}  // namespace

void throw_error(const std::string& message) { throw Error(in_scope(message)); }

void throw_out_of_memory(const std::string& message) { throw OutOfMemoryError(in_scope(message)); }

void assertion_failed(const char* file, int line, const std::string& message) {
  std::fprintf(stderr, "%s:%d: adjoint: broken invariant: %s\n", file, line, message.c_str());
  std::abort();
}

}  // namespace adjoint
