// Checkpoints after a power cut: of everything that one may leave on the disk, the last step that was saved, or a later
// one, can be loaded.
#include <adjoint/core/base/error.h>
#include <adjoint/nn/checkpoint.h>
#include <adjoint/tests/resume/disk_log.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <unistd.h>

namespace adjoint::testing {
namespace {

namespace fs = std::filesystem;

class PowerCut : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::canonical(::testing::TempDir()) / ("adjoint_power_cut_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "watched");
  }
  void TearDown() override { fs::remove_all(folder_); }

  // A training that saves six times, two of them under a step's old name.
  DiskEvents training(const nn::CheckpointOptions& options) const {
    DiskLog log(folder_ / "watched");
    nn::Checkpoint checkpoint(folder_ / "watched" / "runs" / "1", options);
    std::int64_t step = 0;
    Tensor tensor = Tensor::zeros({5});
    checkpoint.add("step", step);
    checkpoint.add("tensor", tensor);
    std::int64_t order = 0;  // distinguishes states kept under the same name
    checkpoint.add("order", order);
    for (const std::int64_t at : {10, 20, 30, 30, 20, 40}) {
      step = at;
      tensor.fill_(static_cast<double>(++order));
      checkpoint.save(step, {.metric = static_cast<double>(at % 3)});
      checkpoint.wait();
      log.mark(order);
    }
    return log.events();
  }

  struct Outcome {
    std::int64_t states = 0;
    std::int64_t lost = 0;     // a step that was promised, or all
    std::int64_t refused = 0;  // resume() threw
    std::int64_t warned = 0;   // a damaged file had a checkpoint's name
    std::int64_t wrong = 0;    // other values than were saved together
    std::int64_t stuck = 0;    // the training could not continue
  };

  Outcome outcome_of(const DiskEvents& events) const {
    Outcome all;
    each_state_after_a_power_cut(events, [&](const DiskState& state, std::int64_t promised) {
      ++all.states;
      const fs::path disk = folder_ / "disk";
      state.write(disk);
      bool warned = false;
      nn::Checkpoint checkpoint(disk / "runs" / "1", {.warn = [&](const std::string&) { warned = true; }});
      std::int64_t step = 0, order = 0;
      Tensor tensor = Tensor::zeros({5});
      checkpoint.add("step", step);
      checkpoint.add("tensor", tensor);
      checkpoint.add("order", order);
      std::optional<std::int64_t> resumed;
      try {
        resumed = checkpoint.resume();
      } catch (const Error&) {
        ++all.refused;
      }
      all.lost += order < promised ? 1 : 0;
      all.warned += warned ? 1 : 0;
      const std::vector<double> values = tensor.to_vector<double>();
      all.wrong += std::all_of(values.begin(), values.end(),
                               [&](double value) { return value == static_cast<double>(order); }) &&
                           resumed.value_or(0) == step
                       ? 0
                       : 1;
      step = 50;
      order = 7;
      checkpoint.save(step);
      order = 0;
      all.stuck += checkpoint.resume() == 50 && order == 7 ? 0 : 1;
    });
    return all;
  }

  fs::path folder_;
};

// The events up to a mark, without one kind. Unflushed events make many states, so there must not be many of them.
DiskEvents without(DiskEvent::Kind kind, DiskEvents events, std::int64_t last_mark) {
  const auto last =
      std::find_if(events.begin(), events.end(), [&](const DiskEvent& event) { return event.mark == last_mark; });
  events.erase(last + 1, events.end());
  std::erase_if(events, [&](const DiskEvent& event) { return event.kind == kind; });
  return events;
}

TEST_F(PowerCut, LosesNothingThatWasSaved) {
  for (const bool background : {false, true}) {
    SCOPED_TRACE(background);
    TearDown();
    SetUp();
    const DiskEvents events = training({.keep_last = 1, .keep_best = 1, .background = background});
    const auto count = [&](DiskEvent::Kind kind) {
      return std::count_if(events.begin(), events.end(), [&](const DiskEvent& event) { return event.kind == kind; });
    };
    EXPECT_EQ(count(DiskEvent::kMakeFolder), 2);
    EXPECT_EQ(count(DiskEvent::kCreate), 6);
    EXPECT_EQ(count(DiskEvent::kRename), 6);
    EXPECT_EQ(count(DiskEvent::kFlush), 6);
    EXPECT_EQ(count(DiskEvent::kFlushFolder), 8);
    EXPECT_GT(count(DiskEvent::kUnlink), 0);
    const Outcome outcome = outcome_of(events);
    EXPECT_GT(outcome.states, 300);
    EXPECT_EQ(outcome.lost, 0);
    EXPECT_EQ(outcome.refused, 0);
    EXPECT_EQ(outcome.warned, 0);
    EXPECT_EQ(outcome.wrong, 0);
    EXPECT_EQ(outcome.stuck, 0);
    RecordProperty("states", static_cast<int>(outcome.states));
  }
}

// The trial detects such faults: on a disk that does not flush, steps are lost, and files are damaged. Loaded values
// are still ones that were saved together.
TEST_F(PowerCut, OnADiskThatDoesNotFlushIsFound) {
  const Outcome files = outcome_of(without(DiskEvent::kFlush, training({.keep_last = 2}), 2));
  EXPECT_GT(files.lost, 0);
  EXPECT_GT(files.warned, 0);
  EXPECT_EQ(files.wrong, 0);
  EXPECT_EQ(files.stuck, 0);
}

TEST_F(PowerCut, OnADiskThatDoesNotFlushFoldersIsFound) {
  const Outcome folders = outcome_of(without(DiskEvent::kFlushFolder, training({.keep_last = 2}), 2));
  EXPECT_GT(folders.lost, 0);
  EXPECT_EQ(folders.wrong, 0);
  EXPECT_EQ(folders.stuck, 0);
}

}  // namespace
}  // namespace adjoint::testing
