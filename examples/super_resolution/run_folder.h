// The folder that a training writes to, and what stands in it.
#pragma once

#include <adjoint/core/file.h>

#include <filesystem>

namespace super_resolution {

/// A folder held by one training at a time: two that write into one folder would mix their files.
class RunFolder {
 public:
  /// Makes the folder where there is none, and removes what killed trainings left half-written. Throws Error for an
  /// empty path, where it cannot be written to, and where another training holds it.
  explicit RunFolder(std::filesystem::path path);

  std::filesystem::path checkpoint() const { return path_ / "checkpoint.safetensors"; }
  std::filesystem::path model() const { return path_ / "model.safetensors"; }
  std::filesystem::path comparison() const { return path_ / "comparison.png"; }
  std::filesystem::path curves() const { return path_ / "curves.png"; }
  std::filesystem::path metrics() const { return path_ / "metrics.json"; }

  /// Removes an earlier training's results: until this one has its own, there are none.
  void remove_results() const;

 private:
  std::filesystem::path path_;
  adjoint::Descriptor folder_;  // holds the lock
};

}  // namespace super_resolution
