#include "run_folder.h"

#include <adjoint/core/error.h>
#include <adjoint/core/file.h>

#include <fmt/format.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>

namespace super_resolution {

namespace fs = std::filesystem;

RunFolder::RunFolder(fs::path path) : path_(std::move(path)) {
  if (path_.empty()) throw adjoint::Error("super_resolution: --out must name a folder; got ''");
  fs::create_directories(path_);
  folder_.reset(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder_.is_open())
    throw adjoint::Error(fmt::format("super_resolution: cannot open the folder '{}': {}", path_.string(),
                                     std::generic_category().message(errno)));
  // The lock goes with the process, however it ends. Some network file systems have none: there, nothing is held.
  if (::flock(folder_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    throw adjoint::Error(
        fmt::format("super_resolution: another training writes to '{}'; name another folder with --out",
                    path_.string()));
  adjoint::AtomicFile::remove_leftovers(path_);
}

void RunFolder::remove_results() const {
  for (const fs::path& result : {model(), comparison(), curves(), metrics()}) fs::remove(result);
}

}  // namespace super_resolution
