// What a benchmark's library does for Python: errors are kept as text, behind a status.
#pragma once

#include <exception>
#include <string>

namespace bench {

inline thread_local std::string last_error;

/// Calls `f`; 0, or 1 where it throws, with what it says in last_error.
template <class F>
int guarded(const F& f) {
  try {
    f();
    return 0;
  } catch (const std::exception& error) {
    last_error = error.what();
    return 1;
  }
}

}  // namespace bench
