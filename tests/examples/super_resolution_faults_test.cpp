// Trainings that diverge, are ended from outside, share a folder, or resume from damaged checkpoints.
#include "super_resolution_tool.h"

#include "common/run_folder.h"

#include <adjoint/nn/safetensors.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/sanitized.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace super_resolution {
namespace {

using Json = nlohmann::json;

/// Writes the checkpoint again after `edit` has changed its values other than tensors.
void edit_checkpoint(const fs::path& checkpoint, const std::function<void(Json& settings, Json& values)>& edit) {
  adjoint::nn::Safetensors file = adjoint::nn::load_safetensors(checkpoint);
  Json settings = Json::parse(file.metadata.at("settings")), values = Json::parse(file.metadata.at("values"));
  edit(settings, values);
  adjoint::nn::save_safetensors(checkpoint, file.tensors, {{"settings", settings.dump()}, {"values", values.dump()}});
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

TEST_F(SuperResolutionTool, CurvesOfAnyNumbersAreDrawn) {
  const fs::path out = folder_ / "out";
  ASSERT_EQ(run(quick(out, 1)), 0) << output_;
  using Losses = std::vector<double>;
  for (const Losses& losses : {Losses{1e10, 1e10}, {0.0, 1e-300}, {1e300, 1e300}, {5.0, 5.0 + 1e-15}, {-1e9, 0.0}}) {
    edit_checkpoint(out / "checkpoint.safetensors", [&](Json&, Json& values) {
      values["loop.curve"] = {{{"step", 0}, {"seconds", 0.0}, {"losses", Json::array()}, {"values", {losses[0]}}},
                              {{"step", 1}, {"seconds", 0.0}, {"losses", {losses[1]}}, {"values", {losses[1]}}}};
    });
    fs::remove(out / "curves.png");
    ASSERT_EQ(run("train --resume --out '" + out.string() + "'"), 0) << output_;
    EXPECT_EQ(data::read_image(out / "curves.png").shape(), (Shape{3, 460, 1240}));
  }
}

TEST_F(SuperResolutionTool, DamagedCheckpointsAreErrorsThatNameTheFile) {
  const fs::path out = folder_ / "out", whole = folder_ / "whole.safetensors",
                 checkpoint = out / "checkpoint.safetensors";
  ASSERT_EQ(run(quick(out, 4)), 0) << output_;
  fs::copy_file(checkpoint, whole);
  const std::vector<std::pair<const char*, std::function<void(Json&, Json&)>>> edits{
      {"empty curve", [](Json&, Json& values) { values["loop.curve"].clear(); }},
      {"curve without its end", [](Json&, Json& values) { values["loop.curve"].erase(2); }},
      {"curve beyond its end", [](Json&, Json& values) { values["loop.curve"][2]["step"] = 5; }},
      {"curve that goes back", [](Json&, Json& values) { values["loop.curve"].push_back(values["loop.curve"][0]); }},
      {"no curve", [](Json&, Json& values) { values.erase("loop.curve"); }},
      {"curve of text", [](Json&, Json& values) { values["loop.curve"] = "none"; }},
      {"text for a number", [](Json&, Json& values) { values["loop.seconds"] = "many"; }},
      {"null for numbers", [](Json&, Json& values) { values["loop.sums"] = nullptr; }},
      {"no settings", [](Json& settings, Json&) { settings.clear(); }},
      {"no batch", [](Json& settings, Json&) { settings["batch"] = 0; }},
      {"patch beyond all bounds", [](Json& settings, Json&) { settings["patch"] = INT64_MAX; }},
      {"another model", [](Json& settings, Json&) { settings["features"] = 5; }},
      {"another network", [](Json& settings, Json&) { settings["model"] = "fsrcnn"; }},
      {"another scale", [](Json& settings, Json&) { settings["scale"] = 3; }},
      {"other pictures", [](Json&, Json& values) { values["fingerprint"] = 1; }},
      {"a loader elsewhere", [](Json&, Json& values) { values["loader"]["batch"] = -1; }},
      {"no object", [](Json&, Json& values) { values = Json::array(); }},
  };
  for (const auto& [name, edit] : edits) {
    SCOPED_TRACE(name);
    fs::copy_file(whole, checkpoint, fs::copy_options::overwrite_existing);
    edit_checkpoint(checkpoint, edit);
    EXPECT_EQ(run("train --resume --out '" + out.string() + "'"), 1) << output_;
    EXPECT_NE(output_.find("super_resolution: cannot resume from '" + checkpoint.string() + "': "), std::string::npos)
        << output_;
  }
  fs::copy_file(whole, checkpoint, fs::copy_options::overwrite_existing);
  edit_checkpoint(checkpoint, [](Json& settings, Json&) { settings["scale"] = 3; });
  EXPECT_EQ(run("train --resume --out '" + out.string() + "'"), 1) << output_;
  EXPECT_NE(output_.find("its network must be transposed for 3x; got transposed for 2x"), std::string::npos) << output_;
  fs::copy_file(whole, checkpoint, fs::copy_options::overwrite_existing);
  edit_checkpoint(checkpoint, [](Json& settings, Json&) { settings["images"] = "/nowhere"; });
  EXPECT_EQ(run("train --resume --out '" + out.string() + "'"), 1) << output_;
  EXPECT_NE(output_.find("/nowhere"), std::string::npos) << output_;
}

TEST_F(SuperResolutionTool, CheckpointsFromBeforeThereWasAChoiceGoOn) {
  const fs::path out = folder_ / "out";
  ASSERT_EQ(run(quick(out, 4)), 0) << output_;
  edit_checkpoint(out / "checkpoint.safetensors", [](Json& settings, Json& values) {
    for (const char* name : {"model", "scale", "loss", "discriminator-channels"})
      EXPECT_EQ(settings.erase(name), 1U) << name;
    EXPECT_EQ(values.erase("network"), 1U);
  });
  EXPECT_EQ(run("train --resume --out '" + out.string() + "'"), 0) << output_;
}

TEST_F(SuperResolutionTool, EverySignalThatAsksToEndSavesFirst) {
  for (const int signal : {SIGTERM, SIGHUP}) {
    const fs::path out = folder_ / "out";
    EXPECT_EQ(run_interrupted(quick(out, 1000000, "--overwrite"), signal), 128 + signal) << output_;
    EXPECT_NE(output_.find("To resume: super_resolution train --resume"), std::string::npos) << output_;
    EXPECT_TRUE(fs::exists(out / "checkpoint.safetensors"));
    EXPECT_FALSE(fs::exists(out / "model.safetensors"));
  }
}

TEST_F(SuperResolutionTool, OneTrainingAtATimeHoldsAFolder) {
  const fs::path out = folder_ / "out";
  std::string refusal;
  int code = -1;
  run_interrupted(quick(out, 1000000), SIGTERM, [&] {
    const fs::path other = folder_ / "other.log";
    const std::string program = "'" + examples::program_file("super_resolution") + "'";
    code = std::system((program + ' ' + quick(out, 6) + " > '" + other.string() + "' 2>&1").c_str());
    std::ifstream file(other);
    refusal.assign(std::istreambuf_iterator<char>(file), {});
  });
  EXPECT_EQ(WEXITSTATUS(code), 1);
  EXPECT_EQ(refusal,
            "super_resolution: another training writes to '" + out.string() + "'; name another folder with --out\n");
  const examples::RunFolder held("super_resolution", out);
  EXPECT_ERROR(examples::RunFolder("super_resolution", out), "another training writes to");
}

TEST_F(SuperResolutionTool, AFolderRemovedMeanwhileIsMadeAnew) {
  const fs::path out = folder_ / "out";
  // A training writes at its start and when it is interrupted.
  const std::string train =
      "train --images '" + write_pictures().string() +
      "' --batch 2 --patch 8 --features 4 --layers 1 --test-every 1000000 --steps 1000000 --out '";
  // Moved away first, because the program's writes in the meantime would disturb a removal file by file.
  const auto remove = [&] {
    fs::rename(out, folder_ / "moved");
    fs::remove_all(folder_ / "moved");
  };
  EXPECT_EQ(run_interrupted(train + out.string() + "'", SIGTERM, remove), 143) << output_;
  EXPECT_NE(output_.find("'" + out.string() + "' was removed; the training makes it again"), std::string::npos)
      << output_;
  EXPECT_TRUE(fs::exists(out / "checkpoint.safetensors"));
  EXPECT_TRUE(fs::exists(out / "log" / "scalars.csv"));
}

TEST_F(SuperResolutionTool, AFolderIsHeldAnewWhereItWasReplaced) {
  const fs::path out = folder_ / "out";
  examples::RunFolder folder("super_resolution", out);
  EXPECT_FALSE(folder.renew());
  fs::rename(out, folder_ / "moved");
  EXPECT_TRUE(folder.renew());
  EXPECT_FALSE(folder.renew());
  EXPECT_ERROR(examples::RunFolder("super_resolution", out), "another training writes to");
  fs::rename(out, folder_ / "again");
  const examples::RunFolder other("super_resolution", out);
  EXPECT_ERROR(folder.renew(), "another training writes to");
}

TEST_F(SuperResolutionTool, WithoutMemoryItEndsWithAnErrorAndAWholeCheckpoint) {
  if (adjoint::testing::kSanitized) GTEST_SKIP() << "a sanitizer's shadow needs more address space than the limit";
  const fs::path out = folder_ / "out", log = folder_ / "out_of_memory.log";
  // The first layer's result needs 8 GiB, the limit leaves less.
  const std::string command = "ulimit -v 8000000; exec '" + examples::program_file("super_resolution") +
                              "' train --device cpu --images '" + write_pictures().string() +
                              "' --features 1024 --layers 1 --batch 8192 --patch 16 --steps 3 --out '" + out.string() +
                              "' > '" + log.string() + "' 2>&1";
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 1);
  std::ifstream file(log);
  const std::string said{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(said.find("out of memory"), std::string::npos) << said;
  EXPECT_NE(said.find("use a smaller batch"), std::string::npos) << said;
  EXPECT_NE(said.find("smaller --batch than 8192"), std::string::npos) << said;
  EXPECT_TRUE(fs::exists(out / "checkpoint.safetensors"));
  EXPECT_FALSE(fs::exists(out / "model.safetensors"));
  for (const auto& entry : fs::directory_iterator(out)) EXPECT_NE(entry.path().extension(), ".tmp") << entry.path();
  edit_checkpoint(out / "checkpoint.safetensors", [](Json& settings, Json& values) {
    settings["batch"] = 2;
    values["loader"].erase("batch_size");  // as in a file of a place alone
  });
  EXPECT_EQ(run("train --resume --device cpu --out '" + out.string() + "'"), 0) << output_;
}

TEST_F(SuperResolutionTool, ANewTrainingReplacesTheOldOneFromItsStart) {
  const fs::path out = folder_ / "out";
  ASSERT_EQ(run(quick(out, 6)), 0) << output_;
  ASSERT_TRUE(fs::exists(out / "model.safetensors"));
  // Interrupted before its first test: the folder holds this training and nothing of the last.
  EXPECT_EQ(run_interrupted(quick(out, 1000000, "--overwrite --seed 010"), SIGTERM), 143) << output_;
  EXPECT_FALSE(fs::exists(out / "model.safetensors"));
  const auto file = adjoint::nn::load_safetensors(out / "checkpoint.safetensors");
  EXPECT_EQ(Json::parse(file.metadata.at("settings"))["seed"], 10);  // not octal
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
      {"--scale 5", "--scale must be one of 2, 3, 4; got '5'"},
      {"--model vdsr", "--model must be one of transposed, espcn, fsrcnn, edsr; got 'vdsr'"},
      {"--patch 3", "--patch must be from 4 to 16384; got 3"},
      {"--patch 16384", "must have at least 32768 x 32768 pixels; no picture has"},
      {"--batch 9223372036854775807", "--batch must be from 1 to 65536; got 9223372036854775807"},
      {"--steps 0", "--steps must be from 1 to "},
      {"--steps 9223372036854775808",
       "--steps must be from -9223372036854775808 to 9223372036854775807; got "
       "9223372036854775808"},
      {"--seed -1", "super_resolution: --seed must be from 0 to 18446744073709551615; got -1"},
      {"--seed 18446744073709551616", "--seed must be from 0 to 18446744073709551615; got 18446744073709551616"},
      {"--test-every 9223372036854775807", "--test-every must be from 1 to "},
      {"--lr nan", "--lr must be from 1e-12 to "},
      {"--lr -1", "--lr must be from 1e-12 to "},
      {"--device cuda:99", "--device must be cpu or one of the "},
      {"--images ''", "--images must not be empty; got ''"},
      {"--images . --val ''", "--val must not be empty; got ''"},
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
