// Every rank runs every test, in the same order.
#include <adjoint/core/distributed/world.h>

#include <gtest/gtest.h>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  adjoint::distributed::init();
  return RUN_ALL_TESTS();
}
