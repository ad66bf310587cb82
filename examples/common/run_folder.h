// The folder that a training writes to.
#pragma once

#include <adjoint/core/base/file.h>

#include <filesystem>
#include <string>
#include <vector>

namespace examples {

/// Held by one training at a time: two that write into one folder would mix their files.
class RunFolder {
 public:
  /// Creates the folder if it does not exist, and removes files that killed trainings left half-written. Throws Error,
  /// naming the folder, for an empty path, if it is not writable, or if another training holds it. If several processes
  /// train together, only rank 0 holds it; the others read.
  RunFolder(const std::string& program, std::filesystem::path path);

  /// Creates the folder again, and holds it, if it was removed, moved away or replaced; then returns true.
  /// Throws as the constructor does. Called by rank 0.
  bool renew();

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  /// Removes an earlier training's files of these names. They do not exist until this training writes its own.
  void remove(const std::vector<std::string>& names) const;

 private:
  void hold();

  std::string program_;
  std::filesystem::path path_;
  adjoint::Descriptor folder_;  // holds the lock
};

}  // namespace examples
