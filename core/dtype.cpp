#include <adjoint/core/dtype.h>

namespace adjoint {

std::string to_string(DType dtype) {
  constexpr const char* names[] = {"float16", "bfloat16", "float32", "float64", "int32", "int64", "uint8", "bool"};
  return names[static_cast<std::size_t>(dtype)];
}

}  // namespace adjoint
