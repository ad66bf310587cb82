// Folders of pictures with surprises: links, loops, unreadable files.
#include <adjoint/data/dataset.h>
#include <adjoint/tests/data/image_files.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

namespace adjoint::data {
namespace {

namespace fs = std::filesystem;

class ListImagesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) /
              (std::string("adjoint_list_") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
    remove();
    fs::create_directories(folder_);
  }
  void TearDown() override { remove(); }

  void picture(const fs::path& name) const {
    const Bytes& file = fixture("png_grey_8").file;
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(file.data()), static_cast<std::streamsize>(file.size()));
  }

  /// The files found below the folder, by names relative to it.
  std::vector<std::string> listed() {
    std::vector<std::string> names;
    passed_over_.clear();
    for (const fs::path& path : list_images(folder_, &passed_over_)) names.push_back(relative(path));
    return names;
  }
  /// "name: reason" for each file that listed() skipped.
  std::vector<std::string> passed_over() const {
    std::vector<std::string> names;
    for (const PassedOver& one : passed_over_) names.push_back(relative(one.path) + ": " + one.reason);
    return names;
  }
  std::string relative(const fs::path& path) const { return path.string().substr(folder_.string().size() + 1); }

  fs::path folder_;
  std::vector<PassedOver> passed_over_;

 private:
  void remove() const {
    if (!fs::exists(folder_)) return;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      if (fs::is_directory(entry.symlink_status())) fs::permissions(entry.path(), fs::perms::owner_all);
    }
    fs::remove_all(folder_);
  }
};

using Names = std::vector<std::string>;

TEST_F(ListImagesTest, LinksThatLeadNowhereArePassedOverByName) {
  picture("a.png");
  picture("sub/b.png");
  fs::create_symlink("itself", folder_ / "itself");
  fs::create_symlink("there", folder_ / "here");
  fs::create_symlink("here", folder_ / "there");
  fs::create_symlink("nothing", folder_ / "sub" / "gone.png");
  EXPECT_EQ(listed(), (Names{"a.png", "sub/b.png"}));
  EXPECT_EQ(passed_over(),
            (Names{"here: Too many levels of symbolic links", "itself: Too many levels of symbolic links",
                   "sub/gone.png: No such file or directory", "there: Too many levels of symbolic links"}));
  EXPECT_EQ(list_images(folder_).size(), 2U);
  const ImageFolder images(folder_);
  EXPECT_EQ(images.size(), 2);
  EXPECT_EQ(images.passed_over().size(), 4U);
}

TEST_F(ListImagesTest, LinkedFoldersAreLookedIntoOnce) {
  picture("top/a.png");
  picture("top/real/b.png");
  picture("outside/c.png");
  picture("outside/deep/d.png");
  const fs::path all = folder_;
  fs::create_directory_symlink("real", all / "top" / "alias");      // sorts before its target
  fs::create_directory_symlink("..", all / "top" / "real" / "up");  // a loop
  fs::create_directory_symlink("../outside", all / "top" / "out");  // out of the folder
  fs::create_directory_symlink("../outside/deep", all / "top" / "zdeep");
  fs::create_directory_symlink(all / "top", all / "outside" / "back");  // and back
  fs::create_symlink("a.png", all / "top" / "same.png");                // a file by another name is another file
  folder_ = all / "top";
  EXPECT_EQ(listed(), (Names{"a.png", "out/c.png", "out/deep/d.png", "real/b.png", "same.png"}));
  EXPECT_EQ(passed_over(), Names{});
  fs::create_directory_symlink("top", all / "link");
  folder_ = all / "link";
  EXPECT_EQ(listed().size(), 5U);
  folder_ = all;
  EXPECT_EQ(listed(), (Names{"outside/c.png", "outside/deep/d.png", "top/a.png", "top/real/b.png", "top/same.png"}));
}

TEST_F(ListImagesTest, WhatIsNoFileIsNotOpened) {
  picture("a.png");
  ASSERT_EQ(::mkfifo((folder_ / "pipe.png").c_str(), 0600), 0);
  fs::create_symlink("pipe.png", folder_ / "link.png");
  EXPECT_EQ(listed(), Names{"a.png"});
  EXPECT_EQ(passed_over(), Names{});
}

TEST_F(ListImagesTest, WhatIsNamedAsAPictureAndIsNoneIsPassedOverByName) {
  picture("a.png");
  picture("picture");
  std::ofstream(folder_ / "empty.png") << "";
  std::ofstream(folder_ / "page.JPEG") << "<html>";
  std::ofstream(folder_ / "notes.txt") << "";
  EXPECT_EQ(listed(), (Names{"a.png", "picture"}));
  EXPECT_EQ(passed_over(), (Names{"empty.png: an empty file", "page.JPEG: neither a PNG nor a JPEG file"}));
}

TEST_F(ListImagesTest, WhatMayNotBeReadIsPassedOverByName) {
  picture("a.png");
  picture("closed/b.png");
  picture("open/secret.png");
  picture("listed/c.png");
  fs::permissions(folder_ / "closed", fs::perms::none);
  fs::permissions(folder_ / "listed", fs::perms::owner_read | fs::perms::group_read |
                                          fs::perms::others_read);  // names, but not the kinds of files
  fs::permissions(folder_ / "open" / "secret.png", fs::perms::none);
  const bool root = ::geteuid() == 0;  // who may read everything
  if (root && ::seteuid(65534) != 0) GTEST_SKIP() << "there is no other user here";
  const Names names = listed();
  const std::string top = [&] {
    try {
      list_images(folder_ / "closed");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  }();
  ASSERT_EQ(root ? ::seteuid(0) : 0, 0);
  EXPECT_EQ(names, Names{"a.png"});
  EXPECT_EQ(passed_over(), (Names{"closed: Permission denied", "listed/c.png: Permission denied",
                                  "open/secret.png: Permission denied"}));
  EXPECT_EQ(top, "list_images: cannot list '" + (folder_ / "closed").string() + "': Permission denied");
}

TEST_F(ListImagesTest, AFolderWithoutPicturesTellsWhatWasPassedOver) {
  fs::create_symlink("itself", folder_ / "itself");
  EXPECT_EQ(message_of([&] { ImageFolder images(folder_); }),
            "ImageFolder: '" + folder_.string() +
                "' must hold at least one PNG or JPEG file; got none, and passed over '" +
                (folder_ / "itself").string() + "': Too many levels of symbolic links");
  EXPECT_EQ(message_of([&] { list_images(""); }), "list_images: '' must be a folder");
  EXPECT_EQ(message_of([&] { list_images(folder_ / "itself"); }),
            "list_images: '" + (folder_ / "itself").string() + "' must be a folder");
}

}  // namespace
}  // namespace adjoint::data
