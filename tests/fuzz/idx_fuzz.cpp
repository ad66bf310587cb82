#include "array.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return adjoint::fuzz::decode("decode_idx", adjoint::data::decode_idx, {data, size});
}
