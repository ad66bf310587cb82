// The files in a checkpoint's folder: their names, their metadata, and the selection of those to keep. Internal.
#pragma once

#include <adjoint/nn/checkpoint.h>
#include <adjoint/nn/safetensors.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace adjoint::nn::checkpoint_files {

std::string name_of(std::int64_t step);

Metadata metadata_of(const CheckpointFile& file);
/// Throws Error, naming `op` and the path, for metadata that is not a checkpoint's.
CheckpointFile parse(const char* op, const std::filesystem::path& path, const Metadata& metadata);

struct Listing {
  std::vector<CheckpointFile> files;    // newest first
  std::vector<std::string> unreadable;  // the reasons, for files with a checkpoint's name that are not checkpoints
};
/// The contents of the folder; empty if there is no folder. Throws Error if it cannot be listed.
Listing list(const std::filesystem::path& folder);

/// Files whose metric is a number, best first; among equal ones the newest first.
std::vector<CheckpointFile> by_metric(std::vector<CheckpointFile> newest_first, bool maximize);

struct Keep {
  std::int64_t last = 1, best = 0;
  bool maximize = false;
};
/// Removes the files that are not kept; unreadable files stay. Throws Error, naming the path.
void remove_others(const char* op, const std::filesystem::path& folder, const Keep& keep);

}  // namespace adjoint::nn::checkpoint_files
