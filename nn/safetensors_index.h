// Which files the tensors of a model stand in that was saved in several: model.safetensors.index.json. Internal.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>

namespace adjoint::nn::safetensors {

/// The names of the tensors of each file, which lies beside the index.
using Index = std::map<std::string, std::set<std::string>>;

/// Reads {"metadata": {...}, "weight_map": {"<tensor>": "<file>", ...}}. Throws Error, beginning with load_safetensors
/// and the path, for anything else and for a file that is no name.
Index read_index(const std::filesystem::path& path);

}  // namespace adjoint::nn::safetensors
