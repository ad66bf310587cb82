// Shared by the tests of example programs: a temporary folder, and running the program in it.
#pragma once

#include <adjoint/tests/support/sanitized.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

namespace examples {

/// The file of the program of that name.
std::string program_file(const std::string& name);

/// Runs a program and keeps its output in `output_`.
class ExampleTool : public testing::Test {
 protected:
  explicit ExampleTool(const std::string& program) : program_(program_file(program)) {
    if (adjoint::testing::kSanitized) setenv("EXAMPLES_TEST_PART", "16", 0);
  }
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(testing::TempDir()) /
              (std::string("adjoint_") + test->test_suite_name() + '_' + test->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// The exit code.
  int run(const std::string& arguments) {
    const int status = std::system((command(arguments) + " 2>&1").c_str());
    read_output();
    return WEXITSTATUS(status);
  }
  /// Interrupts the program after its first printed test, twice, as a terminal and a wrapper do, and returns its exit
  /// code; `meanwhile` runs before.
  int run_interrupted(const std::string& arguments, int signal = SIGINT, const std::function<void()>& meanwhile = {}) {
    std::filesystem::remove(log());
    const std::string line = "exec " + command(arguments) + " 2>&1";  // not in the child, which must not allocate
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
  std::int64_t lines() const { return std::count(output_.begin(), output_.end(), '\n'); }

  std::filesystem::path folder_;
  std::string output_;

 private:
  std::filesystem::path log() const { return folder_ / "log.txt"; }
  std::string command(const std::string& arguments) const {
    return "'" + program_ + "' " + arguments + " > '" + log().string() + "'";
  }
  void read_output() {
    std::ifstream file(log());
    output_.assign(std::istreambuf_iterator<char>(file), {});
  }

  std::string program_;
};

}  // namespace examples
