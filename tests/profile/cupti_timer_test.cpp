// Device times by CUPTI, compared with those by events.
#include <adjoint/core/base/stream.h>
#include <adjoint/core/profile/cupti/cupti_timer.h>
#include <adjoint/core/profile/profiler.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/ops/elementwise/elementwise.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace adjoint {
namespace {

ProfileRow row_of(Profiler& profiler, const std::string& op) {
  for (const ProfileRow& row : profiler.rows()) {
    if (row.op == op) return row;
  }
  ADD_FAILURE() << "no " << op << " in\n" << profiler.table();
  return {};
}

TEST(CuptiTimer, CudaAgreesWithEvents) {
  if (!cuda_is_available()) GTEST_SKIP() << "no GPU";
  const Tensor x = Tensor::ones({1 << 26}, {.device = kCUDA});
  const auto run = [&] {
    for (int i = 0; i < 20; ++i) (void)x.exp();
  };
  run();
  Profiler by_events;
  run();
  const double events = row_of(by_events, "exp").device_seconds;
  for (int repeat = 0; repeat < 2; ++repeat) {  // the timer starts anew
    Profiler profiler({.device_timer = cupti_timer()});
    run();
    const ProfileRow row = row_of(profiler, "exp");
    EXPECT_EQ(row.calls, 20);
    EXPECT_GT(row.device_seconds, 0.8 * events);
    EXPECT_LT(row.device_seconds, 1.1 * events);
  }
}

TEST(CuptiTimer, CudaNamesKernelsAndTheirRows) {
  if (!cuda_is_available()) GTEST_SKIP() << "no GPU";
  const Tensor x = Tensor::ones({1 << 20}, {.device = kCUDA});
  Profiler profiler({.device_timer = cupti_timer()});
  {
    const ProfileScope scope("outer", kCUDA);
    (void)x.exp();
  }
  EXPECT_GT(row_of(profiler, "exp").device_seconds, 0.0);
  EXPECT_EQ(row_of(profiler, "outer").device_seconds, 0.0) << "its kernels are exp's";
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("adjoint_cupti_" + std::to_string(getpid()) + ".json");
  profiler.write_trace(path);
  std::ifstream file(path);
  const nlohmann::json trace = nlohmann::json::parse(file);
  std::filesystem::remove(path);
  std::size_t kernels = 0;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X" || event.at("cat") != "kernel") continue;
    if (event.at("args").at("operator") != "exp") continue;
    EXPECT_NE(event.at("name").get<std::string>().find("adjoint::"), std::string::npos) << event.dump();
    EXPECT_GE(event.at("ts").get<double>(), 0.0);
    ++kernels;
  }
  EXPECT_EQ(kernels, 1U);
}

}  // namespace
}  // namespace adjoint
