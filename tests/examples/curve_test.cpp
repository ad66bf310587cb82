// The loop's curve: its contents other than losses and measured values.
#include "example_tool.h"

#include "common/training.h"

#include <adjoint/core/tensor/random.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <string>
#include <vector>

namespace examples {
namespace {

using adjoint::Tensor;

constexpr std::int64_t kKept = 1000;  // numbers that a leak of each step has

class Keeping final : public Training {
 public:
  explicit Keeping(bool leaks) : leaks_(leaks) {}
  void add_to(State&) override {}
  std::string description() const override { return "a step that keeps what it made, or not"; }
  std::vector<Tensor> next() override { return {}; }
  std::vector<Tensor> step(const std::vector<Tensor>&) override {
    const Tensor made = Tensor::zeros({kKept});
    if (leaks_) kept_.push_back(made);
    return {made.mean()};
  }
  Values test(const Moment&) override { return {{"none", 0.0}}; }
  std::vector<std::string> outputs() const override { return {}; }
  void finish(const Moment&, nlohmann::ordered_json&) override {}

 private:
  bool leaks_;
  std::vector<Tensor> kept_;
};

class Curve : public ExampleTool {
 protected:
  Curve() : ExampleTool("") {}
};

TEST_F(Curve, ShowsMemoryThatStepsKeep) {
  for (const bool leaks : {false, true}) {
    const examples::Run run{.program = "keeping", .device = adjoint::kCPU, .steps = 30, .test_every = 10};
    CLI::App app;
    const Settings settings("keeping", app);
    RunFolder folder(run.program, folder_ / (leaks ? "leaks" : "keeps_nothing"));
    adjoint::manual_seed(1);
    Keeping training(leaks);
    Loop loop(training, run, settings);
    ASSERT_TRUE(loop.run(folder, [] { return false; }));
    loop.finish(folder);
    const auto curve = nlohmann::json::parse(std::ifstream(folder / "metrics.json"))["curve"];
    ASSERT_EQ(curve.size(), 4U);
    const auto in_use = [&](int point) { return curve[point]["memory_in_use"].get<std::int64_t>(); };
    for (const int point : {2, 3}) {
      // The thread that writes a checkpoint may still hold a few numbers of it.
      EXPECT_NEAR(in_use(point) - in_use(point - 1), leaks ? 10 * kKept * std::int64_t{sizeof(float)} : 0, 64) << point;
    }
    EXPECT_GE(curve[3]["memory_held"].get<std::int64_t>(), in_use(3));
  }
}

}  // namespace
}  // namespace examples
