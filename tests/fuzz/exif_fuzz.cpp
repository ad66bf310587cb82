#include "check.h"

#include <adjoint/data/codec.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const int orientation = adjoint::data::exif_orientation({data, size});
  adjoint::fuzz::check(orientation >= 1 && orientation <= 8, "an orientation is one of eight");
  return 0;
}
