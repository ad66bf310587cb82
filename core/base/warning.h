// Warnings report a likely mistake that is not an error. Each name is printed once.
#pragma once

#include <adjoint/core/base/export.h>

#include <functional>
#include <string>

namespace adjoint {

/// Gets each warning, one line without its end. Called from any thread.
using WarningHandler = std::function<void(const std::string& message)>;

/// Where warnings go from now on; an empty handler takes them to standard error again, as at first. One that does
/// nothing silences them, and one that throws makes errors of them, which leave the call that warns when it has done
/// its work. Returns the handler before.
ADJOINT_API WarningHandler set_warning_handler(WarningHandler handler);

namespace detail {
/// "<op>: <rule>; got <values>; <remedy>", as errors have it.
ADJOINT_API void warn(const std::string& message);
}  // namespace detail

}  // namespace adjoint
