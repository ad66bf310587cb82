// Calls that a Profiler refuses, and that they lose nothing.
#include <adjoint/core/profile/profiler.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/tests/core/profile/profile_rows.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <filesystem>

namespace adjoint {
namespace {

TEST(ProfilerInvalid, RefusesASecond) {
  Profiler first;
  EXPECT_ERROR(Profiler(),
               "Profiler: one at a time may collect; got a second of this process; stop() the other one first");
  (void)Tensor::ones({2}).exp();
  EXPECT_TRUE(find(first.rows(), "exp"));
  EXPECT_NO_THROW(Profiler());
}

TEST(ProfilerInvalid, RefusesNegativeRates) {
  EXPECT_ERROR(Profiler({.bytes_per_second = -1.0}),
               "Profiler: bytes_per_second must be finite and not negative; got -1");
  EXPECT_ERROR(Profiler({.flop_per_second = -2.0}),
               "Profiler: flop_per_second must be finite and not negative; got -2");
  EXPECT_NO_THROW(Profiler());
}

TEST(ProfilerInvalid, NamesAPathThatCannotBeWritten) {
  const Folder folder;
  Profiler profiler;
  (void)Tensor::ones({2}).exp();
  const std::filesystem::path path = folder / "absent" / "trace.json";
  EXPECT_ERROR(profiler.write_trace(path), "write_trace: ", "absent");
  EXPECT_TRUE(find(profiler.rows(), "exp")) << "nothing is lost";
}

}  // namespace
}  // namespace adjoint
