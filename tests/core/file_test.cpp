#include <adjoint/core/error.h>
#include <adjoint/core/file.h>

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace adjoint {
namespace {

namespace fs = std::filesystem;

class FileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) /
              (std::string("adjoint_file_") + testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  static std::string text_of(const fs::path& path) {
    const auto bytes = read_file("test", path);
    return {bytes.begin(), bytes.end()};
  }
  std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  fs::path folder_;
};

std::string message_of(const auto& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST_F(FileTest, CommitReplacesTheFileAndLeavesNothingElse) {
  const fs::path path = folder_ / "a.bin";
  std::ofstream(path) << "old";
  {
    AtomicFile file("test", path);
    file.write("new ");
    EXPECT_EQ(text_of(path), "old");
    file.write("text");
    file.commit();
  }
  EXPECT_EQ(text_of(path), "new text");
  EXPECT_EQ(entries(), 1U);
  EXPECT_NE(fs::status(path).permissions() & fs::perms::owner_write, fs::perms::none);
}

TEST_F(FileTest, WithoutCommitTheOldFileStays) {
  const fs::path path = folder_ / "a.bin";
  std::ofstream(path) << "old";
  { AtomicFile("test", path).write("half"); }
  EXPECT_EQ(text_of(path), "old");
  EXPECT_EQ(entries(), 1U);
}

TEST_F(FileTest, ErrorsNameOperationPathAndCause) {
  const std::string missing = (folder_ / "none" / "a.bin").string();
  EXPECT_EQ(message_of([&] { AtomicFile("save", missing); }),
            "save: cannot create a file beside '" + missing + "': No such file or directory");
  EXPECT_EQ(message_of([&] { read_file("load", missing); }),
            "load: cannot open '" + missing + "': No such file or directory");
  EXPECT_EQ(message_of([&] { read_file("load", folder_); }),
            "load: '" + folder_.string() + "' must be a regular file; got a folder");
  std::ofstream(folder_ / "big") << "12345";
  EXPECT_EQ(message_of([&] { read_file("load", folder_ / "big", 4); }),
            "load: '" + (folder_ / "big").string() + "' must be at most 4 bytes; got 5");
}

}  // namespace
}  // namespace adjoint
