// Warnings report a likely mistake that is not an error. Each name is printed once.
#pragma once

#include <adjoint/core/base/export.h>

#include <functional>
#include <string>

namespace adjoint {

/// Gets each warning, one line without its end. Called from any thread.
using WarningHandler = std::function<void(const std::string& message)>;

/// Sets the handler of warnings. An empty handler restores the default, standard error. A handler that does nothing
/// silences them. One that throws turns them into errors, which leave the warning call after its work is done. Returns
/// the handler before.
ADJOINT_API WarningHandler set_warning_handler(WarningHandler handler);

namespace detail {
/// "<op>: <rule>; got <values>; <remedy>", as errors have it.
ADJOINT_API void warn(const std::string& message);
}  // namespace detail

}  // namespace adjoint
