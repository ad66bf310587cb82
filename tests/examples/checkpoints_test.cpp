// The loop's checkpoints, which a thread writes during the steps: failures are reported, and nothing is lost.
#include "example_tool.h"
#include "resumed_training.h"

#include "common/training.h"

#include <adjoint/core/base/error.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/nn/linear.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/full_disk.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace examples {
namespace {

namespace fs = std::filesystem;
using adjoint::NamedTensors;
using adjoint::Tensor;

const Run kRun{.program = "walk", .device = adjoint::kCPU, .steps = 6, .test_every = 2};

// Weights that walk at random. `on_save` is called when a checkpoint collects its data: the previous one has been
// waited for.
class Walk : public Training {
 public:
  explicit Walk(std::function<void(int save)> on_save = {}) : on_save_(std::move(on_save)) {}

  void add_to(State& state) override { state.add("walk", *this); }
  NamedTensors state_dict() {
    if (on_save_) on_save_(saves_++);
    return layer_.state_dict();
  }
  void load_state_dict(const NamedTensors& state) { layer_.load_state_dict(state); }

  std::string description() const override { return "a walk"; }
  std::vector<Tensor> next() override { return {}; }
  std::vector<Tensor> step(const std::vector<Tensor>&) override {
    Tensor weight = layer_.weight->detach();
    weight.add_(Tensor::rand(weight.shape()));
    if (diverges) throw adjoint::Error("it is over");
    return {weight.mean()};
  }
  Values test(const Moment&) override { return {{"mean", layer_.weight->detach().mean().item<double>()}}; }
  std::vector<std::string> outputs() const override { return {}; }
  void finish(const Moment&, nlohmann::ordered_json&) override {}

  bool diverges = false;

 private:
  std::function<void(int save)> on_save_;
  int saves_ = 0;
  adjoint::nn::Linear layer_{256, 256};
};

class Checkpoints : public ExampleTool {
 protected:
  static constexpr std::int64_t kFull = 1 << 16;  // bytes: the log fits, a checkpoint does not

  Checkpoints() : ExampleTool("super_resolution") {}
  /// Runs to the end, from the folder's checkpoint if there is one.
  void walk(Walk& walk, const std::string& name) {
    RunFolder folder(kRun.program, folder_ / name);
    adjoint::manual_seed(5);
    Loop loop(walk, kRun, settings_);
    if (fs::exists(checkpoint(name))) loop.load(folder);
    EXPECT_TRUE(loop.run(folder, [] { return false; }));
  }
  fs::path checkpoint(const std::string& name) const { return folder_ / name / Loop::kCheckpoint; }
  std::int64_t step_of(const std::string& name) const {
    const auto file = adjoint::nn::load_safetensors(checkpoint(name));
    return nlohmann::json::parse(file.metadata.at("values"))["loop.step"];
  }
  /// The checkpoint equals that of an undisturbed training.
  void expect_undisturbed(const std::string& name) {
    adjoint::manual_seed(4);
    Walk undisturbed;
    walk(undisturbed, "undisturbed");
    expect_same_training(adjoint::nn::load_safetensors(checkpoint("undisturbed")),
                         adjoint::nn::load_safetensors(checkpoint(name)), name);
  }
  Walk seeded(std::function<void(int save)> on_save = {}) {
    adjoint::manual_seed(4);
    return Walk(std::move(on_save));
  }

  CLI::App app_;
  Settings settings_{"walk", app_};
  std::optional<adjoint::testing::FullDisk> disk_;
};

TEST_F(Checkpoints, ADiskThatIsFullForAWhileIsToldAndLosesNothing) {
  Walk walking = seeded([&](int save) {
    if (save == 1) disk_.emplace(kFull);  // after step 2
    if (save == 2) {
      disk_.reset();
      EXPECT_EQ(step_of("out"), 0);
    }
  });
  testing::internal::CaptureStderr();
  walk(walking, "out");
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("The checkpoint before this one was not written: save_safetensors: cannot write '" +
                      checkpoint("out").string() + "': File too large"),
            std::string::npos)
      << said;
  expect_undisturbed("out");
}

TEST_F(Checkpoints, ADiskThatStaysFullEndsTheTrainingWhichGoesOnFromTheLastWholeOne) {
  for (const int last : {0, 1, 2}) {  // whole: of no steps, 2 and 4; the error comes at the next but one, or the end
    SCOPED_TRACE(last);
    Walk walking = seeded([&](int save) {
      if (save == last + 1) disk_.emplace(kFull);
    });
    testing::internal::CaptureStderr();
    EXPECT_ERROR(walk(walking, "out"), "save_safetensors: cannot write '", checkpoint("out").c_str(),
                 "': File too large");
    testing::internal::GetCapturedStderr();
    disk_.reset();
    EXPECT_EQ(step_of("out"), 2 * last);
    for (const auto& entry : fs::directory_iterator(folder_ / "out"))
      EXPECT_NE(entry.path().extension(), ".tmp") << entry.path();
    Walk going_on;
    walk(going_on, "out");
    expect_undisturbed("out");
    fs::remove_all(folder_ / "out");
    fs::remove_all(folder_ / "undisturbed");
  }
}

TEST_F(Checkpoints, WhatNobodyWaitedForIsAMessage) {
  Walk* training = nullptr;
  Walk walking = seeded([&](int save) {
    if (save == 1) disk_.emplace(kFull);
    training->diverges = save == 1;
  });
  training = &walking;
  testing::internal::CaptureStderr();
  EXPECT_ERROR(walk(walking, "out"), "it is over");
  const std::string said = testing::internal::GetCapturedStderr();
  disk_.reset();
  EXPECT_NE(said.find("walk: the last checkpoint was not written: save_safetensors: cannot write '"), std::string::npos)
      << said;
  EXPECT_EQ(step_of("out"), 0);
}

}  // namespace
}  // namespace examples
