#include "array.h"

namespace {

adjoint::Tensor values_of(std::span<const std::uint8_t> file, const adjoint::data::ReadArrayOptions& options,
                          const std::string& name) {
  return adjoint::data::decode_nifti(file, options, name).values;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return adjoint::fuzz::decode("decode_nifti", values_of, {data, size});
}
