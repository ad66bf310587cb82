#include <adjoint/nn/checkpoint_files.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/base/file.h>
#include <adjoint/nn/safetensors_file.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <string_view>
#include <system_error>

namespace adjoint::nn::checkpoint_files {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "checkpoint-", kSuffix = ".safetensors";
constexpr const char *kVersionKey = "adjoint_checkpoint", *kStepKey = "step", *kSequenceKey = "sequence",
                     *kMetricKey = "metric";
constexpr const char* kVersion = "1";

template <class T>
bool parse_number(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

bool is_name(const std::string& name) {
  const std::string_view view = name;
  std::int64_t step = 0;
  return view.size() > kPrefix.size() + kSuffix.size() && view.starts_with(kPrefix) && view.ends_with(kSuffix) &&
         parse_number(view.substr(kPrefix.size(), view.size() - kPrefix.size() - kSuffix.size()), step) && step >= 0;
}

std::string text_at(const Metadata& metadata, const char* key) {
  const auto found = metadata.find(key);
  return found == metadata.end() ? "" : found->second;
}

}  // namespace

std::string name_of(std::int64_t step) { return fmt::format("{}{}{}", kPrefix, step, kSuffix); }

Metadata metadata_of(const CheckpointFile& file) {
  Metadata metadata{{kVersionKey, kVersion},
                    {kStepKey, std::to_string(file.step)},
                    {kSequenceKey, std::to_string(file.sequence)}};
  if (file.metric)
    metadata[kMetricKey] = fmt::format("{}", *file.metric);  // the shortest text that reads back as the same number
  return metadata;
}

CheckpointFile parse(const char* op, const fs::path& path, const Metadata& metadata) {
  const std::string version = text_at(metadata, kVersionKey);
  ADJOINT_CHECK(version == kVersion, "{}: '{}' must be a checkpoint of version {}; got {}", op, path.string(), kVersion,
                version.empty() ? "another safetensors file" : "version " + version);
  CheckpointFile file{.path = path};
  const auto number = [&](const char* key, auto& value) {
    const std::string text = text_at(metadata, key);
    ADJOINT_CHECK(parse_number(text, value) && !(value < 0 && key != kMetricKey),
                  "{}: '{}' must say its {} in its metadata; got '{}'", op, path.string(), key, text);
  };
  number(kStepKey, file.step);
  number(kSequenceKey, file.sequence);
  if (metadata.contains(kMetricKey)) number(kMetricKey, file.metric.emplace());
  return file;
}

Listing list(const fs::path& folder) {
  Listing listing;
  std::error_code error;
  const std::vector<std::string> names = names_in(folder, error);
  if (error == std::errc::no_such_file_or_directory) return listing;
  for (const std::string& name : names) {
    if (!is_name(name)) continue;
    const fs::path path = folder / name;
    try {
      listing.files.push_back(parse("Checkpoint", path, safetensors::read_metadata(path)));
    } catch (const OutOfMemoryError&) {
      throw;
    } catch (const Error& why) {
      listing.unreadable.emplace_back(why.what());
    }
  }
  ADJOINT_CHECK(!error, "Checkpoint: cannot list the folder '{}': {}", folder.string(), error.message());
  const auto newer = [](const CheckpointFile& a, const CheckpointFile& b) {
    return a.sequence != b.sequence ? a.sequence > b.sequence : a.step > b.step;
  };
  std::sort(listing.files.begin(), listing.files.end(), newer);
  std::sort(listing.unreadable.begin(), listing.unreadable.end());
  return listing;
}

std::vector<CheckpointFile> by_metric(std::vector<CheckpointFile> newest_first, bool maximize) {
  std::erase_if(newest_first, [](const CheckpointFile& file) { return !file.metric || std::isnan(*file.metric); });
  std::stable_sort(newest_first.begin(), newest_first.end(), [&](const CheckpointFile& a, const CheckpointFile& b) {
    return maximize ? *a.metric > *b.metric : *a.metric < *b.metric;
  });
  return newest_first;
}

void remove_others(const char* op, const fs::path& folder, const Keep& keep) {
  const std::vector<CheckpointFile> all = list(folder).files;
  std::set<fs::path> kept;
  const auto keep_first = [&](const std::vector<CheckpointFile>& files, std::int64_t count) {
    for (std::size_t i = 0; i < files.size() && static_cast<std::int64_t>(i) < count; ++i) kept.insert(files[i].path);
  };
  keep_first(all, keep.last);
  keep_first(by_metric(all, keep.maximize), keep.best);
  for (const CheckpointFile& file : all) {
    if (kept.contains(file.path)) continue;
    std::error_code error;
    fs::remove(file.path, error);
    ADJOINT_CHECK(!error, "{}: cannot remove '{}': {}", op, file.path.string(), error.message());
  }
}

}  // namespace adjoint::nn::checkpoint_files
