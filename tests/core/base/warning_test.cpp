#include <adjoint/core/base/warning.h>

#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/warnings.h>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace adjoint {
namespace {

TEST(Warning, GoesToStandardErrorOrToAHandler) {
  ::testing::internal::CaptureStderr();
  detail::warn("op: it should be so; got 3");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "adjoint: warning: op: it should be so; got 3\n");
  ::testing::internal::CaptureStderr();
  {
    const testing::Warnings warnings;
    detail::warn("one");
    detail::warn("two");
    EXPECT_EQ(warnings.messages, (std::vector<std::string>{"one", "two"}));
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(Warning, AHandlerThatThrowsMakesAnErrorOfIt) {
  const WarningHandler before = set_warning_handler([](const std::string& message) { throw Error(message); });
  EXPECT_ERROR(detail::warn("op: it should be so"), "op: it should be so");
  set_warning_handler(before);
}

}  // namespace
}  // namespace adjoint
