// The libraries that Python loads return a status and keep an error's text.
#pragma once

#include <exception>
#include <string>

namespace bench {

inline thread_local std::string last_error;

/// Calls `f` and returns 0. Returns 1 if it throws, and puts the message into last_error.
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
