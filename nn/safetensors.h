// The safetensors format: tensors and text metadata in one file, exchanged with PyTorch and others.
//
// The file: the header's length (8 bytes, little-endian), a JSON header {"name": {"dtype", "shape", "data_offsets"}},
// padded with spaces to a multiple of 8, and the elements, contiguous and little-endian. Specification:
// https://github.com/huggingface/safetensors. Dtypes: F16, BF16, F32, F64, I32, I64, U8, BOOL.
#pragma once

#include <adjoint/core/named_tensors.h>
#include <adjoint/nn/module.h>

#include <filesystem>
#include <map>
#include <string>

namespace adjoint::nn {

/// Text by key, which the format keeps beside the tensors.
using Metadata = std::map<std::string, std::string>;

struct Safetensors {
  NamedTensors tensors;  // on the CPU, in the order of the file
  Metadata metadata;
};

/// Writes the file whole or not at all: a temporary file in the same folder, flushed to the disk, takes its place.
/// Throws Error for undefined tensors, names that are given twice, empty, `__metadata__` or no UTF-8, and where writing
/// fails; an older file is then still there.
ADJOINT_API void save_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                                  const Metadata& metadata = {});
/// A module's state_dict().
ADJOINT_API void save_safetensors(const std::filesystem::path& path, const Module& module,
                                  const Metadata& metadata = {});

/// Reads a file. Throws Error for one that breaks the format in any way, or that holds other dtypes or more than 8
/// axes.
ADJOINT_API Safetensors load_safetensors(const std::filesystem::path& path);
/// Reads a file into a module, on whichever device it is, and returns the metadata. Names, shapes and dtypes must be
/// the module's: throws one Error that lists those that are not, and the module is as it was.
ADJOINT_API Metadata load_safetensors(const std::filesystem::path& path, Module& module);

}  // namespace adjoint::nn
