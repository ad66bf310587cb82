#include "file.h"

#include <adjoint/core/base/error.h>
#include <adjoint/nn/safetensors.h>
#include <adjoint/nn/safetensors_index.h>

#include <numeric>
#include <set>
#include <string>

using namespace adjoint;

namespace {

void load(const std::string& path, std::size_t size, bool convert) {
  try {
    const nn::Safetensors result = nn::load_safetensors(path, {.convert_dtype = convert});
    std::set<std::string> names;
    std::size_t bytes = 0;
    for (const auto& [name, tensor] : result.tensors) {
      fuzz::check(names.insert(name).second, "a name stands once");
      fuzz::check(tensor.defined(), "a tensor is there");
      const auto count = static_cast<std::size_t>(tensor.numel() * element_size(tensor.dtype()));
      const auto* first = static_cast<const std::uint8_t*>(tensor.raw_data());
      // Every byte is there to be read.
      fuzz::check(std::accumulate(first, first + count, std::size_t{0}) <= 255 * count, "a byte is at most 255");
      bytes += count;
    }
    fuzz::check(bytes <= 8 * size, "a file holds its tensors");
  } catch (const OutOfMemoryError& error) {
    fuzz::check(false, error.what());
  } catch (const Error& error) {
    fuzz::check(std::string(error.what()).starts_with("load_safetensors: '"), error.what());
  }
}

void load_index(const std::string& path) {
  try {
    for (const auto& [file, names] : nn::safetensors::read_index(path)) {
      fuzz::check(file.find('/') == std::string::npos && !names.empty(), "a file beside the index, with tensors");
    }
  } catch (const Error& error) {
    fuzz::check(std::string(error.what()).starts_with("load_safetensors: '"), error.what());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string& path = fuzz::in_memory(data, size);
  for (const bool convert : {false, true}) load(path, size, convert);
  load_index(path);
  return 0;
}
