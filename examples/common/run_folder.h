// The folder that a training writes to.
#pragma once

#include <adjoint/core/file.h>

#include <filesystem>
#include <string>
#include <vector>

namespace examples {

/// Held by one training at a time: two that write into one folder would mix their files.
class RunFolder {
 public:
  /// Makes the folder where there is none, and removes what killed trainings left half-written. Throws Error, naming
  /// it, for an empty path, where it cannot be written to, and where another training holds it. Of several processes
  /// that train together rank 0 alone holds it; the others read.
  RunFolder(const std::string& program, std::filesystem::path path);

  /// Makes the folder again, and holds it, where it was removed, moved away or replaced since; returns whether it was.
  /// Throws as the constructor does. Rank 0's.
  bool renew();

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  /// Removes an earlier training's files of these names: until this one has its own, there are none.
  void remove(const std::vector<std::string>& names) const;

 private:
  void hold();

  std::string program_;
  std::filesystem::path path_;
  adjoint::Descriptor folder_;  // holds the lock
};

}  // namespace examples
