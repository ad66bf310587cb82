// ADJOINT_API marks what the shared library exports; everything else has hidden visibility.
#pragma once

#if defined(ADJOINT_STATIC)
#define ADJOINT_API
#else
#define ADJOINT_API __attribute__((visibility("default")))
#endif
