// The command line that all programs share, as a user meets it: resuming a training, also for more steps; the files
// that are kept; wrong usage.
#include "super_resolution_tool.h"

#include <adjoint/core/tensor/factories.h>
#include <adjoint/nn/safetensors.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/join/join.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace super_resolution {
namespace {

class ProgramTool : public SuperResolutionTool {
 protected:
  nlohmann::json metrics(const fs::path& out) const {
    return nlohmann::json::parse(std::ifstream(out / "metrics.json"));
  }
  /// Until the training has tested itself after this step.
  static void wait_for_step(const fs::path& out, int step) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (std::chrono::steady_clock::now() < end) {
      std::ifstream file(out / "log" / "scalars.csv");
      const std::string rows{std::istreambuf_iterator<char>(file), {}};
      if (rows.find("," + std::to_string(step) + ",test/") != std::string::npos) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  bool says(const std::string& text) const { return output_.find(text) != std::string::npos; }
};

TEST_F(ProgramTool, ResumeWithStepsMakesATrainingLonger) {
  const fs::path out = folder_ / "out", at_once = folder_ / "at_once";
  const std::string resume = "train --resume --out '" + out.string() + "'";
  ASSERT_EQ(run(quick(out, 6)), 0) << output_;
  const auto first = metrics(out);
  EXPECT_EQ(run(resume), 0) << output_;
  EXPECT_TRUE(says("All of its 6 steps are done; to train longer: super_resolution train --resume --steps 12"))
      << output_;
  ASSERT_EQ(run(resume + " --steps 12"), 0) << output_;
  const auto longer = metrics(out);
  EXPECT_EQ(longer["steps"], 12);
  EXPECT_EQ(longer["settings"]["steps"], 12);
  ASSERT_EQ(longer["curve"].size(), 5U) << "at 0, 3, 6, 9 and 12";
  for (const int point : {0, 1, 2})
    EXPECT_EQ(longer["curve"][point]["psnr_adjoint"], first["curve"][point]["psnr_adjoint"]);
  EXPECT_NE(longer["psnr_adjoint"], first["psnr_adjoint"]) << "the learning rate is that of a longer training, not 0";
  EXPECT_EQ(run(resume + " --steps 9"), 1);
  EXPECT_TRUE(says("it has done 12 steps, which --steps 9 cannot undo")) << output_;
  EXPECT_EQ(lines(), 1) << output_;
  EXPECT_EQ(run(resume + " --steps 0"), 1);
  EXPECT_TRUE(says("--steps must be from 1 to ")) << output_;
  EXPECT_EQ(run(resume + " --lr 1e-3"), 2) << "all other settings are the training's";
}

TEST_F(ProgramTool, ATrainingIsNotReplacedUnasked) {
  const fs::path out = folder_ / "out";
  ASSERT_EQ(run(quick(out, 6)), 0) << output_;
  const auto before = fs::last_write_time(out / "model.safetensors");
  EXPECT_EQ(run(quick(out, 3)), 1);
  EXPECT_TRUE(says("super_resolution: '" + out.string() +
                   "' holds a finished training of 6 steps; resume it with --resume (or extend it with --steps), "
                   "name another folder with --out, or replace it with --overwrite"))
      << output_;
  EXPECT_EQ(lines(), 1) << output_;
  EXPECT_EQ(fs::last_write_time(out / "model.safetensors"), before);
  EXPECT_EQ(run(quick(out, 3, "--resume --overwrite")), 2) << output_;
  ASSERT_EQ(run(quick(out, 3, "--overwrite")), 0) << output_;
  EXPECT_EQ(metrics(out)["steps"], 3);

  const fs::path stopped = folder_ / "stopped";
  EXPECT_EQ(run_interrupted(quick(stopped, 1000000), SIGINT, [&] { wait_for_step(stopped, 3); }), 130) << output_;
  EXPECT_EQ(run(quick(stopped, 3)), 1);
  EXPECT_TRUE(says("holds a training with ") && says(" of 1000000 steps done")) << output_;
  // A checkpoint that has no step, or that cannot be read, does not count.
  std::ofstream(stopped / "checkpoint.safetensors") << "damaged";
  EXPECT_EQ(run(quick(stopped, 3)), 0) << output_;
}

TEST_F(ProgramTool, TheLastLineShowsTheLastTest) {
  const fs::path out = folder_ / "out";
  ASSERT_EQ(run(quick(out, 6)), 0) << output_;
  const auto told = output_.find("step 6/6  loss ");
  ASSERT_NE(told, std::string::npos) << output_;
  const double value = metrics(out)["psnr_adjoint"];
  const auto shown = output_.rfind("psnr_adjoint ", output_.find("PSNR "));
  ASSERT_NE(shown, std::string::npos) << output_;
  EXPECT_NEAR(std::stod(output_.substr(shown + 13)), value, 0.01) << output_;
  EXPECT_GT(shown, told + 40) << "the bar's own line, behind the test's: " << output_;
}

TEST_F(ProgramTool, ShortTrainingsHaveACurve) {
  const fs::path out = folder_ / "out";
  ASSERT_EQ(run("train --images '" + write_pictures().string() +
                "' --batch 2 --patch 8 --features 4 --layers 1 --steps 10 --out '" + out.string() + "'"),
            0)
      << output_;
  EXPECT_EQ(metrics(out)["curve"].size(), 6U) << "at 0, 2, 4, 6, 8 and 10, not at 0 and 10 alone";
  EXPECT_EQ(metrics(out)["settings"]["test-every"], 2);
  ASSERT_EQ(run("train --images '" + write_pictures().string() +
                "' --batch 2 --patch 8 --features 4 --layers 1 --steps 3 --overwrite --out '" + out.string() + "'"),
            0)
      << output_;
  EXPECT_EQ(metrics(out)["curve"].size(), 4U);
}

TEST_F(ProgramTool, UnknownArgumentsAreToldInTheirOrderWithWhatWasMeant) {
  const std::pair<const char*, std::vector<const char*>> cases[] = {
      {"train --stepss 3", {"not expected: --stepss 3; did you mean --steps?", "See super_resolution train --help"}},
      {"train --steps=3 --bach=2", {"not expected: --bach=2; did you mean --batch?"}},
      {"train one two --colour three", {"not expected: one two --colour three; see super_resolution train --help"}},
      {"eval --images x --modle y", {"not expected: --modle; did you mean --model?"}},  // y is the model
      {"trian", {"not expected: trian; did you mean train?", "See super_resolution --help"}},
      {"paint", {"not expected: paint; see super_resolution --help"}},
      {"", {"super_resolution: A subcommand is required; see super_resolution --help"}},
      {"train --steps", {"--steps", "see super_resolution train --help"}},
  };
  for (const auto& [arguments, messages] : cases) {
    EXPECT_EQ(run(arguments), 2) << arguments << ": " << output_;
    for (const char* message : messages) EXPECT_TRUE(says(message)) << arguments << ": " << output_;
    EXPECT_EQ(lines(), 1) << arguments << ": " << output_;
  }
}

TEST_F(ProgramTool, AModelIsNamedWithOrWithoutItsOption) {
  const fs::path out = folder_ / "out", picture = folder_ / "pictures" / "0.jpg", made = folder_ / "made.png";
  ASSERT_EQ(run(quick(out, 3)), 0) << output_;
  const std::string model = " '" + (out / "model.safetensors").string() + "' ",
                    files = " '" + picture.string() + "' '" + made.string() + "' ",
                    images = " --images '" + (folder_ / "pictures").string() + "' ";
  ASSERT_EQ(run("upscale" + model + files), 0) << output_;
  const auto wanted = data::read_image(made).to_vector<int>();
  fs::remove(made);
  ASSERT_EQ(run("upscale --model" + model + files), 0) << output_;
  EXPECT_EQ(data::read_image(made).to_vector<int>(), wanted);
  ASSERT_EQ(run("upscale" + files + "--model" + model), 0) << output_;
  EXPECT_EQ(run("upscale --model" + model + model + files), 1);
  EXPECT_TRUE(says("there must be 2 files; got 3")) << output_;
  EXPECT_EQ(run("upscale" + files), 1) << "there is no model of the default --out here";
  EXPECT_TRUE(says("out/super_resolution/model.safetensors")) << output_;
  ASSERT_EQ(run("eval --model" + model + images), 0) << output_;
  const std::string table = output_;
  ASSERT_EQ(run("eval" + model + images), 0) << output_;
  EXPECT_EQ(output_, table);
}

/// Flat colours with hard edges, as an icon has them.
Tensor icon(std::int64_t extent) {
  const Tensor at = adjoint::arange(extent).to(adjoint::kFloat32) - static_cast<double>(extent) / 2.0;
  const Tensor distance = adjoint::square(at.unsqueeze(0)) + adjoint::square(at.unsqueeze(1));
  const double radius = 0.4 * static_cast<double>(extent);
  const Tensor disc = (distance < radius * radius).to(adjoint::kFloat32);
  return data::to_uint8(adjoint::stack({disc, 0.5 * disc, 1.0 - 0.75 * disc}));
}

TEST_F(ProgramTool, WhereBicubicMayBeBetterUpscaleSaysSo) {
  const fs::path out = folder_ / "out", flat = folder_ / "flat.png", made = folder_ / "made.png";
  ASSERT_EQ(run(quick(out, 1, "--lr 1")), 0) << output_;  // one step that is far too long: worse than no step
  data::write_png(flat, icon(64));
  const std::string model = " '" + (out / "model.safetensors").string() + "' ",
                    files = " '" + flat.string() + "' '" + made.string() + "' ";
  ASSERT_EQ(run("upscale" + model + files), 0) << output_;
  EXPECT_TRUE(says("Bicubic interpolation may be better for this picture: shrunk and enlarged again it has "))
      << output_;
  EXPECT_TRUE(says("--bicubic uses no model")) << output_;
  const auto by_model = data::read_image(made).to_vector<int>();
  ASSERT_EQ(run("upscale --bicubic" + model + files), 0) << output_;
  EXPECT_EQ(lines(), 1) << output_;
  EXPECT_NE(data::read_image(made).to_vector<int>(), by_model);
  fs::create_directories(folder_ / "icons");
  fs::rename(flat, folder_ / "icons" / "flat.png");
  ASSERT_EQ(run("eval" + model + "--images '" + (folder_ / "icons").string() + "'"), 0) << output_;
  EXPECT_TRUE(says("flat.png  (bicubic is better)")) << output_;

  // A model that is bicubic interpolation, as each is before its first step, is no worse.
  const fs::path untrained = folder_ / "untrained";
  ASSERT_EQ(run(quick(untrained, 1, "--lr 1e-12")), 0) << output_;
  ASSERT_EQ(run("upscale '" + (untrained / "model.safetensors").string() + "' '" +
                (folder_ / "icons" / "flat.png").string() + "' '" + made.string() + "'"),
            0)
      << output_;
  EXPECT_EQ(lines(), 1) << output_;
}

}  // namespace
}  // namespace super_resolution
