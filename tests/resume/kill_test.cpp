// A training that is killed at random places, and started again until it is done, ends with the bits of one that never
// stopped: 25 kills, or ADJOINT_KILLS of them.
#include <adjoint/core/base/device.h>
#include <adjoint/core/base/file.h>
#include <adjoint/core/tensor/random.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace adjoint::testing {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

class Kill : public ::testing::Test {
 protected:
  static constexpr std::int64_t kSteps = 300;

  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) / ("adjoint_kill_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  static pid_t start(const fs::path& folder, int workers, bool background, const std::string& where,
                     std::int64_t full_at = -1) {
    std::vector<std::string> texts{
        ADJOINT_RESUME_TRAINING, folder.string(), std::to_string(kSteps),  std::to_string(workers),
        background ? "1" : "0",  where,           std::to_string(full_at),
    };
    std::vector<char*> arguments;
    for (std::string& text : texts) arguments.push_back(text.data());
    arguments.push_back(nullptr);
    pid_t child = -1;
    EXPECT_EQ(::posix_spawn(&child, ADJOINT_RESUME_TRAINING, nullptr, nullptr, arguments.data(), environ), 0);
    return child;
  }
  static int status_of(pid_t child) {
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return status;
  }

  static std::set<std::string> names_in(const fs::path& folder) {
    std::set<std::string> names;
    std::error_code none;  // killed before the folder was made
    for (const auto& entry : fs::directory_iterator(folder, none)) names.insert(entry.path().filename().string());
    return names;
  }

  void expect_the_same_bits(const std::string& where) const {
    const char* wanted = std::getenv("ADJOINT_KILLS");
    const int kills = wanted == nullptr ? 25 : std::atoi(wanted);
    ASSERT_GT(kills, 0) << "ADJOINT_KILLS must be a number of kills";
    const auto started = Clock::now();
    const pid_t undisturbed = start(folder_ / "whole", 2, false, where);
    // Loading the libraries may take longer than training: the training has begun once its folder exists.
    while (!fs::exists(folder_ / "whole") && Clock::now() - started < Seconds(60)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    double begun = Seconds(Clock::now() - started).count();
    ASSERT_EQ(status_of(undisturbed), 0);
    const double whole = Seconds(Clock::now() - started).count();
    const auto expected = read_file("test", folder_ / "whole" / "final.safetensors");

    Generator random(static_cast<std::uint64_t>(kills));  // runs of other numbers kill at other places
    int killed = 0, within_a_save = 0, trainings = 0;
    std::set<std::string> places;
    while (killed < kills) {
      const fs::path folder = folder_ / "killed";
      const int before = killed;
      fs::remove_all(folder);
      for (bool done = false; !done;) {
        const auto workers = static_cast<int>(random.below(4));
        const bool background = random.below(2) == 1;
        const pid_t child = start(folder, workers, background, where);
        // The last ones end: otherwise a slow machine would never be done.
        if (killed < kills) {
          std::this_thread::sleep_for(Seconds(begun * 0.9 + (whole - begun) * 0.7 * random.uniform()));
          ASSERT_EQ(::kill(child, SIGKILL), 0);
        }
        const int status = status_of(child);
        done = WIFEXITED(status);
        if (done) {
          ASSERT_EQ(WEXITSTATUS(status), 0);
        } else {
          ASSERT_EQ(WTERMSIG(status), SIGKILL);
          ++killed;
          const std::set<std::string> left = names_in(folder);
          within_a_save +=
              std::any_of(left.begin(), left.end(), [](const auto& name) { return name.ends_with(".tmp"); });
          places.insert(left.begin(), left.end());
        }
      }
      ++trainings;
      if (killed == before) begun *= 0.9;  // the first start was slow: libraries were not in memory yet
      ASSERT_EQ(read_file("test", folder / "final.safetensors"), expected) << "after " << killed << " kills";
    }
    EXPECT_GT(places.size(), static_cast<std::size_t>(std::min(kills / 2, 20)));  // so the kills hit the training
    std::cout << killed << " kills of " << trainings << " trainings, " << within_a_save << " of them within a save\n";
  }

  fs::path folder_;
};

TEST_F(Kill, ChangesNoBit) { expect_the_same_bits("cpu"); }

TEST_F(Kill, ChangesNoBitCuda) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  expect_the_same_bits("cuda");
}

TEST_F(Kill, ChangesNoBitOfGraphsCuda) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  expect_the_same_bits("graph");
}

// The training ends with the error of the save at step 102; called again when there is room, it resumes from step 99.
TEST_F(Kill, AFullDiskChangesNoBit) {
  ASSERT_EQ(status_of(start(folder_ / "whole", 2, false, "cpu")), 0);
  const auto expected = read_file("test", folder_ / "whole" / "final.safetensors");
  for (const bool background : {false, true}) {
    SCOPED_TRACE(background);
    const fs::path folder = folder_ / (background ? "background" : "foreground");
    const int status = status_of(start(folder, 1, background, "cpu", 100));
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 1);
    EXPECT_TRUE(names_in(folder).contains("checkpoint-99.safetensors"));
    EXPECT_FALSE(names_in(folder).contains("checkpoint-102.safetensors"));
    ASSERT_EQ(status_of(start(folder, 0, background, "cpu")), 0);
    EXPECT_EQ(read_file("test", folder / "final.safetensors"), expected);
  }
}

}  // namespace
}  // namespace adjoint::testing
