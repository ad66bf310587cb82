// As in safetensors_format.cpp, JSON is parsed event by event.
#include <adjoint/nn/safetensors_index.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/base/file.h>
#include <adjoint/nn/safetensors_format.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace adjoint::nn::safetensors {
namespace {

using Json = nlohmann::json;

// Receives the events of an index. Everything except the weight_map is skipped.
class IndexParser : public nlohmann::json_sax<Json> {
 public:
  explicit IndexParser(const std::string& where) : where_(where) {}

  Index take() {
    check(has_map_, "an index must have a weight_map");
    return std::move(index_);
  }

  bool start_object(std::size_t) override { return enter(true); }
  bool start_array(std::size_t) override { return enter(false); }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }
  bool key(std::string& text) override {
    if (depth_ == 1) in_map_ = text == "weight_map";
    key_.swap(text);
    return true;
  }
  bool string(std::string& text) override {
    if (!in_map_) return value();
    check(depth_ == 2, "the weight_map must be an object");
    check(!text.empty() && text != "." && text != ".." && text.find_first_of(std::string_view("/\0", 2)) == text.npos,
          "a file of the weight_map must be the name of one in the index's folder; got '{}' for '{}'", text, key_);
    check(names_.insert(key_).second, "the weight_map's names must be unique; got '{}' twice", key_);
    check(names_.size() <= kMaxEntries, "the weight_map must name at most {} tensors", kMaxEntries);
    index_[text].insert(key_);
    return true;
  }

  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(std::int64_t) override { return value(); }
  bool number_unsigned(std::uint64_t) override { return value(); }
  bool number_float(double, const std::string&) override { return value(); }
  bool binary(Json::binary_t&) override { return value(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) override {
    constexpr std::size_t kShown = 300;  // the message quotes the last token, however long
    fail("{}an index must be JSON; got {}", where_, std::string_view(error.what()).substr(0, kShown));
  }

 private:
  template <class... Args>
  void check(bool condition, fmt::format_string<Args...> why, Args&&... args) const {
    if (!condition) fail("{}{}", where_, fmt::format(why, std::forward<Args>(args)...));
  }

  bool enter(bool object) {
    check(depth_ > 0 || object, "an index must be a JSON object");
    if (in_map_) {
      check(object && depth_ == 1, "the weight_map must map text to text; got something else for '{}'", key_);
      check(!has_map_, "an index must have one weight_map; got two");
      has_map_ = true;
    }
    ++depth_;
    return true;
  }
  bool leave() {
    if (--depth_ == 1) in_map_ = false;
    return true;
  }
  bool value() const {
    check(depth_ > 0, "an index must be a JSON object");
    check(!in_map_, "the weight_map must map text to text; got something else for '{}'", key_);
    return true;
  }

  const std::string& where_;
  Index index_;
  std::set<std::string> names_;
  std::string key_;
  std::int64_t depth_ = 0;
  bool in_map_ = false, has_map_ = false;
};

}  // namespace

Index read_index(const std::filesystem::path& path) {
  const std::string where = fmt::format("load_safetensors: '{}': ", path.string());
  const std::vector<std::uint8_t> text = read_file("load_safetensors", path, kMaxHeaderBytes);
  const bool has_zero = std::find(text.begin(), text.end(), 0) != text.end();  // nlohmann treats it as the end
  ADJOINT_CHECK(!has_zero, "{}an index must be JSON; got a zero byte", where);
  IndexParser parser(where);
  Json::sax_parse(text.begin(), text.end(), &parser);
  return parser.take();
}

}  // namespace adjoint::nn::safetensors
