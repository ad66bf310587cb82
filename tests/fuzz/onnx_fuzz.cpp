#include "file.h"

#include <adjoint/core/base/error.h>
#include <adjoint/nn/onnx/load/file.h>

#include <numeric>
#include <string>
#include <variant>
#include <vector>

using namespace adjoint;

namespace {

std::size_t bytes_of(const Tensor& tensor) {
  fuzz::check(tensor.defined(), "a tensor is there");
  const auto count = static_cast<std::size_t>(tensor.numel()) * element_size(tensor.dtype());
  const auto* first = static_cast<const std::uint8_t*>(tensor.raw_data());
  // Every byte is there to be read.
  fuzz::check(std::accumulate(first, first + count, std::size_t{0}) <= 255 * count, "a byte is at most 255");
  return count;
}

std::size_t bytes_of(const nn::detail::OnnxFile::Constants& constants,
                     const std::vector<nn::detail::OnnxFile::Node>& nodes) {
  std::size_t bytes = 0;
  for (const auto& [name, tensor] : constants) {
    fuzz::check(!name.empty(), "a constant has a name");
    bytes += bytes_of(tensor);
  }
  for (const auto& node : nodes) {
    for (const auto& [name, value] : node.attributes) {
      if (const auto* const tensor = std::get_if<Tensor>(&value)) bytes += bytes_of(*tensor);
    }
    for (const auto& [name, graph] : node.graphs) bytes += bytes_of(graph->constants, graph->nodes);
  }
  return bytes;
}

}  // namespace

// Fuzzes only the format: the operators need the whole library.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const nn::detail::OnnxFile file = nn::detail::read_onnx(fuzz::in_memory(data, size));
    fuzz::check(bytes_of(file.constants, file.nodes) <= 8 * size, "a file holds its tensors");
  } catch (const OutOfMemoryError& error) {
    fuzz::check(false, error.what());
  } catch (const Error& error) {
    fuzz::check(std::string(error.what()).starts_with("load_onnx: "), error.what());
  }
  return 0;
}
