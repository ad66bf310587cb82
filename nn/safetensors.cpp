#include <adjoint/nn/safetensors.h>

#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/base/crc32c.h>
#include <adjoint/core/base/file.h>
#include <adjoint/core/tensor/copy.h>
#include <adjoint/nn/renames.h>
#include <adjoint/nn/safetensors_file.h>
#include <adjoint/nn/safetensors_format.h>
#include <adjoint/nn/safetensors_index.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <new>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace adjoint::nn {
namespace {

using safetensors::Entry;
using safetensors::Header;
using safetensors::kMaxHeaderBytes;
using safetensors::kMetadataKey;

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

constexpr std::uint64_t kAlignment = 8;

// Made beforehand, in case there is no memory for a message either.
const OutOfMemoryError kOutOfMemory("safetensors: the file needs more memory than there is");

// f(), turning std::bad_alloc into OutOfMemoryError.
template <class F>
auto within_memory(const char* op, const std::filesystem::path& path, const F& f) {
  try {
    try {
      return f();
    } catch (const std::bad_alloc&) {
      throw OutOfMemoryError(fmt::format("{}: '{}' needs more memory than there is", op, path.string()));
    }
  } catch (const std::bad_alloc&) {
    throw kOutOfMemory;
  }
}

// ---- Writing.

struct Item {
  const std::string* name;
  const Tensor* tensor;
  const safetensors::Format* format;
};

std::vector<Item> ordered_items(const char* op, const NamedTensors& tensors) {
  std::vector<Item> items;
  std::set<std::string_view> names;
  for (const auto& [name, tensor] : tensors) {
    ADJOINT_CHECK(tensor.defined(), "{}: every tensor must be defined; got Tensor{{}} as '{}'", op, name);
    ADJOINT_CHECK(!name.empty() && name != kMetadataKey, "{}: a name must not be empty or {}; got '{}'", op,
                  kMetadataKey, name);
    ADJOINT_CHECK(names.insert(name).second, "{}: names must be unique; got '{}' twice", op, name);
    items.push_back({&name, &tensor, safetensors::find_format(tensor.dtype())});
  }
  std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
    return a.format != b.format ? a.format < b.format : *a.name < *b.name;
  });
  return items;
}

std::string header_of(const char* op, const std::vector<Item>& items, const Metadata& metadata) {
  Header header{.entries = {}, .metadata = metadata};
  std::uint64_t offset = 0;
  for (const Item& item : items) {
    const std::uint64_t end = offset + item.tensor->nbytes();
    header.entries.push_back(
        {.name = *item.name, .format = item.format, .shape = item.tensor->shape(), .begin = offset, .end = end});
    offset = end;
  }
  std::string text = safetensors::write_header(header);
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  ADJOINT_CHECK(text.size() <= kMaxHeaderBytes,
                "{}: the header must be at most {} bytes; got {}; use shorter names or less metadata", op,
                kMaxHeaderBytes, text.size());
  return text;
}

// ---- Reading.

using Wanted = std::function<bool(const std::string& name)>;

class Reader {
 public:
  explicit Reader(const std::filesystem::path& path)
      : where_(fmt::format("load_safetensors: '{}': ", path.string())), file_("load_safetensors", path) {}

  // Skips tensors that are not in `wanted`, if that is not empty.
  Safetensors read(const SafetensorsOptions& options, const Wanted& wanted) {
    Header header = read_header();
    Safetensors result;
    result.metadata = std::move(header.metadata);
    for (Entry& entry : header.entries) {
      const bool readable = entry.format->own || (entry.format->widened && options.convert_dtype);
      if (readable && (!wanted || wanted(entry.name))) {
        Tensor tensor = read_tensor(entry);
        result.tensors.emplace_back(std::move(entry.name), std::move(tensor));
      } else {
        pass_over(entry.end - entry.begin);
        result.skipped.emplace_back(std::move(entry.name), entry.format->name);
      }
    }
    return result;
  }

  Header read_header() {
    const std::uint64_t size = file_.size();
    check(size >= 8, "the file must begin with the 8 bytes of the header's length; got {} bytes in all", size);
    std::uint64_t length = 0;
    read_bytes(&length, sizeof(length));
    // A zip archive begins with PK 3 4, and a pickle with its protocol.
    const bool zip = (length & 0xffffffffU) == 0x04034b50U,
               pickle = (length & 0xffU) == 0x80U && (length >> 8 & 0xffU) <= 5;
    check(!zip && !(pickle && length > kMaxHeaderBytes),
          "the file must be a safetensors file; got a PyTorch archive; save it as safetensors, see docs/weights.md");
    check(length <= kMaxHeaderBytes, "the header must be at most {} bytes; got {}; is it a safetensors file?",
          kMaxHeaderBytes, length);
    check(length <= size - 8, "the file must hold its whole header; got {} bytes of {}; was it cut short?", size - 8,
          length);
    return safetensors::parse_header(where_, file_, length, size - 8 - length);
  }

 private:
  template <class... Args>
  void check(bool condition, fmt::format_string<Args...> why, Args&&... args) const {
    if (!condition) fail("{}{}", where_, fmt::format(why, std::forward<Args>(args)...));
  }

  void read_bytes(void* data, std::uint64_t bytes) {
    check(file_.read(data, bytes) == bytes, "the file must be readable to its end");
  }

  void pass_over(std::uint64_t bytes) {
    std::vector<char> buffer(std::min<std::uint64_t>(bytes, 1 << 20));
    for (std::uint64_t left = bytes; left > 0; left -= std::min<std::uint64_t>(left, buffer.size())) {
      read_bytes(buffer.data(), std::min<std::uint64_t>(left, buffer.size()));
    }
  }

  Tensor read_tensor(const Entry& entry) {
    const std::uint64_t bytes = entry.end - entry.begin;
    if (!entry.format->own) return widened(entry);
    Tensor tensor = Tensor::empty(entry.shape, {.dtype = *entry.format->own});
    if (bytes == 0) return tensor;
    auto* data = static_cast<std::uint8_t*>(tensor.raw_mutable_data());
    read_bytes(data, bytes);
    if (tensor.dtype() == kBool) {
      const bool valid = std::all_of(data, data + bytes, [](std::uint8_t byte) { return byte <= 1; });
      check(valid, "the elements of '{}' must be 0 or 1, as BOOL's are", entry.name);
    }
    return tensor;
  }

  Tensor widened(const Entry& entry) {
    Tensor tensor = Tensor::empty(entry.shape, {.dtype = *entry.format->widened});
    if (tensor.numel() == 0) return tensor;
    std::vector<char> elements(entry.end - entry.begin);
    read_bytes(elements.data(), elements.size());
    const auto too_large =
        safetensors::widen(*entry.format, elements.data(), tensor.numel(), tensor.raw_mutable_data());
    check(!too_large, "the elements of '{}' must be at most 2^63 - 1 to become int64; got {}", entry.name,
          too_large.value_or(0));
    return tensor;
  }

  std::string where_;
  InputFile file_;
};

// Reads the files of an index as one.
Safetensors read_all(const std::filesystem::path& path, const SafetensorsOptions& options, const Wanted& wanted) {
  if (path.extension() != ".json") return Reader(path).read(options, wanted);
  Safetensors all;
  for (const auto& [file, names] : safetensors::read_index(path)) {
    Safetensors part = Reader(path.parent_path() / file).read(options, wanted);
    std::set<std::string_view> there;
    for (const auto& [name, tensor] : part.tensors) there.insert(name);
    for (const auto& [name, dtype] : part.skipped) there.insert(name);
    for (const std::string& name : names) {
      ADJOINT_CHECK(there.contains(name),
                    "load_safetensors: '{}': the file '{}' must hold '{}', as the weight_map says", path.string(), file,
                    name);
    }
    for (const std::string_view name : there) {
      ADJOINT_CHECK(names.contains(std::string(name)),
                    "load_safetensors: '{}': the weight_map must name every tensor of the file '{}'; got '{}' in it",
                    path.string(), file, name);
    }
    std::move(part.tensors.begin(), part.tensors.end(), std::back_inserter(all.tensors));
    std::move(part.skipped.begin(), part.skipped.end(), std::back_inserter(all.skipped));
    all.metadata.merge(part.metadata);
  }
  return all;
}

}  // namespace

void safetensors::write_file(const char* op, const std::filesystem::path& path, const NamedTensors& tensors,
                             const Metadata& metadata, bool checksum) {
  within_memory(op, path, [&] {
    const PauseTape pause;
    std::vector<Item> items = ordered_items(op, tensors);
    const std::string checksum_name = kChecksumName;
    Tensor sum = Tensor::zeros({sizeof(std::uint32_t)}, {.dtype = kUInt8});
    if (checksum) items.push_back({&checksum_name, &sum, find_format(kUInt8)});
    const std::string header = header_of(op, items, metadata);
    AtomicFile file(op, path);
    std::uint32_t crc = 0;
    const auto write = [&](const void* data, std::uint64_t bytes) {
      if (checksum) crc = crc32c(data, bytes, crc);
      file.write(data, bytes);
    };
    const std::uint64_t length = header.size();
    write(&length, sizeof(length));
    write(header.data(), header.size());
    for (const Item& item : items) {
      if (item.tensor == &sum) std::memcpy(sum.raw_mutable_data(), &crc, sizeof(crc));
      const Tensor host = contiguous_copy(item.tensor->detach().to(kCPU));
      write(host.raw_data(), host.nbytes());
    }
    file.commit();
  });
}

void safetensors::check_checksum(const char* op, const std::filesystem::path& path) {
  constexpr std::uint64_t kPiece = 1 << 20;
  InputFile file(op, path);
  std::uint32_t crc = 0, written = 0;
  std::vector<char> piece(std::min<std::uint64_t>(kPiece, file.size()));
  std::uint64_t left = file.size() - std::min<std::uint64_t>(file.size(), sizeof(written));
  while (left > 0) {
    const std::size_t bytes = file.read(piece.data(), std::min<std::uint64_t>(left, piece.size()));
    if (bytes == 0) break;
    crc = crc32c(piece.data(), bytes, crc);
    left -= bytes;
  }
  const bool whole = left == 0 && file.read(&written, sizeof(written)) == sizeof(written);
  ADJOINT_CHECK(
      whole && crc == written,
      "{}: '{}' must end in the checksum of its {} bytes; got {:08x} for {:08x}; was it damaged or cut short?", op,
      path.string(), file.size(), written, crc);
}

Metadata safetensors::read_metadata(const std::filesystem::path& path) {
  return within_memory("load_safetensors", path, [&] { return Reader(path).read_header().metadata; });
}

void save_safetensors(const std::filesystem::path& path, const NamedTensors& tensors, const Metadata& metadata) {
  safetensors::write_file("save_safetensors", path, tensors, metadata, false);
}

void save_safetensors(const std::filesystem::path& path, const Module& module, const Metadata& metadata) {
  save_safetensors(path, module.state_dict(), metadata);
}

Safetensors load_safetensors(const std::filesystem::path& path, const SafetensorsOptions& options) {
  return within_memory("load_safetensors", path, [&] { return read_all(path, options, {}); });
}

Metadata load_safetensors(const std::filesystem::path& path, Module& module, const LoadOptions& options,
                          LoadReport* report) {
  return within_memory("load_safetensors", path, [&] {
    std::set<std::string> own;
    for (const auto& [name, tensor] : module.state_dict()) own.insert(name);
    for (const auto& [alias, name] : module.state_aliases()) own.insert(alias);
    const Renames renamed("load_safetensors", options.rename);
    const Wanted wanted = [&](const std::string& name) { return own.contains(renamed(name)); };
    Safetensors file = read_all(path, {.convert_dtype = options.convert_dtype}, wanted);
    std::vector<std::string> unreadable;
    for (auto& [name, dtype] : file.skipped) {
      if (wanted(name)) {
        unreadable.push_back(fmt::format("{} ({})", name, dtype));
      } else {
        file.tensors.emplace_back(std::move(name), Tensor::empty({0}));  // unexpected, with any contents
      }
    }
    ADJOINT_CHECK(
        unreadable.empty(),
        "load_safetensors: '{}' does not go into the module: its tensors must be of dtypes that tensors have; got "
        "{}; .convert_dtype converts integers and F8",
        path.string(), fmt::join(unreadable, ", "));
    try {
      LoadReport loaded = module.load_state_dict(file.tensors, options);
      if (report != nullptr) *report = std::move(loaded);
    } catch (const OutOfMemoryError&) {
      throw;
    } catch (const Error& error) {
      std::string why = error.what();
      constexpr std::string_view kPrefix = "load_state_dict: ";
      if (why.starts_with(kPrefix)) why.erase(0, kPrefix.size());
      fail("load_safetensors: '{}' does not go into the module: {}", path.string(), why);
    }
    return std::move(file.metadata);
  });
}

}  // namespace adjoint::nn
