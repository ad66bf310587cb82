#include <adjoint/tests/support/conv_refusal.h>

#include <cstddef>

namespace adjoint::testing {

std::string bytes_held() {
  try {
    Tensor::empty({kMax / 8});
  } catch (const OutOfMemoryError& error) {
    const std::string message = error.what();
    const std::size_t start = message.find("holding ");
    return message.substr(start, message.find(',', start) - start);
  }
  return "nothing refused";
}

Tensor wide(const Shape& shape, DType dtype) { return Tensor::full({}, 2.0, {.dtype = dtype}).expand(shape); }

}  // namespace adjoint::testing
