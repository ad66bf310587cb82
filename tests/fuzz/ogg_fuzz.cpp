#include "audio.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return adjoint::fuzz::read_every_way("OggS", false, data, size);
}
