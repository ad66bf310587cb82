// Whole safetensors files, as save_safetensors, load_safetensors and Checkpoint write and read them. Internal.
#pragma once

#include <adjoint/core/error.h>
#include <adjoint/core/named_tensors.h>
#include <adjoint/nn/safetensors.h>

#include <filesystem>

namespace adjoint::nn::safetensors {

/// The last tensor of a file with a checksum, of four bytes: the CRC-32C of everything before them, little-endian.
inline constexpr const char* kChecksumName = "__crc32c__";

/// save_safetensors, for `op`. `checksum` puts a checksum behind the tensors.
void write_file(const char* op, const std::filesystem::path& path, const NamedTensors& tensors,
                const Metadata& metadata, bool checksum);

/// Throws Error, naming `op` and the path, unless the file ends in the checksum of what stands before.
void check_checksum(const char* op, const std::filesystem::path& path);

/// What stands beside the tensors, which are not read. Throws Error as load_safetensors does.
Metadata read_metadata(const std::filesystem::path& path);

}  // namespace adjoint::nn::safetensors
