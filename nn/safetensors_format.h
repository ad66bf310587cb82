// What stands in a safetensors file: its dtypes, and its header, read and written. Internal.
#pragma once

#include <adjoint/core/dtype.h>
#include <adjoint/core/file.h>
#include <adjoint/core/shape.h>
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
  std::optional<DType> own = {};      // the dtype with these very elements
  std::optional<DType> widened = {};  // one that holds each of its values
};

/// Null for a name or dtype that the format does not have.
const Format* find_format(std::string_view name);
const Format* find_format(DType dtype);
/// Every name, as a list to read.
std::string format_names();

/// `count` contiguous elements of format.widened from as many of the format's own. Returns a value that does not fit,
/// where there is one.
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

/// Parses a header of `length` bytes, which `file` holds next, as it is read; no header is in memory as a whole. Throws
/// Error, of which `where` is the beginning, for one that breaks the format or does not cover `data_bytes` of data
/// once.
Header parse_header(const std::string& where, InputFile& file, std::uint64_t length, std::uint64_t data_bytes);

/// The header of tensors and metadata, unpadded. Throws Error where a text is not UTF-8.
std::string write_header(const Header& header);

}  // namespace adjoint::nn::safetensors
