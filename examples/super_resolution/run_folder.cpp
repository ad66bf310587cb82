#include "run_folder.h"

#include <adjoint/core/error.h>

#include <fmt/format.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

namespace super_resolution {
namespace {

namespace fs = std::filesystem;

}  // namespace

RunFolder::RunFolder(fs::path path) : path_(std::move(path)) {
  if (path_.empty()) throw adjoint::Error("super_resolution: --out must name a folder; got ''");
  fs::create_directories(path_);
  const auto fail = [&](const char* what, int error) {
    throw adjoint::Error(fmt::format("super_resolution: cannot {} the folder '{}': {}", what, path_.string(),
                                     std::generic_category().message(error)));
  };
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor_ < 0) fail("open", errno);
  // The lock goes with the process, however it ends. Some network file systems have none: there, nothing is held.
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(descriptor_);
    throw adjoint::Error(
        fmt::format("super_resolution: another training writes to '{}'; name another folder with --out",
                    path_.string()));
  }
}

RunFolder::~RunFolder() { ::close(descriptor_); }

void RunFolder::remove_results() const {
  for (const fs::path& result : {model(), comparison(), curves(), metrics()}) fs::remove(result);
}

}  // namespace super_resolution
