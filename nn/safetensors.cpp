#include <adjoint/nn/safetensors.h>

#include <adjoint/core/check.h>
#include <adjoint/core/copy.h>
#include <adjoint/core/file.h>
#include <adjoint/core/tape.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <fstream>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

namespace adjoint::nn {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

constexpr const char* kMetadataKey = "__metadata__";
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's limit
constexpr std::uint64_t kAlignment = 8;

struct DTypeName {
  DType dtype;
  std::string_view name;
};
// In the reference implementation's order of the data: larger alignment first, so that every tensor is aligned.
constexpr DTypeName kDTypes[] = {{kInt64, "I64"},     {kFloat64, "F64"}, {kFloat32, "F32"}, {kInt32, "I32"},
                                 {kBFloat16, "BF16"}, {kFloat16, "F16"}, {kUInt8, "U8"},    {kBool, "BOOL"}};

const DTypeName* find(DType dtype) {
  return std::find_if(std::begin(kDTypes), std::end(kDTypes),
                      [&](const DTypeName& entry) { return entry.dtype == dtype; });
}

// ---- Writing.

struct Item {
  const std::string* name;
  const Tensor* tensor;
  std::uint64_t bytes() const { return static_cast<std::uint64_t>(tensor->numel() * element_size(tensor->dtype())); }
};

std::vector<Item> ordered_items(const NamedTensors& tensors) {
  std::vector<Item> items;
  std::set<std::string_view> names;
  for (const auto& [name, tensor] : tensors) {
    ADJOINT_CHECK(tensor.defined(), "save_safetensors: every tensor must be defined; got Tensor{{}} as '{}'", name);
    ADJOINT_CHECK(!name.empty() && name != kMetadataKey, "save_safetensors: a name must not be empty or {}; got '{}'",
                  kMetadataKey, name);
    ADJOINT_CHECK(names.insert(name).second, "save_safetensors: names must be unique; got '{}' twice", name);
    items.push_back({&name, &tensor});
  }
  std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
    const DTypeName *left = find(a.tensor->dtype()), *right = find(b.tensor->dtype());
    return left != right ? left < right : *a.name < *b.name;
  });
  return items;
}

std::string header_of(const std::vector<Item>& items, const Metadata& metadata) {
  OrderedJson header = OrderedJson::object();
  if (!metadata.empty()) header[kMetadataKey] = metadata;
  std::uint64_t offset = 0;
  for (const Item& item : items) {
    const std::uint64_t end = offset + item.bytes();
    const Shape& shape = item.tensor->shape();
    // Pushed rather than looked up, which would be quadratic: names are known to differ.
    header.get_ref<OrderedJson::object_t&>().emplace_back(
        *item.name, OrderedJson{{"dtype", find(item.tensor->dtype())->name},
                                {"shape", std::vector<std::int64_t>(shape.begin(), shape.end())},
                                {"data_offsets", {offset, end}}});
    offset = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const Json::exception& error) {
    fail("save_safetensors: names and metadata must be UTF-8 text; got {}", error.what());
  }
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  ADJOINT_CHECK(text.size() <= kMaxHeaderBytes,
                "save_safetensors: the header must be at most {} bytes; got {}; use shorter names "
                "or less metadata",
                kMaxHeaderBytes, text.size());
  return text;
}

// ---- Reading.

struct Entry {
  std::string name;
  DType dtype;
  Shape shape;
  std::uint64_t begin, end;  // in bytes, from the end of the header
};

// What is wrong with a file, with its path.
class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : path_(path.string()), file_(path, std::ios::binary) {
    check(file_.is_open(), "the file must exist and be readable");
    std::error_code error;
    const bool regular = std::filesystem::is_regular_file(path, error);
    check(regular, "the path must name a regular file");
    size_ = std::filesystem::file_size(path, error);
    check(!error, "the file's size must be known");
  }

  Safetensors read() {
    const Json header = read_header();
    Safetensors result;
    std::vector<Entry> entries;
    for (const auto& [name, value] : header.items()) {
      if (name == kMetadataKey) {
        result.metadata = metadata_of(value);
      } else {
        entries.push_back(entry_of(name, value));
      }
    }
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
    });
    check_layout(entries);
    for (const Entry& entry : entries) result.tensors.emplace_back(entry.name, read_tensor(entry));
    return result;
  }

 private:
  template <class... Args>
  [[noreturn]] void reject(fmt::format_string<Args...> why, Args&&... args) const {
    fail("load_safetensors: '{}': {}", path_, fmt::format(why, std::forward<Args>(args)...));
  }
  template <class... Args>
  void check(bool condition, fmt::format_string<Args...> why, Args&&... args) const {
    if (!condition) reject(why, std::forward<Args>(args)...);
  }

  void read_bytes(void* data, std::uint64_t bytes) {
    file_.read(static_cast<char*>(data), static_cast<std::streamsize>(bytes));
    check(file_.good(), "the file must be readable to its end");
  }

  Json read_header() {
    check(size_ >= 8, "the file must begin with the 8 bytes of the header's length; got {} bytes in all", size_);
    std::uint64_t length = 0;
    read_bytes(&length, sizeof(length));
    check(length <= kMaxHeaderBytes, "the header must be at most {} bytes; got {}; is it a safetensors file?",
          kMaxHeaderBytes, length);
    check(length <= size_ - 8, "the file must hold its whole header; got {} bytes of {}; was it cut short?", size_ - 8,
          length);
    std::string text(length, '\0');
    read_bytes(text.data(), length);
    check(!text.empty() && text[0] == '{', "the header must begin with '{{'");
    data_bytes_ = size_ - 8 - length;
    return parse(text);
  }

  Json parse(const std::string& text) const {
    std::vector<std::set<std::string>> keys;  // of each open object
    const auto see = [&](int depth, Json::parse_event_t event, Json& value) {
      check(depth <= 3, "the header must be no deeper than a tensor's shape");
      if (event == Json::parse_event_t::object_start) keys.emplace_back();
      if (event == Json::parse_event_t::object_end) keys.pop_back();
      if (event == Json::parse_event_t::key) {
        const auto& key = value.get_ref<const std::string&>();
        check(keys.back().insert(key).second, "the header's names must be unique; got '{}' twice", key);
      }
      return true;
    };
    try {
      return Json::parse(text, see);
    } catch (const Json::exception& error) {
      reject("the header must be JSON; got {}", error.what());
    }
  }

  Metadata metadata_of(const Json& value) const {
    check(value.is_object(), "{} must be an object", kMetadataKey);
    Metadata metadata;
    for (const auto& [key, text] : value.items()) {
      check(text.is_string(), "{} must map text to text; got something else for '{}'", kMetadataKey, key);
      metadata.emplace(key, text.get<std::string>());
    }
    return metadata;
  }

  Entry entry_of(const std::string& name, const Json& value) const {
    check(value.is_object() && value.size() == 3 && value.contains("dtype") && value.contains("shape") &&
              value.contains("data_offsets"),
          "a tensor must have dtype, shape and data_offsets, and nothing else; got '{}' without", name);
    const Json &dtype = value["dtype"], &shape = value["shape"], &offsets = value["data_offsets"];
    check(dtype.is_string(), "the dtype of '{}' must be text", name);
    const auto* known = std::find_if(std::begin(kDTypes), std::end(kDTypes), [&](const DTypeName& entry) {
      return entry.name == dtype.get_ref<const std::string&>();
    });
    check(known != std::end(kDTypes), "the dtype of '{}' must be F16, BF16, F32, F64, I32, I64, U8 or BOOL; got {}",
          name, dtype.get_ref<const std::string&>());
    check(offsets.is_array() && offsets.size() == 2 && offsets[0].is_number_unsigned() &&
              offsets[1].is_number_unsigned(),
          "data_offsets of '{}' must be two unsigned integers", name);
    Entry entry{name, known->dtype, shape_of(name, shape), offsets[0].get<std::uint64_t>(),
                offsets[1].get<std::uint64_t>()};
    check(entry.begin <= entry.end && entry.end <= data_bytes_,
          "data_offsets of '{}' must lie in the file's {} bytes of data; got [{}, {}]; was it cut short?", name,
          data_bytes_, entry.begin, entry.end);
    std::uint64_t bytes = static_cast<std::uint64_t>(element_size(entry.dtype));
    bool fits = true;
    for (const std::int64_t extent : entry.shape) {
      fits = fits && !__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes);
    }
    check(fits && bytes == entry.end - entry.begin,
          "data_offsets of '{}' must span its shape's bytes; got shape {}, [{}, {}]", name, entry.shape, entry.begin,
          entry.end);
    return entry;
  }

  Shape shape_of(const std::string& name, const Json& value) const {
    check(value.is_array() && value.size() <= kMaxRank, "the shape of '{}' must be a list of at most {} extents", name,
          kMaxRank);
    Shape shape;
    for (const Json& extent : value) {
      check(extent.is_number_unsigned() && extent.get<std::uint64_t>() <= INT64_MAX,
            "the shape of '{}' must be made of integers from 0 to 2^63 - 1", name);
      shape.push_back(extent.get<std::int64_t>());
    }
    return shape;
  }

  // The tensors cover the data once, from its start to the end of the file.
  void check_layout(const std::vector<Entry>& entries) const {
    std::uint64_t covered = 0;
    for (const Entry& entry : entries) {
      check(entry.begin >= covered, "tensors must not overlap; got '{}' from byte {}, where {} are taken", entry.name,
            entry.begin, covered);
      check(entry.begin == covered, "tensors must leave no holes; got '{}' from byte {}, where {} are taken",
            entry.name, entry.begin, covered);
      covered = entry.end;
    }
    check(covered == data_bytes_, "tensors must cover the whole file; got {} bytes of {}", covered, data_bytes_);
  }

  Tensor read_tensor(const Entry& entry) {
    Tensor tensor = Tensor::empty(entry.shape, {.dtype = entry.dtype});
    if (entry.begin == entry.end) return tensor;
    auto* data = static_cast<std::uint8_t*>(tensor.raw_mutable_data());
    read_bytes(data, entry.end - entry.begin);
    if (entry.dtype == kBool) {
      const bool valid = std::all_of(data, data + tensor.numel(), [](std::uint8_t byte) { return byte <= 1; });
      check(valid, "the elements of '{}' must be 0 or 1, as BOOL's are", entry.name);
    }
    return tensor;
  }

  std::string path_;
  std::ifstream file_;
  std::uint64_t size_ = 0;
  std::uint64_t data_bytes_ = 0;
};

}  // namespace

void save_safetensors(const std::filesystem::path& path, const NamedTensors& tensors, const Metadata& metadata) {
  const PauseTape pause;
  const std::vector<Item> items = ordered_items(tensors);
  const std::string header = header_of(items, metadata);
  AtomicFile file("save_safetensors", path);
  const std::uint64_t length = header.size();
  file.write(&length, sizeof(length));
  file.write(header);
  for (const Item& item : items) {
    const Tensor host = contiguous_copy(item.tensor->detach().to(kCPU));
    file.write(host.raw_data(), item.bytes());
  }
  file.commit();
}

void save_safetensors(const std::filesystem::path& path, const Module& module, const Metadata& metadata) {
  save_safetensors(path, module.state_dict(), metadata);
}

Safetensors load_safetensors(const std::filesystem::path& path) { return Reader(path).read(); }

Metadata load_safetensors(const std::filesystem::path& path, Module& module) {
  Safetensors file = load_safetensors(path);
  try {
    module.load_state_dict(file.tensors);
  } catch (const Error& error) {
    fail("load_safetensors: '{}' does not fit the module: {}", path.string(), error.what());
  }
  return std::move(file.metadata);
}

}  // namespace adjoint::nn
