// ADJOINT_API marks the symbols that the shared library exports. All others have hidden visibility.
#pragma once

#if defined(ADJOINT_STATIC)
#define ADJOINT_API
#else
#define ADJOINT_API __attribute__((visibility("default")))
#endif
