// A fuzzer's assertions: they work in any kind of build, and let libFuzzer keep the input.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

namespace adjoint::fuzz {

inline void check(bool condition, const std::string& what) {
  if (condition) return;
  std::fprintf(stderr, "fuzz: %s\n", what.c_str());
  std::abort();
}

}  // namespace adjoint::fuzz
