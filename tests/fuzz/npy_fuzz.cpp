#include "array.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return adjoint::fuzz::decode("decode_npy", adjoint::data::decode_npy, {data, size});
}
