// What the tests of super_resolution share: a folder of their own with pictures in it, and the program itself.
#pragma once

#include "synthetic.h"
#include "training.h"

#include <adjoint/data/image.h>
#include <adjoint/data/transforms.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

namespace super_resolution {

namespace fs = std::filesystem;
namespace data = adjoint::data;
using adjoint::Shape;
using adjoint::Tensor;

class SuperResolution : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) /
              (std::string("adjoint_sr_") + testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "pictures");
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// Made pictures of several sizes as files, some grey, some JPEG.
  fs::path write_pictures() const {
    for (int i = 0; i < 6; ++i) {
      const Tensor picture = synthetic_picture(100 + static_cast<std::uint64_t>(i), 40 + 3 * i, 61 - 2 * i);
      const fs::path path = folder_ / "pictures" / std::to_string(i);
      if (i % 3 == 0) data::write_jpeg(path.string() + ".jpg", picture);
      if (i % 3 == 1) data::write_png(path.string() + ".png", picture);
      if (i % 3 == 2) data::write_png(path.string() + ".png", data::to_channels(picture, data::Channels::kGrey));
    }
    return folder_ / "pictures";
  }

  TrainingOptions small_options() const {
    return {.images = write_pictures().string(),
            .steps = 14,
            .batch = 3,
            .patch = 8,
            .seed = 5,
            .model = {.features = 4, .layers = 1},
            .test_every = 4};
  }

  fs::path folder_;
};

/// Runs the program and returns its exit code; `output_` has what it said.
class SuperResolutionTool : public SuperResolution {
 protected:
  int run(const std::string& arguments) {
    const int status = std::system((command(arguments) + " 2>&1").c_str());
    read_output();
    return WEXITSTATUS(status);
  }
  /// Arguments of a training on small pictures.
  std::string quick(const fs::path& out, int steps, const std::string& more = "") const {
    return "train --images '" + write_pictures().string() +
           "' --batch 2 --patch 8 --features 4 --layers 1 --test-every 3 --steps " + std::to_string(steps) +
           " --out '" + out.string() + "' " + more;
  }

  /// Sends two interrupts, as a terminal's and a wrapper's, once the program has printed a step; `meanwhile` runs
  /// before.
  int run_interrupted(const std::string& arguments, int signal = SIGINT, const std::function<void()>& meanwhile = {}) {
    fs::remove(log());
    const std::string line = "exec " + command(arguments) + " 2>&1";  // not in the child, where nothing may allocate
    const pid_t child = fork();
    if (child == 0) {
      execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
      _exit(127);
    }
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    siginfo_t ended{};
    do {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      read_output();
      waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOHANG | WNOWAIT);
    } while (output_.find("step ") == std::string::npos && ended.si_pid == 0 && std::chrono::steady_clock::now() < end);
    if (meanwhile) meanwhile();
    kill(child, signal);
    kill(child, signal);
    int status = 0;
    waitpid(child, &status, 0);
    read_output();
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  fs::path log() const { return folder_ / "log"; }
  std::string command(const std::string& arguments) const {
    return "'" ADJOINT_SUPER_RESOLUTION "' " + arguments + " > '" + log().string() + "'";
  }
  void read_output() {
    std::ifstream file(log());
    output_.assign(std::istreambuf_iterator<char>(file), {});
  }
  std::int64_t lines() const { return std::count(output_.begin(), output_.end(), '\n'); }

  std::string output_;
};

}  // namespace super_resolution
