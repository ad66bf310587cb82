// Trainings that diverge, are ended from outside, get in each other's way, or go on from damaged checkpoints.
#include "super_resolution_tool.h"

#include "report.h"
#include "run_folder.h"

#include <adjoint/nn/safetensors.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace super_resolution {
namespace {

using Json = nlohmann::json;

/// Writes the checkpoint anew with its state changed by `edit`.
void edit_state(const fs::path& checkpoint, const std::function<void(Json&)>& edit) {
  adjoint::nn::Safetensors file = adjoint::nn::load_safetensors(checkpoint);
  auto& [key, text] = *file.metadata.begin();
  Json state = Json::parse(text);
  edit(state);
  text = state.dump();
  adjoint::nn::save_safetensors(checkpoint, file.tensors, file.metadata);
}

TEST_F(SuperResolutionTool, ADivergedTrainingFailsAndWritesNoModel) {
  const fs::path out = folder_ / "out";
  for (const char* lr : {"1e12", "1e9"}) {
    EXPECT_EQ(run(quick(out, 40, std::string("--lr ") + lr)), 1) << output_;
    EXPECT_NE(output_.find("training must stay finite; got a "), std::string::npos) << output_;
    EXPECT_NE(output_.find("lower --lr"), std::string::npos) << output_;
    EXPECT_FALSE(fs::exists(out / "model.safetensors"));
    EXPECT_TRUE(fs::exists(out / "checkpoint.safetensors"));
  }
}

TEST_F(SuperResolution, CurvesOfAnyNumbersAreDrawn) {
  TrainingOptions options = small_options();
  options.steps = 1;
  Trainer trainer(options, adjoint::kCPU);
  const fs::path checkpoint = folder_ / "c.safetensors";
  Progress progress;
  ASSERT_TRUE(trainer.run(checkpoint, progress, [] { return false; }));
  using Losses = std::vector<double>;
  for (const Losses& losses :
       {Losses{0.0}, {1e-300}, {1e10}, {1e10, 1e10}, {1e300, 1e300}, {5.0, 5.0 + 1e-15}, {-1e9}}) {
    edit_state(checkpoint, [&](Json& state) {
      state["curve"].clear();
      for (std::size_t i = 0; i < losses.size(); ++i) {
        const auto step = static_cast<std::int64_t>(i) + 2 - std::ssize(losses);
        state["curve"].push_back({{"step", step}, {"seconds", 0.0}, {"loss", losses[i]}, {"psnr", losses[i]}});
      }
      if (losses.size() > 1) state["curve"].erase(0);
    });
    const auto resumed = Trainer::resume(checkpoint, adjoint::kCPU);
    write_curves(folder_ / "curves.png", *resumed);
    EXPECT_EQ(data::read_image(folder_ / "curves.png").shape(), (Shape{3, 460, 1240}));
  }
}

TEST_F(SuperResolution, DamagedCheckpointsAreErrorsThatNameTheFile) {
  TrainingOptions options = small_options();
  options.steps = 4;
  const fs::path checkpoint = folder_ / "c.safetensors", damaged = folder_ / "damaged.safetensors";
  Trainer trainer(options, adjoint::kCPU);
  Progress progress;
  ASSERT_TRUE(trainer.run(checkpoint, progress, [] { return false; }));
  const std::vector<std::pair<const char*, std::function<void(Json&)>>> edits{
      {"empty curve", [](Json& state) { state["curve"].clear(); }},
      {"curve without its end", [](Json& state) { state["curve"][0]["step"] = 3; }},
      {"curve beyond its end", [](Json& state) { state["curve"][0]["step"] = 5; }},
      {"curve that goes back", [](Json& state) { state["curve"].push_back(state["curve"][0]); }},
      {"no curve", [](Json& state) { state.erase("curve"); }},
      {"curve of text", [](Json& state) { state["curve"] = "none"; }},
      {"text for a number", [](Json& state) { state["seconds"] = "many"; }},
      {"null for a number", [](Json& state) { state["loss_sum"] = nullptr; }},
      {"no options", [](Json& state) { state.erase("options"); }},
      {"no batch", [](Json& state) { state["options"]["batch"] = 0; }},
      {"patch beyond all bounds", [](Json& state) { state["options"]["patch"] = INT64_MAX; }},
      {"another model", [](Json& state) { state["options"]["model"]["features"] = 5; }},
      {"a folder that is not there", [](Json& state) { state["options"]["images"] = "/nowhere"; }},
      {"other pictures", [](Json& state) { state["fingerprint"] = 1; }},
      {"a loader elsewhere", [](Json& state) { state["loader"]["batch"] = -1; }},
      {"no object", [](Json& state) { state = Json::array(); }},
  };
  for (const auto& [name, edit] : edits) {
    SCOPED_TRACE(name);
    fs::copy_file(checkpoint, damaged, fs::copy_options::overwrite_existing);
    edit_state(damaged, edit);
    EXPECT_ERROR(Trainer::resume(damaged, adjoint::kCPU),
                 ("super_resolution: cannot go on from '" + damaged.string() + "': ").c_str());
  }
}

TEST_F(SuperResolutionTool, EverySignalThatAsksToEndSavesFirst) {
  for (const int signal : {SIGTERM, SIGHUP}) {
    const fs::path out = folder_ / "out";
    EXPECT_EQ(run_interrupted(quick(out, 1000000), signal), 128 + signal) << output_;
    EXPECT_NE(output_.find("To go on: super_resolution train --resume"), std::string::npos) << output_;
    EXPECT_TRUE(fs::exists(out / "checkpoint.safetensors"));
    for (const auto& entry : fs::directory_iterator(out)) EXPECT_EQ(entry.path().filename(), "checkpoint.safetensors");
  }
}

TEST_F(SuperResolutionTool, OneTrainingAtATimeHoldsAFolder) {
  const fs::path out = folder_ / "out";
  std::string refusal;
  int code = -1;
  run_interrupted(quick(out, 1000000), SIGTERM, [&] {
    const fs::path other = folder_ / "other.log";
    code =
        std::system(("'" ADJOINT_SUPER_RESOLUTION "' " + quick(out, 6) + " > '" + other.string() + "' 2>&1").c_str());
    std::ifstream file(other);
    refusal.assign(std::istreambuf_iterator<char>(file), {});
  });
  EXPECT_EQ(WEXITSTATUS(code), 1);
  EXPECT_EQ(refusal,
            "super_resolution: another training writes to '" + out.string() + "'; name another folder with --out\n");
  const RunFolder held(out);
  EXPECT_ERROR(RunFolder{out}, "another training writes to");
}

TEST_F(SuperResolutionTool, ANewTrainingReplacesTheOldOneFromItsStart) {
  const fs::path out = folder_ / "out";
  ASSERT_EQ(run(quick(out, 6)), 0) << output_;
  ASSERT_TRUE(fs::exists(out / "model.safetensors"));
  // Interrupted before its first test: the folder holds this training and nothing of the last.
  EXPECT_EQ(run_interrupted(quick(out, 1000000, "--seed 7"), SIGTERM), 143) << output_;
  EXPECT_FALSE(fs::exists(out / "model.safetensors"));
  const auto state =
      Json::parse(adjoint::nn::load_safetensors(out / "checkpoint.safetensors").metadata.begin()->second);
  EXPECT_EQ(state["options"]["seed"], 7);
}

TEST_F(SuperResolutionTool, WhatAKilledTrainingLeftIsRemoved) {
  const fs::path out = folder_ / "out", left = out / "adjoint-1-0.tmp";
  fs::create_directories(out);
  std::ofstream(left) << "half a checkpoint";
  ASSERT_EQ(run(quick(out, 6)), 0) << output_;
  EXPECT_FALSE(fs::exists(left));
}

TEST_F(SuperResolutionTool, NumbersOutOfRangeAreNamed) {
  const fs::path out = folder_ / "out";
  const std::pair<const char*, const char*> cases[] = {
      {"--patch 9223372036854775807", "--patch must be from 4 to 16384; got 9223372036854775807"},
      {"--patch 3", "--patch must be from 4 to 16384; got 3"},
      {"--patch 16384", "must have at least 32768 x 32768 pixels; none has"},
      {"--batch 9223372036854775807", "--batch must be from 1 to 65536; got 9223372036854775807"},
      {"--steps 0", "--steps must be from 1 to "},
      {"--test-every 9223372036854775807", "--test-every must be from 1 to "},
      {"--lr nan", "--lr must be from 1e-12 to "},
      {"--lr -1", "--lr must be from 1e-12 to "},
      {"--images ''", "--images must name a folder; got ''"},
      {"--images . --val ''", "--val must name a folder; got ''"},
      {"--out ''", "--out must name a folder; got ''"},
  };
  for (const auto& [arguments, message] : cases) {
    // The last of two values counts.
    EXPECT_EQ(run(std::string("train ") + arguments +
                  (std::string(arguments).starts_with("--out") ? "" : " --out '" + out.string() + "'")),
              1)
        << arguments;
    EXPECT_NE(output_.find(message), std::string::npos) << arguments << ": " << output_;
    EXPECT_EQ(lines(), 1) << output_;
  }
}

}  // namespace
}  // namespace super_resolution
