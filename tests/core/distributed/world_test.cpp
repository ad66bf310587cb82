// A program that links Adjoint::adjoint alone.
#include <adjoint/core/distributed/world.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <cstdlib>
#include <utility>

namespace adjoint::distributed {
namespace {

// An environment variable while it lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

TEST(World, TimeoutsAreSeconds) {
  for (const double seconds : {0.0, -1.0, 1e10}) {
    EXPECT_ERROR(init({.timeout = seconds}), "distributed::init: the timeout", "0.001 to 1e9 seconds");
  }
  for (const char* text : {"", "ten", "10s", "0", "1e10", "nan"}) {
    const Variable variable("ADJOINT_DISTRIBUTED_TIMEOUT", text);
    EXPECT_ERROR(init(), "ADJOINT_DISTRIBUTED_TIMEOUT must be seconds", text);
  }
  EXPECT_FALSE(is_initialized());
}

TEST(World, SeveralProcessesNeedTheComponent) {
  for (const auto& [name, value] : {std::pair("OMPI_COMM_WORLD_SIZE", "2"), {"PMI_SIZE", "3"}, {"PMIX_RANK", "1"}}) {
    const Variable variable(name, value);
    EXPECT_ERROR(init(), "must be linked with Adjoint::distributed", name, value);
  }
  EXPECT_FALSE(is_initialized());
}

TEST(World, AloneItIsAWorldOfOne) {
  const Variable size("OMPI_COMM_WORLD_SIZE", "1"), rank_of_launcher("PMIX_RANK", "0"),
      timeout("ADJOINT_DISTRIBUTED_TIMEOUT", "1.5");
  init();
  EXPECT_TRUE(is_initialized());
  EXPECT_EQ(rank(), 0);
  EXPECT_EQ(world_size(), 1);
  EXPECT_EQ(local_rank(), 0);
  EXPECT_ERROR(init(), "must be called once");
}

}  // namespace
}  // namespace adjoint::distributed
