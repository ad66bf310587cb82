// Checkpoint on full disks, in read-only folders, and beside files that a killed training left.
#include <adjoint/core/tensor/factories.h>
#include <adjoint/tests/nn/checkpoint_fixture.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/full_disk.h>

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <string>

#include <unistd.h>

namespace adjoint::nn {
namespace {

using adjoint::testing::FullDisk;

class CheckpointFaults : public CheckpointTest {};

TEST_F(CheckpointFaults, AFullDiskLeavesTheOlderFiles) {
  Tensor tensor = Tensor::zeros({1000});
  for (const bool background : {false, true}) {
    SCOPED_TRACE(background);
    Checkpoint checkpoint(folder_, options({.keep_last = 1, .background = background}));
    checkpoint.add("tensor", tensor);
    checkpoint.save(1);
    checkpoint.wait();
    {
      const FullDisk full(2000);
      const auto fails = [&] {
        checkpoint.save(2);
        checkpoint.wait();
      };
      EXPECT_ERROR(fails(), "Checkpoint::save: cannot write '", "checkpoint-2.safetensors': File too large");
      EXPECT_EQ(names(), std::set<std::string>{"checkpoint-1.safetensors"});
      if (background) {
        checkpoint.save(2);
        EXPECT_ERROR(checkpoint.save(3), "checkpoint-2.safetensors': File too large");
        checkpoint.wait();  // the error was reported
        checkpoint.save(4);
        EXPECT_ERROR(checkpoint.wait(), "checkpoint-4.safetensors'");
      }
    }
    checkpoint.save(5);
    checkpoint.wait();
    EXPECT_EQ(names(), std::set<std::string>{"checkpoint-5.safetensors"});
    EXPECT_EQ(checkpoint.resume(), 5);
    fs::remove_all(folder_);
  }
}

// While it lives, file permissions apply to the process, as they do not for root.
class Unprivileged {
 public:
  Unprivileged() { change(before_ == 0 ? 65534 : before_); }
  ~Unprivileged() { change(before_); }
  Unprivileged(const Unprivileged&) = delete;
  Unprivileged& operator=(const Unprivileged&) = delete;

 private:
  static void change(uid_t user) { EXPECT_EQ(::seteuid(user), 0); }
  uid_t before_ = ::geteuid();
};

TEST_F(CheckpointFaults, AFolderThatCannotBeWrittenIsNamed) {
  fs::create_directories(folder_);
  std::ofstream(folder_ / "file") << "x";
  int number = 0;
  Checkpoint below(folder_ / "file" / "runs", options());
  below.add("number", number);
  EXPECT_ERROR(below.save(1), "Checkpoint::save: cannot create the folder '", "/file");
  Checkpoint checkpoint(folder_, options());
  checkpoint.add("number", number);
  checkpoint.save(1);
  fs::permissions(folder_, static_cast<fs::perms>(0555));
  const Unprivileged user;
  EXPECT_ERROR(checkpoint.save(2), "Checkpoint::save: cannot create a file next to '", "checkpoint-2.safetensors'");
  number = 7;
  EXPECT_EQ(checkpoint.resume(), 1);
  EXPECT_EQ(number, 0);
}

TEST_F(CheckpointFaults, AnErrorThatNobodyAskedForIsAMessage) {
  fs::create_directories(folder_);
  std::ofstream(folder_ / "file") << "x";
  {
    int number = 0;
    Checkpoint checkpoint(folder_ / "file", options({.background = true}));
    checkpoint.add("number", number);
    checkpoint.save(1);
  }
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_NE(warnings_[0].find("Checkpoint"), std::string::npos) << warnings_[0];
  EXPECT_NE(warnings_[0].find("/file"), std::string::npos) << warnings_[0];
}

TEST_F(CheckpointFaults, WhatAKilledTrainingLeftIsRemoved) {
  fs::create_directories(folder_);
  std::ofstream(folder_ / "adjoint-1-0.tmp") << "half a checkpoint";
  int number = 0;
  Checkpoint checkpoint(folder_, options());
  checkpoint.add("number", number);
  EXPECT_EQ(checkpoint.resume(), std::nullopt);
  checkpoint.save(1);
  EXPECT_EQ(names(), std::set<std::string>{"checkpoint-1.safetensors"});
}

}  // namespace
}  // namespace adjoint::nn
