// The function name in error messages. Internal.
#pragma once

#include <adjoint/core/base/context.h>

namespace adjoint {

/// While it lives, errors of this thread are reported under the name `op`: permute's "permute: axes must ..." reads
/// "transpose: axes must ..." inside transpose(). Scopes nest, and the outermost counts, because it is the function
/// that the program called. A scope must not enclose a call of a program's own function. `op` outlives the scope.
class OpScope {
 public:
  explicit OpScope(const char* op) : outer_(detail::context().op) {
    detail::context().op = outer_ == nullptr ? op : outer_;
  }
  ~OpScope() { detail::context().op = outer_; }
  OpScope(const OpScope&) = delete;
  OpScope& operator=(const OpScope&) = delete;

  /// The outermost scope's name; null outside all scopes.
  static const char* op() { return detail::context().op; }

 private:
  const char* outer_;
};

}  // namespace adjoint
