// Maps the tensors of a model that was saved in several files to those files: model.safetensors.index.json. Internal.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>

namespace adjoint::nn::safetensors {

/// The names of the tensors in each file. The files are in the index's folder.
using Index = std::map<std::string, std::set<std::string>>;

/// Reads {"metadata": {...}, "weight_map": {"<tensor>": "<file>", ...}}. Throws Error, beginning with load_safetensors
/// and the path, for anything else and for an invalid file name.
Index read_index(const std::filesystem::path& path);

}  // namespace adjoint::nn::safetensors
