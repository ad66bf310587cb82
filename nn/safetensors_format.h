// The contents of a safetensors file: its dtypes, and its header, read and written. Internal.
#pragma once

#include <adjoint/core/base/file.h>
#include <adjoint/core/tensor/dtype.h>
#include <adjoint/core/tensor/shape.h>
#include <adjoint/nn/safetensors.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace adjoint::nn::safetensors {

inline constexpr const char* kMetadataKey = "__metadata__";
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's limit
inline constexpr std::size_t kMaxEntries = 1'000'000;

struct Format {
  std::string_view name;
  std::uint64_t bits;
  std::optional<DType> own = {};      // the dtype with exactly these elements
  std::optional<DType> widened = {};  // a dtype that holds each of its values
};

/// Null for a name or dtype that the format does not have.
const Format* find_format(std::string_view name);
const Format* find_format(DType dtype);
/// All names, as a readable list.
std::string format_names();

/// Converts `count` contiguous elements of the format to format.widened. Returns a value that does not fit, if there is
/// one.
std::optional<std::uint64_t> widen(const Format& format, const void* source, std::int64_t count, void* result);

struct Entry {
  std::string name;
  const Format* format = nullptr;
  Shape shape;
  std::uint64_t begin = 0, end = 0;  // in bytes, from the end of the header
};

struct Header {
  std::vector<Entry> entries;  // in the order of the data
  Metadata metadata;
};

/// Parses a header of `length` bytes, which are the next bytes of `file`, while reading; the header is never in memory
/// as a whole. Throws Error, beginning with `where`, for one that violates the format or does not cover `data_bytes` of
/// data exactly once.
Header parse_header(const std::string& where, InputFile& file, std::uint64_t length, std::uint64_t data_bytes);

/// The header of tensors and metadata, unpadded. Throws Error if a text is not UTF-8.
std::string write_header(const Header& header);

}  // namespace adjoint::nn::safetensors
