// Lists and reads folders of pictures.
#include <adjoint/data/dataset.h>

#include <adjoint/core/autograd/op_scope.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/base/file.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace adjoint::data {
namespace {

namespace fs = std::filesystem;

std::string error_text(int number) { return std::generic_category().message(number); }

bool named_as_picture(const fs::path& path) {
  std::string extension = path.extension().string();
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return extension == ".png" || extension == ".jpg" || extension == ".jpeg";
}

/// A folder and everything below it. Folders behind links are visited last, so that pictures use their own paths if
/// they have one below the top; each folder is visited once, under one of its names.
class FolderWalk {
 public:
  explicit FolderWalk(const fs::path& top) {
    look_into(top);
    while (!folders_.empty() || !links_.empty()) {
      fs::path next;
      if (folders_.empty()) {
        next = std::move(links_.extract(links_.begin()).value());
      } else {
        next = std::move(folders_.back());
        folders_.pop_back();
      }
      look_into(next);
    }
    std::sort(pictures.begin(), pictures.end(),
              [](const fs::path& a, const fs::path& b) { return a.native() < b.native(); });
    std::sort(passed_over.begin(), passed_over.end(),
              [](const PassedOver& a, const PassedOver& b) { return a.path.native() < b.path.native(); });
  }

  std::vector<fs::path> pictures;
  std::vector<PassedOver> passed_over;

 private:
  void look_into(const fs::path& folder) {
    struct stat status {};
    if (::stat(folder.c_str(), &status) != 0) return pass_over(folder, error_text(errno));
    if (!seen_.emplace(status.st_dev, status.st_ino).second) return;
    std::error_code error;
    for (const std::string& name : names_in(folder, error)) look_at(folder / name);
    if (error) pass_over(folder, error.message());
  }

  void look_at(const fs::path& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) return pass_over(path, error_text(errno));
    if (S_ISDIR(status.st_mode)) {
      if (std::error_code error; fs::is_symlink(path, error)) {
        links_.insert(path);
      } else {
        folders_.push_back(path);
      }
    } else if (S_ISREG(status.st_mode)) {
      look_at_file(path);
    }
  }

  void look_at_file(const fs::path& path) {
    // Non-blocking, in case a pipe has replaced the file.
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    std::array<std::uint8_t, 8> first{};
    const ssize_t count = file.is_open() ? ::read(file.get(), first.data(), first.size()) : -1;
    if (count < 0) return pass_over(path, error_text(errno));
    if (image_format({first.data(), static_cast<std::size_t>(count)}))
      pictures.push_back(path);
    else if (named_as_picture(path))
      pass_over(path, count == 0 ? "an empty file" : "neither a PNG nor a JPEG file");
  }

  void pass_over(const fs::path& path, std::string reason) { passed_over.push_back({path, std::move(reason)}); }

  std::set<std::pair<dev_t, ino_t>> seen_;
  std::vector<fs::path> folders_;
  std::set<fs::path> links_;
};

}  // namespace

Dataset::~Dataset() = default;

Example Dataset::operator[](std::int64_t index) const {
  const std::int64_t count = size(), at = index < 0 ? index + count : index;
  ADJOINT_CHECK(at >= 0 && at < count, "Dataset: an index must lie in [{}, {}); got {}", -count, count, index);
  return get(at, default_generator());
}

std::vector<fs::path> list_images(const fs::path& folder, std::vector<PassedOver>* passed_over) {
  std::error_code error;
  ADJOINT_CHECK(fs::is_directory(folder, error), "list_images: '{}' must be a folder", folder.string());
  names_in(folder, error);
  ADJOINT_CHECK(!error, "list_images: cannot list '{}': {}", folder.string(), error.message());
  FolderWalk walk(folder);
  if (passed_over != nullptr) *passed_over = std::move(walk.passed_over);
  return std::move(walk.pictures);
}

ImageFolder::ImageFolder(const fs::path& folder, ImageFolderOptions options) : options_(std::move(options)) {
  const OpScope scope("ImageFolder");
  paths_ = list_images(folder, &passed_over_);
  const auto unread = [&] {
    return passed_over_.empty()
               ? std::string()
               : fmt::format(", and passed over '{}': {}", passed_over_[0].path.string(), passed_over_[0].reason);
  };
  ADJOINT_CHECK(!paths_.empty(), "ImageFolder: '{}' must hold at least one PNG or JPEG file; got none{}",
                folder.string(), unread());
}

Example ImageFolder::get(std::int64_t index, Generator& generator) const {
  ADJOINT_CHECK(index >= 0 && index < size(), "ImageFolder: index must be from 0 to {}; got {}", size() - 1, index);
  ReadImageOptions read = options_.read;
  if (options_.window) {
    read.window = [&](std::int64_t height, std::int64_t width) { return options_.window(height, width, generator); };
  }
  const Tensor image = read_image(paths_[static_cast<std::size_t>(index)], read);
  return options_.transform ? options_.transform(image, generator) : Example{image, {}};
}

}  // namespace adjoint::data
