// The safetensors format: tensors and text metadata in one file, exchanged with PyTorch and others.
//
// The file: the header's length (8 bytes, little-endian), a JSON header {"name": {"dtype", "shape", "data_offsets"}},
// padded with spaces to a multiple of 8, and the elements, contiguous and little-endian. Specification:
// https://github.com/huggingface/safetensors. Dtypes that Adjoint also has: F16, BF16, F32, F64, I32, I64, U8, BOOL.
// Converted on request, every value exactly: I8, I16 and U16 to int32; U32 and U64 to int64; F8_E4M3, F8_E5M2 and
// F8_E8M0 to float32. The format's other dtypes, C64, F4, F6_E2M3 and F6_E3M2, are skipped.
#pragma once

#include <adjoint/core/tensor/named_tensors.h>
#include <adjoint/nn/module.h>

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace adjoint::nn {

/// Text by key, which the format stores with the tensors.
using Metadata = std::map<std::string, std::string>;

struct SafetensorsOptions {
  /// Converts tensors of the convertible dtypes above; otherwise they are skipped.
  bool convert_dtype = false;
};

struct Safetensors {
  NamedTensors tensors;  // on the CPU, in the order of the file
  Metadata metadata;
  std::vector<std::pair<std::string, std::string>> skipped;  // names and dtypes of skipped tensors
};

/// Writes the file completely or not at all: a temporary file in the same folder, flushed to the disk, replaces it.
/// Throws Error for undefined tensors, names that are repeated, empty, `__metadata__` or not UTF-8, and if writing
/// fails; throws OutOfMemoryError. An older file then still exists.
ADJOINT_API void save_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                                  const Metadata& metadata = {});
/// A module's state_dict().
ADJOINT_API void save_safetensors(const std::filesystem::path& path, const Module& module,
                                  const Metadata& metadata = {});

// A path that ends in ".json" is the index of a model in several files (model.safetensors.index.json): all of them, in
// the same folder, are read as if they were one. They must hold exactly the tensors of the index.

/// Reads a file. Throws Error for one that violates the format in any way, that holds more than 8 axes, or more than a
/// million tensors or entries of metadata, and for a U64 above 2^63 - 1 that is to be converted; OutOfMemoryError.
ADJOINT_API Safetensors load_safetensors(const std::filesystem::path& path, const SafetensorsOptions& options = {});
/// Reads a file into a module, on the module's device, and returns the metadata. Names, shapes and dtypes must be the
/// module's as far as the options require (load_state_dict; .rename maps PyTorch's names to the module's). Otherwise
/// throws one Error that lists the mismatches, and changes nothing. `report`, if not null, receives the names that were
/// skipped.
ADJOINT_API Metadata load_safetensors(const std::filesystem::path& path, Module& module,
                                      const LoadOptions& options = {}, LoadReport* report = nullptr);

}  // namespace adjoint::nn
