// Whole safetensors files, for save_safetensors, load_safetensors and Checkpoint. Internal.
#pragma once

#include <adjoint/core/base/error.h>
#include <adjoint/core/tensor/named_tensors.h>
#include <adjoint/nn/safetensors.h>

#include <filesystem>

namespace adjoint::nn::safetensors {

/// The last tensor of a file with a checksum, of four bytes: the CRC-32C of everything before them, little-endian.
inline constexpr const char* kChecksumName = "__crc32c__";

/// save_safetensors, for `op`. `checksum` appends a checksum to the tensors.
void write_file(const char* op, const std::filesystem::path& path, const NamedTensors& tensors,
                const Metadata& metadata, bool checksum);

/// Throws Error, naming `op` and the path, unless the file ends in the checksum of its preceding bytes.
void check_checksum(const char* op, const std::filesystem::path& path);

/// The metadata, without reading the tensors. Throws Error as load_safetensors does.
Metadata read_metadata(const std::filesystem::path& path);

}  // namespace adjoint::nn::safetensors
