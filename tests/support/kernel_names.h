// The names of kernels that were launched (core/cuda/launch_observer.h). For tests with CUDA.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <cxxabi.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>

namespace adjoint::testing {

/// A function of the driver's interface, which nothing here links.
template <class Function>
Function* driver(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result{};
  EXPECT_EQ(cudaGetDriverEntryPointByVersion(name, &function, 12040, cudaEnableDefault, &result), cudaSuccess);
  EXPECT_NE(function, nullptr) << name;
  return reinterpret_cast<Function*>(function);
}

inline std::string function_name(CUfunction function) {
  static auto* const get_name = driver<CUresult(const char**, CUfunction)>("cuFuncGetName");
  const char* mangled = nullptr;
  EXPECT_EQ(get_name(&mangled, function), CUDA_SUCCESS);
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> demangled(abi::__cxa_demangle(mangled, nullptr, nullptr, &status),
                                                         std::free);
  return demangled != nullptr ? demangled.get() : mangled;
}

}  // namespace adjoint::testing
