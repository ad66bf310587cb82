#include <adjoint/core/tensor/dtype.h>

#include <adjoint/core/base/check.h>

namespace adjoint {

std::string to_string(DType dtype) {
  constexpr const char* names[] = {"float16", "bfloat16", "float32", "float64", "int32", "int64", "uint8", "bool"};
  if (dtype > kBool) return fmt::format("DType({})", static_cast<int>(dtype));
  return names[static_cast<std::size_t>(dtype)];
}

void detail::no_such_dtype(DType dtype) { fail("dtype: the dtype must be one of DType's enumerators; got {}", dtype); }

}  // namespace adjoint
