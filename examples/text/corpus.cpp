#include "corpus.h"

#include <adjoint/core/base/error.h>
#include <adjoint/core/base/file.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/ops/join/join.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <system_error>

namespace text {
namespace {

namespace fs = std::filesystem;
using adjoint::Tensor;

constexpr std::int64_t kHeldOutPart = 10;  // one of so many bytes
const std::vector<std::string> kHeldOutLicences{"Apache-2.0", "CC0-1.0"};

Tensor read_file(const fs::path& path) {
  const std::vector<std::uint8_t> bytes = adjoint::read_file("text", path);
  if (bytes.empty()) throw adjoint::Error(fmt::format("text: '{}' must hold text; got an empty file", path.string()));
  return Tensor::from_vector(bytes, {std::ssize(bytes)});
}

Tensor read_folder(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  constexpr auto kSkip = fs::directory_options::skip_permission_denied;
  for (fs::recursive_directory_iterator at(folder, kSkip, error), end; at != end; at.increment(error)) {
    std::error_code gone;
    if (at->symlink_status(gone).type() == fs::file_type::regular) paths.push_back(at->path());
  }
  if (error) throw adjoint::Error(fmt::format("text: cannot list '{}': {}", folder.string(), error.message()));
  std::sort(paths.begin(), paths.end());
  std::vector<Tensor> texts;
  for (const fs::path& path : paths) {
    try {
      texts.push_back(read_file(path));
    } catch (const adjoint::OutOfMemoryError&) {
      throw;
    } catch (const adjoint::Error& reason) {
      fmt::print(stderr, "text: passed over: {}\n", reason.what());
    }
  }
  if (texts.empty()) {
    throw adjoint::Error(
        fmt::format("text: '{}' must hold a file that can be read and is not empty; got none", folder.string()));
  }
  return adjoint::cat(texts);
}

Tensor read_one(const std::string& path) { return fs::is_directory(path) ? read_folder(path) : read_file(path); }

const std::uint8_t* begin(const Tensor& text) { return text.data<std::uint8_t>(); }
const std::uint8_t* end(const Tensor& text) { return begin(text) + text.numel(); }

}  // namespace

Tensor read_text(const std::vector<std::string>& paths) {
  std::vector<Tensor> texts;
  for (const std::string& path : paths) texts.push_back(read_one(path));
  if (texts.empty()) throw adjoint::Error("text: there must be a file or folder of text; got none");
  return adjoint::cat(texts);
}

Corpus Corpus::of(const std::vector<std::string>& paths, const std::string& tests) {
  if (!tests.empty()) return {read_text(paths), read_one(tests)};
  std::vector<Tensor> training, held_out;
  for (const std::string& path : paths) {
    const Tensor whole = read_one(path);
    const std::int64_t length = whole.numel(), held = length / kHeldOutPart;
    training.push_back(whole.narrow(0, 0, length - held));
    held_out.push_back(whole.narrow(0, length - held, held));
  }
  return {adjoint::cat(training), adjoint::cat(held_out)};
}

Corpus Corpus::licences(const fs::path& folder) {
  std::vector<std::string> training, held_out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const bool held =
        std::find(kHeldOutLicences.begin(), kHeldOutLicences.end(), entry.path().filename()) != kHeldOutLicences.end();
    if (!entry.is_symlink()) (held ? held_out : training).push_back(entry.path().string());
  }
  if (training.empty() || held_out.size() != kHeldOutLicences.size()) {
    throw adjoint::Error(
        fmt::format("text: '{}' must hold the licences that Debian's base-files installs, which are the default text; "
                    "name other text: text train FILE",
                    folder.string()));
  }
  std::sort(training.begin(), training.end());
  std::sort(held_out.begin(), held_out.end());
  return {read_text(training), read_text(held_out)};
}

std::uint64_t Corpus::fingerprint() const {
  std::uint64_t hash = 0xcbf29ce484222325U;
  const auto take = [&](std::uint64_t value) { hash = (hash ^ value) * 0x100000001b3U; };
  for (const Tensor& text : {training, held_out}) {
    take(static_cast<std::uint64_t>(text.numel()));
    std::for_each(begin(text), end(text), take);
  }
  return hash;
}

double order_0(const Tensor& training, const Tensor& text) {
  std::array<double, 256> counts;
  counts.fill(1.0);
  std::for_each(begin(training), end(training), [&](std::uint8_t byte) { counts[byte] += 1.0; });
  const double all = static_cast<double>(training.numel()) + 256.0;
  double bits = 0.0;
  std::for_each(begin(text), end(text), [&](std::uint8_t byte) { bits -= std::log2(counts[byte] / all); });
  return bits / static_cast<double>(text.numel());
}

adjoint::data::Example Windows::get(std::int64_t, adjoint::Generator& generator) const {
  const auto places = static_cast<std::uint64_t>(text_.numel() - bytes_ + 1);
  return {text_.narrow(0, static_cast<std::int64_t>(generator.below(places)), bytes_), {}};
}

}  // namespace text
