#include <adjoint/core/base/error.h>
#include <adjoint/core/base/file.h>

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace adjoint {
namespace {

namespace fs = std::filesystem;

class FileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) /
              (std::string("adjoint_file_") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
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
            "save: cannot create a file next to '" + missing + "': No such file or directory");
  EXPECT_EQ(message_of([&] { read_file("load", missing); }),
            "load: cannot open '" + missing + "': No such file or directory");
  EXPECT_EQ(message_of([&] { read_file("load", folder_); }),
            "load: '" + folder_.string() + "' must be a regular file; got a folder");
  std::ofstream(folder_ / "big") << "12345";
  EXPECT_EQ(message_of([&] { read_file("load", folder_ / "big", 4); }),
            "load: '" + (folder_ / "big").string() + "' must be at most 4 bytes; got 5");
}

void replace(const fs::path& path, std::string_view text) {
  AtomicFile file("save", path);
  file.write(text);
  file.commit();
}

unsigned mode_of(const fs::path& path) {
  struct stat status {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777;
}

TEST_F(FileTest, ALinkStaysAndWhatItLeadsToIsReplaced) {
  fs::create_directories(folder_ / "far" / "deep");
  fs::create_directories(folder_ / "links");
  const fs::path target = folder_ / "far" / "deep" / "a.bin";
  std::ofstream(target) << "old";
  fs::create_symlink("../far/deep/a.bin", folder_ / "links" / "relative");
  fs::create_symlink(target, folder_ / "links" / "absolute");
  fs::create_symlink("relative", folder_ / "links" / "twice");
  fs::create_directory_symlink("far", folder_ / "folder");  // a link on the way, as the path has it
  fs::create_symlink("../folder/deep/a.bin", folder_ / "links" / "through");
  const fs::path names[] = {folder_ / "links" / "relative", folder_ / "links" / "absolute", folder_ / "links" / "twice",
                            folder_ / "links" / "through", folder_ / "folder" / "deep" / "a.bin"};
  for (const fs::path& name : names) {
    const bool link = fs::is_symlink(name);
    replace(name, name.string());
    EXPECT_EQ(fs::is_symlink(name), link) << name;
    EXPECT_EQ(text_of(target), name.string());
    EXPECT_FALSE(fs::is_symlink(target));
  }
  EXPECT_TRUE(fs::is_symlink(folder_ / "folder"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "far" / "deep"), fs::directory_iterator()), 1);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "links"), fs::directory_iterator()), 4);
}

TEST_F(FileTest, ALinkToNothingMakesItsTarget) {
  fs::create_directories(folder_ / "far");
  fs::create_symlink("far/new.bin", folder_ / "link");
  replace(folder_ / "link", "text");
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(text_of(folder_ / "far" / "new.bin"), "text");
  fs::create_symlink("none/new.bin", folder_ / "lost");
  EXPECT_EQ(message_of([&] { AtomicFile("save", folder_ / "lost"); }),
            "save: cannot create a file next to '" + (folder_ / "lost").string() + "': No such file or directory");
  fs::create_symlink("loop", folder_ / "loop");
  EXPECT_EQ(message_of([&] { AtomicFile("save", folder_ / "loop"); }),
            "save: cannot write '" + (folder_ / "loop").string() + "': Too many levels of symbolic links");
  EXPECT_EQ(entries(), 4U);
}

TEST_F(FileTest, TheModeIsKept) {
  const fs::path path = folder_ / "a.bin";
  std::ofstream(path) << "old";
  for (const unsigned mode : {0640U, 0600U, 0755U, 0666U}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    replace(path, "new");
    EXPECT_EQ(mode_of(path), mode);
  }
  ASSERT_EQ(::chmod(path.c_str(), 0604), 0);
  fs::create_symlink("a.bin", folder_ / "link");
  {
    AtomicFile file("save", folder_ / "link");
    for (const auto& entry : fs::directory_iterator(folder_)) {  // not more open while it is written, either
      EXPECT_EQ(mode_of(entry.path()), 0604U) << entry.path();
    }
    file.write("new");
    file.commit();
  }
  EXPECT_EQ(mode_of(path), 0604U);
  const mode_t mask = ::umask(027);
  replace(folder_ / "b.bin", "new");
  ::umask(mask);
  EXPECT_EQ(mode_of(folder_ / "b.bin"), 0640U) << "a new file has the mode that any other would have";
}

TEST_F(FileTest, OwnerAndGroupAreKept) {
  const fs::path path = folder_ / "a.bin";
  std::ofstream(path) << "old";
  if (::chown(path.c_str(), 4321, 8765) != 0) GTEST_SKIP() << "only root may give files away";
  ASSERT_EQ(::chmod(path.c_str(), 0620), 0);
  replace(path, "new");
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, 4321U);
  EXPECT_EQ(status.st_gid, 8765U);
  EXPECT_EQ(status.st_mode & 07777, 0620U);
}

TEST_F(FileTest, WithoutTheGroupItsRightsAreEverybodys) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a file of a group that it is then not in";
  constexpr unsigned kNobody = 65534;
  const fs::path path = folder_ / "a.bin";
  std::ofstream(path) << "old";
  ASSERT_EQ(::chown(path.c_str(), kNobody, 8765), 0);
  ASSERT_EQ(::chmod(path.c_str(), 0664), 0);
  ASSERT_EQ(::chmod(folder_.c_str(), 0777), 0);
  if (::seteuid(kNobody) != 0) GTEST_SKIP() << "there is no other user here";
  const std::string message = message_of([&] { replace(path, "new"); });
  const std::string read_only = [&] {
    ::chmod(path.c_str(), 0444);
    return message_of([&] { AtomicFile("save", path); });
  }();
  ::chmod(path.c_str(), 0644);
  ASSERT_EQ(::seteuid(0), 0);
  EXPECT_EQ(message, "no error");
  EXPECT_EQ(read_only, "save: cannot write '" + path.string() + "': Permission denied");
  EXPECT_EQ(mode_of(path), 0644U);
}

TEST_F(FileTest, OnlyRegularFilesAreReplaced) {
  const fs::path fifo = folder_ / "fifo", local = folder_ / "socket", sub = folder_ / "sub";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  fs::create_directories(sub);
  fs::create_symlink("fifo", folder_ / "link");
  const Descriptor descriptor(::socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const auto refusal = [](const fs::path& path, const std::string& got) {
    EXPECT_EQ(message_of([&] { AtomicFile("save", path); }),
              "save: '" + path.string() + "' must be a regular file, or not be there; got " + got);
    EXPECT_EQ(message_of([&] { read_file("load", path); }),
              got == "a socket" ? "load: cannot open '" + path.string() + "': No such device or address"
                                : "load: '" + path.string() + "' must be a regular file; got " + got);
  };
  refusal(fifo, "a pipe");
  refusal(folder_ / "link", "a pipe");
  refusal(sub, "a folder");
  refusal(sub / ".", "a folder");
  refusal(folder_ / "sub/", "a folder");
  if (local.string().size() < sizeof(address.sun_path)) {
    local.string().copy(address.sun_path, sizeof(address.sun_path));
    ASSERT_EQ(::bind(descriptor.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    refusal(local, "a socket");
  }
  EXPECT_TRUE(fs::is_fifo(fifo));
  EXPECT_TRUE(fs::is_empty(sub));
}

TEST_F(FileTest, PathsThatNameNoFile) {
  EXPECT_EQ(message_of([&] { AtomicFile("save", ""); }), "save: the path must end in a file's name; got ''");
  EXPECT_EQ(message_of([&] { AtomicFile("save", folder_ / "none" / ""); }),
            "save: the path must end in a file's name; got '" + (folder_ / "none" / "").string() + "'");
  const std::string start = (folder_ / "a").string(), zero = start + '\0' + "b";
  EXPECT_EQ(message_of([&] { AtomicFile("save", zero); }), "save: a path must not hold a zero byte; got '" + start);
  EXPECT_EQ(message_of([&] { read_file("load", zero); }), "load: a path must not hold a zero byte; got '" + start);
  EXPECT_EQ(entries(), 0U);
}

TEST_F(FileTest, NamesOfEveryLegalLength) {
  for (const std::size_t length : {1U, 200U, 250U, 255U}) {
    const fs::path path = folder_ / std::string(length, 'n');
    replace(path, "text");
    EXPECT_EQ(text_of(path), "text") << length;
  }
  EXPECT_EQ(entries(), 4U);
  const fs::path path = folder_ / std::string(256, 'n');
  EXPECT_EQ(message_of([&] { AtomicFile("save", path); }),
            "save: cannot write '" + path.string() + "': File name too long");
}

TEST_F(FileTest, TheFileLandsWhereItWasNamed) {
  const fs::path before = fs::current_path();
  fs::create_directories(folder_ / "here");
  fs::create_directories(folder_ / "there");
  fs::current_path(folder_ / "here");
  {
    AtomicFile file("save", "a.bin");
    file.write("text");
    fs::current_path(folder_ / "there");
    file.commit();
  }
  fs::current_path(before);
  EXPECT_EQ(text_of(folder_ / "here" / "a.bin"), "text");
  EXPECT_TRUE(fs::is_empty(folder_ / "there"));
}

TEST_F(FileTest, WhatAnEarlierProcessLeftIsInNobodysWay) {
  std::ofstream(folder_ / "probe") << "";
  std::string name;
  {
    const AtomicFile file("save", folder_ / "a.bin");
    for (const auto& entry : fs::directory_iterator(folder_)) {
      if (entry.path().extension() == ".tmp") name = entry.path().filename().string();
    }
  }
  const std::size_t dash = name.rfind('-');
  ASSERT_NE(dash, std::string::npos) << name;
  const int next = std::stoi(name.substr(dash + 1)) + 1;
  for (int i = 0; i < 3; ++i)
    std::ofstream(folder_ / (name.substr(0, dash + 1) + std::to_string(next + i) + ".tmp")) << i;
  replace(folder_ / "a.bin", "text");
  EXPECT_EQ(text_of(folder_ / "a.bin"), "text");
  EXPECT_EQ(entries(), 5U);
}

TEST_F(FileTest, LeftoversGoAndWritersStay) {
  const fs::path left = folder_ / "adjoint-12-0.tmp", other = folder_ / "mine.tmp", target = folder_ / "target";
  for (const fs::path& path : {left, other}) std::ofstream(path) << "old";
  AtomicFile writer("test", target);
  writer.write("new");
  AtomicFile::remove_leftovers(folder_);
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists(other));
  writer.commit();
  EXPECT_EQ(text_of(target), "new");
  AtomicFile::remove_leftovers(folder_ / "none");
}

TEST_F(FileTest, FoldersAreMadeWithThoseAboveThem) {
  create_folders("test", folder_ / "a" / "b" / "c/");
  EXPECT_TRUE(fs::is_directory(folder_ / "a" / "b" / "c"));
  create_folders("test", folder_ / "a" / "b");
  fs::create_directory_symlink("a", folder_ / "link");
  create_folders("test", folder_ / "link" / "d");
  EXPECT_TRUE(fs::is_directory(folder_ / "a" / "d"));
  std::ofstream(folder_ / "file") << "x";
  const std::string file = (folder_ / "file").string();
  EXPECT_EQ(message_of([&] { create_folders("save", file); }),
            "save: cannot create the folder '" + file + "': File exists");
  EXPECT_EQ(message_of([&] { create_folders("save", file + "/a"); }),
            "save: cannot create the folder '" + file + "': File exists");
}

TEST_F(FileTest, AnInputFileIsReadInParts) {
  std::ofstream(folder_ / "a") << "0123456789";
  InputFile file("load", folder_ / "a");
  EXPECT_EQ(file.size(), 10U);
  fs::remove(folder_ / "a");
  std::ofstream(folder_ / "a") << "another";
  char text[8];
  EXPECT_EQ(file.read(text, 8), 8U);
  EXPECT_EQ(std::string(text, 8), "01234567");
  EXPECT_EQ(file.read(text, 8), 2U);
  EXPECT_EQ(std::string(text, 2), "89");
}

}  // namespace
}  // namespace adjoint
