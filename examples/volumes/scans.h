// Volumes with masks: drawn ones, each voxel's class known, and those of a user's folders.
#pragma once

#include "common/classes.h"

#include <adjoint/core/tensor/tensor.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace volumes {

using examples::kIgnored;

struct Scan {
  adjoint::Tensor volume;  // (1, D, H, W), float32, of mean 0 and variance 1
  adjoint::Tensor mask;    // (1, D, H, W), uint8: classes, or kIgnored
  std::string name;
};

/// background, blob, tube.
const std::vector<std::string>& scan_classes();

/// Scan `number` of an endless series, the same on every machine up to rounding. Blobs of many sizes are of one
/// brightness range with thin, bent, branching tubes, so that brightness alone separates neither; brighter and darker
/// haze is background. A smooth field shades the volume, and the noise is that of magnitudes in a magnetic resonance
/// scanner (Rice's distribution).
Scan drawn_scan(std::uint64_t number, std::int64_t depth, std::int64_t height, std::int64_t width);

/// A volume (1, D, H, W) of mean 0 and variance 1.
adjoint::Tensor standardised(const adjoint::Tensor& volume);

/// The volume (1, D, H, W), float32, of a file .npy, .nii or .nii.gz. Throws Error, naming the file, for other names
/// and numbers of axes, and for numbers that are not finite.
adjoint::Tensor read_volume(const std::filesystem::path& path);

/// Scans with masks. A scan's mask has its path below the other folder; extensions may differ.
struct MaskedScans {
  std::vector<Scan> scans;
  std::int64_t classes = 0;
};
/// Throws Error, naming the file, if a scan cannot be read, has no mask or one of another size, or if a mask's values
/// are not class numbers.
MaskedScans read_masked(const std::string& images, const std::string& masks);

}  // namespace volumes
