// Dtypes and headers of safetensors files. JSON is parsed event by event, and written piece by piece: nlohmann's
// compound values allocate as they are destroyed, which ends a process that is out of memory.
#include <adjoint/nn/safetensors_format.h>

#include <adjoint/core/base/check.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <tuple>

namespace adjoint::nn::safetensors {
namespace {

using Json = nlohmann::json;

// In the reference implementation's order of the data, for the dtypes that Adjoint writes: larger alignment first, so
// that every tensor is aligned.
constexpr Format kFormats[] = {{"I64", 64, kInt64},
                               {"F64", 64, kFloat64},
                               {"F32", 32, kFloat32},
                               {"I32", 32, kInt32},
                               {"BF16", 16, kBFloat16},
                               {"F16", 16, kFloat16},
                               {"U8", 8, kUInt8},
                               {"BOOL", 8, kBool},
                               {"U64", 64, {}, kInt64},
                               {"U32", 32, {}, kInt64},
                               {"U16", 16, {}, kInt32},
                               {"I16", 16, {}, kInt32},
                               {"I8", 8, {}, kInt32},
                               {"F8_E8M0", 8, {}, kFloat32},
                               {"F8_E4M3", 8, {}, kFloat32},
                               {"F8_E5M2", 8, {}, kFloat32},
                               {"C64", 64},
                               {"F6_E3M2", 6},
                               {"F6_E2M3", 6},
                               {"F4", 4}};

// 1 sign, 4 exponent (bias 7), 3 fraction; no infinities, and one NaN per sign, so that 448 is the largest.
float e4m3(std::uint8_t code) {
  const int exponent = code >> 3 & 15, fraction = code & 7;
  float value = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -9)
                              : std::ldexp(static_cast<float>(8 + fraction), exponent - 10);
  if ((code & 0x7f) == 0x7f) value = std::numeric_limits<float>::quiet_NaN();
  return (code & 0x80) != 0 ? -value : value;
}

// The upper byte of a binary16.
float e5m2(std::uint8_t code) { return adjoint::detail::float16_value(static_cast<std::uint16_t>(code << 8)); }

// A power of two, 2^(code - 127); the last code is NaN.
float e8m0(std::uint8_t code) {
  return code == 0xff ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0F, code - 127);
}

// result[i] = f(source[i]); a file's elements need not be aligned.
template <class From, class To, class F>
void convert(const void* source, std::int64_t count, void* result, const F& f) {
  for (std::int64_t i = 0; i < count; ++i) {
    From from;
    std::memcpy(&from, static_cast<const char*>(source) + i * static_cast<std::int64_t>(sizeof(From)), sizeof(From));
    static_cast<To*>(result)[i] = f(from);
  }
}

// A header's characters, read on demand.
class Characters {
 public:
  Characters(const std::string& where, InputFile& file, std::uint64_t length)
      : where_(where), file_(file), left_(length) {}

  bool at_end() { return next_ == have_ && left_ == 0; }
  char peek() {
    if (next_ == have_) fill();
    return buffer_[next_];
  }
  void take() {
    peek();
    ++next_;
  }

 private:
  void fill() {
    const std::size_t wanted = static_cast<std::size_t>(std::min<std::uint64_t>(left_, buffer_.size()));
    have_ = file_.read(buffer_.data(), wanted);
    ADJOINT_CHECK(have_ == wanted, "{}the file must be readable to its end", where_);
    // nlohmann's parser treats a zero as the text's end and ignores the rest.
    ADJOINT_CHECK(std::memchr(buffer_.data(), 0, have_) == nullptr, "{}the header must be JSON; got a zero byte",
                  where_);
    next_ = 0;
    left_ -= wanted;
  }

  const std::string& where_;
  InputFile& file_;
  std::uint64_t left_;
  std::array<char, 65536> buffer_;
  std::size_t next_ = 0, have_ = 0;
};

// The iterator that nlohmann's parser needs. The end has no characters.
struct Iterator {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  Characters* characters = nullptr;

  char operator*() const { return characters->peek(); }
  Iterator& operator++() {
    characters->take();
    return *this;
  }
  bool ended() const { return characters == nullptr || characters->at_end(); }
  friend bool operator==(const Iterator& a, const Iterator& b) { return a.ended() == b.ended(); }
  friend bool operator!=(const Iterator& a, const Iterator& b) { return !(a == b); }
};

// Receives the events of a header. Every event has one valid place; misplaced ones are reported with their place.
class Parser : public nlohmann::json_sax<Json> {
 public:
  Parser(const std::string& where, std::uint64_t data_bytes) : where_(where), data_bytes_(data_bytes) {}

  Header take() { return std::move(header_); }

  bool start_object(std::size_t) override {
    if (place_ == Place::kStart) return go(Place::kNames);
    if (place_ != Place::kNames) return misplaced();
    if (name_ == kMetadataKey) {
      check(!has_metadata_, "the header's names must be unique; got '{}' twice", kMetadataKey);
      has_metadata_ = true;
      return go(Place::kMetadata);
    }
    check(header_.entries.size() < kMaxEntries, "the header must name at most {} tensors", kMaxEntries);
    header_.entries.push_back({.name = name_});
    fields_ = {};
    return go(Place::kTensor);
  }
  bool key(std::string& text) override {
    if (place_ == Place::kNames) {
      name_.swap(text);
    } else {
      key_.swap(text);
      if (place_ == Place::kTensor) enter_field();
    }
    return true;
  }
  bool string(std::string& text) override {
    if (place_ == Place::kMetadata) {
      check(header_.metadata.size() < kMaxEntries, "{} must hold at most {} entries", kMetadataKey, kMaxEntries);
      check(header_.metadata.emplace(key_, std::move(text)).second, "the header's names must be unique; got '{}' twice",
            key_);
      return true;
    }
    if (place_ != Place::kTensor || key_ != "dtype") return misplaced();
    entry().format = find_format(text);
    check(entry().format != nullptr, "the dtype of '{}' must be one of {}; got {}", name_, format_names(), text);
    return true;
  }
  bool start_array(std::size_t) override {
    if (place_ != Place::kTensor) return misplaced();
    if (key_ == "shape") return go(Place::kShape);
    if (key_ == "data_offsets") return go(Place::kOffsets);
    return misplaced();
  }
  bool number_unsigned(std::uint64_t value) override {
    if (place_ == Place::kShape) {
      check(value <= INT64_MAX, "the shape of '{}' must be made of integers from 0 to 2^63 - 1", name_);
      check(entry().shape.size() < kMaxRank, "the shape of '{}' must be a list of at most {} extents", name_, kMaxRank);
      entry().shape.push_back(static_cast<std::int64_t>(value));
      return true;
    }
    if (place_ != Place::kOffsets || offsets_ == 2) return misplaced();
    (offsets_++ == 0 ? entry().begin : entry().end) = value;
    return true;
  }
  bool end_array() override {
    if (place_ == Place::kOffsets) check_offsets();
    return go(Place::kTensor);
  }
  bool end_object() override {
    if (place_ == Place::kTensor) check_entry();
    return go(place_ == Place::kNames ? Place::kEnd : Place::kNames);
  }

  bool null() override { return misplaced(); }
  bool boolean(bool) override { return misplaced(); }
  bool number_integer(std::int64_t) override { return misplaced(); }
  bool number_float(double, const std::string&) override { return misplaced(); }
  bool binary(Json::binary_t&) override { return misplaced(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) override {
    constexpr std::size_t kShown = 300;  // the message quotes the last token, however long
    reject("the header must be JSON; got {}", std::string_view(error.what()).substr(0, kShown));
  }

  // Checks of the header as a whole.
  void check_whole() {
    std::vector<Entry>& entries = header_.entries;
    const auto by_name = [](const Entry* a, const Entry* b) { return a->name < b->name; };
    std::vector<const Entry*> named(entries.size());
    std::transform(entries.begin(), entries.end(), named.begin(), [](const Entry& e) { return &e; });
    std::sort(named.begin(), named.end(), by_name);
    const auto twice = std::adjacent_find(named.begin(), named.end(),
                                          [](const Entry* a, const Entry* b) { return a->name == b->name; });
    if (twice != named.end()) reject("the header's names must be unique; got '{}' twice", (*twice)->name);

    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
    });
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

 private:
  enum class Place { kStart, kNames, kMetadata, kTensor, kShape, kOffsets, kEnd };

  template <class... Args>
  [[noreturn]] void reject(fmt::format_string<Args...> why, Args&&... args) const {
    fail("{}{}", where_, fmt::format(why, std::forward<Args>(args)...));
  }
  template <class... Args>
  void check(bool condition, fmt::format_string<Args...> why, Args&&... args) const {
    if (!condition) reject(why, std::forward<Args>(args)...);
  }

  bool go(Place place) {
    place_ = place;
    offsets_ = 0;
    return true;
  }
  Entry& entry() { return header_.entries.back(); }

  void enter_field() {
    const auto* const field = std::find(std::begin(kFields), std::end(kFields), key_);
    if (field == std::end(kFields)) wrong_fields();
    bool& seen = fields_[static_cast<std::size_t>(field - std::begin(kFields))];
    check(!seen, "the header's names must be unique; got '{}' twice", key_);
    seen = true;
  }

  [[noreturn]] void wrong_fields() const {
    reject("a tensor must have dtype, shape and data_offsets, and nothing else; got '{}' without", name_);
  }

  bool misplaced() const {
    switch (place_) {
      case Place::kMetadata: reject("{} must map text to text; got something else for '{}'", kMetadataKey, key_);
      case Place::kShape: reject("the shape of '{}' must be made of integers from 0 to 2^63 - 1", name_);
      case Place::kOffsets: wrong_offsets();
      case Place::kTensor:
        if (key_ == "dtype") reject("the dtype of '{}' must be text", name_);
        if (key_ == "shape") reject("the shape of '{}' must be a list of at most {} extents", name_, kMaxRank);
        wrong_offsets();
      default: break;
    }
    check(name_ != kMetadataKey, "{} must be an object", kMetadataKey);
    wrong_fields();
  }

  [[noreturn]] void wrong_offsets() const { reject("data_offsets of '{}' must be two unsigned integers", name_); }

  void check_offsets() {
    if (offsets_ != 2) wrong_offsets();
    check(entry().begin <= entry().end && entry().end <= data_bytes_,
          "data_offsets of '{}' must lie in the file's {} bytes of data; got [{}, {}]; was it cut short?", name_,
          data_bytes_, entry().begin, entry().end);
  }

  void check_entry() {
    if (!std::all_of(fields_.begin(), fields_.end(), [](bool seen) { return seen; })) wrong_fields();
    // An extent of 0 leaves no bytes, but the other extents must still give valid strides.
    std::uint64_t bits = entry().format->bits, strides = 1;
    bool fits = true;
    for (const std::int64_t extent : entry().shape) {
      fits = fits && !__builtin_mul_overflow(bits, static_cast<std::uint64_t>(extent), &bits);
      fits = fits &&
             !__builtin_mul_overflow(strides, static_cast<std::uint64_t>(std::max<std::int64_t>(extent, 1)), &strides);
    }
    check(fits && strides <= INT64_MAX && bits % 8 == 0 && bits / 8 == entry().end - entry().begin,
          "data_offsets of '{}' must span its shape's bytes; got shape {}, [{}, {}]", name_, entry().shape,
          entry().begin, entry().end);
  }

  static constexpr std::string_view kFields[] = {"dtype", "shape", "data_offsets"};

  const std::string& where_;
  std::uint64_t data_bytes_;
  Header header_;
  Place place_ = Place::kStart;
  std::string name_, key_;
  bool has_metadata_ = false;
  std::array<bool, 3> fields_{};
  int offsets_ = 0;
};

std::string quoted(const std::string& text) {
  try {
    return Json(text).dump();
  } catch (const Json::exception& error) {
    fail("save_safetensors: names and metadata must be UTF-8 text; got {}", error.what());
  }
}

}  // namespace

const Format* find_format(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kFormats), std::end(kFormats), [&](const Format& format) { return format.name == name; });
  return found == std::end(kFormats) ? nullptr : found;
}

const Format* find_format(DType dtype) {
  const auto* const found =
      std::find_if(std::begin(kFormats), std::end(kFormats), [&](const Format& format) { return format.own == dtype; });
  return found == std::end(kFormats) ? nullptr : found;
}

std::string format_names() {
  std::string names;
  for (const Format& format : kFormats) names += (names.empty() ? "" : ", ") + std::string(format.name);
  return names;
}

std::optional<std::uint64_t> widen(const Format& format, const void* source, std::int64_t count, void* result) {
  std::optional<std::uint64_t> too_large;
  const auto same = [](auto value) { return value; };
  if (format.name == "F8_E4M3") {
    convert<std::uint8_t, float>(source, count, result, e4m3);
  } else if (format.name == "F8_E5M2") {
    convert<std::uint8_t, float>(source, count, result, e5m2);
  } else if (format.name == "F8_E8M0") {
    convert<std::uint8_t, float>(source, count, result, e8m0);
  } else if (format.name == "I8") {
    convert<std::int8_t, std::int32_t>(source, count, result, same);
  } else if (format.name == "I16") {
    convert<std::int16_t, std::int32_t>(source, count, result, same);
  } else if (format.name == "U16") {
    convert<std::uint16_t, std::int32_t>(source, count, result, same);
  } else if (format.name == "U32") {
    convert<std::uint32_t, std::int64_t>(source, count, result, same);
  } else {
    ADJOINT_ASSERT(format.name == "U64", "no dtype holds {}'s values", format.name);
    convert<std::uint64_t, std::int64_t>(source, count, result, [&](std::uint64_t value) {
      if (value > INT64_MAX) too_large = value;
      return static_cast<std::int64_t>(value);
    });
  }
  return too_large;
}

Header parse_header(const std::string& where, InputFile& file, std::uint64_t length, std::uint64_t data_bytes) {
  Characters characters(where, file, length);
  ADJOINT_CHECK(length > 0 && characters.peek() == '{', "{}the header must begin with '{{'", where);
  Parser parser(where, data_bytes);
  Json::sax_parse(Iterator{&characters}, Iterator{}, &parser);
  parser.check_whole();
  return parser.take();
}

std::string write_header(const Header& header) {
  std::string text = "{";
  const auto begin = [&](const std::string& name) {
    if (text.size() > 1) text += ',';
    text += quoted(name) + ":";
  };
  if (!header.metadata.empty()) {
    begin(kMetadataKey);
    char separator = '{';
    for (const auto& [key, value] : header.metadata) {
      text += separator + quoted(key) + ":" + quoted(value);
      separator = ',';
    }
    text += '}';
  }
  for (const Entry& entry : header.entries) {
    begin(entry.name);
    text += fmt::format(R"({{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", entry.format->name,
                        fmt::join(entry.shape, ","), entry.begin, entry.end);
  }
  return text + "}";
}

}  // namespace adjoint::nn::safetensors
