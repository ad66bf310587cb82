#include "common/output.h"

#include <adjoint/core/base/error.h>
#include <adjoint/core/base/file.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

namespace examples {

void check_output(const std::string& program, const std::filesystem::path& path,
                  const std::vector<std::string>& extensions) {
  std::string extension = path.extension().string();
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (std::find(extensions.begin(), extensions.end(), extension) == extensions.end()) {
    throw adjoint::Error(
        fmt::format("{}: the output must end in {}; got '{}'", program, fmt::join(extensions, " or "), path.string()));
  }
  const adjoint::AtomicFile file(program.c_str(), path);  // never committed: leaves nothing
}

}  // namespace examples
