// safetensors in several files: the input is an index and two files, each behind its length in two bytes.
#include "check.h"

#include <adjoint/core/base/error.h>
#include <adjoint/core/base/file.h>
#include <adjoint/nn/safetensors.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>

#include <fcntl.h>
#include <unistd.h>

using namespace adjoint;

namespace {

std::string make_folder() {
  std::string name = (std::filesystem::temp_directory_path() / "adjoint-fuzz-XXXXXX").string();
  fuzz::check(::mkdtemp(name.data()) != nullptr, "a folder");
  return name;
}

void put(const std::string& path, const std::uint8_t* data, std::size_t size) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  fuzz::check(::write(file.get(), data, size) == static_cast<ssize_t>(size), "a file");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::string folder = make_folder();
  const std::array<std::string, 3> paths{folder + "/index.json", folder + "/one", folder + "/two"};
  for (const std::string& path : paths) {
    std::size_t count = 0;
    if (size >= 2) {
      count = std::min<std::size_t>(data[0] | data[1] << 8, size - 2);
      data += 2, size -= 2;
    }
    put(path, data, count);
    data += count, size -= count;
  }
  try {
    std::set<std::string> names;
    const nn::Safetensors whole = nn::load_safetensors(paths[0]);
    for (const auto& [name, tensor] : whole.tensors) {
      fuzz::check(names.insert(name).second && tensor.defined(), "a tensor stands once");
    }
  } catch (const OutOfMemoryError& error) {
    fuzz::check(false, error.what());
  } catch (const Error& error) {
    fuzz::check(std::string(error.what()).starts_with("load_safetensors: "), error.what());  // '...', or cannot open it
  }
  for (const std::string& path : paths) ::unlink(path.c_str());
  return 0;
}
