// The exceptions that Adjoint throws. A message reads `op: rule; got values; remedy`.
#pragma once

#include <adjoint/core/base/export.h>

#include <stdexcept>

namespace adjoint {

/// A user's mistake or a failure of the machine. Thrown before any work starts: every tensor is unchanged.
class ADJOINT_API Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  ~Error() override;
};

/// A request for memory that could not be met; the message states the requested, held and free bytes. The program can
/// continue.
class ADJOINT_API OutOfMemoryError : public Error {
 public:
  using Error::Error;
  ~OutOfMemoryError() override;
};

}  // namespace adjoint
