// EXPECT_ERROR(statement, "part", "part"): the statement throws adjoint::Error whose message holds every part.
#pragma once

#include <adjoint/core/base/error.h>

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

namespace adjoint::testing {

template <class F>
::testing::AssertionResult throws_error(F&& statement, std::initializer_list<const char*> parts) {
  try {
    statement();
  } catch (const Error& error) {
    for (const char* part : parts) {
      if (std::string(error.what()).find(part) == std::string::npos) {
        return ::testing::AssertionFailure() << "the message lacks '" << part << "': " << error.what();
      }
    }
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << "nothing was thrown";
}

}  // namespace adjoint::testing

#define EXPECT_ERROR(statement, ...) \
  EXPECT_TRUE(::adjoint::testing::throws_error([&] { static_cast<void>(statement); }, {__VA_ARGS__}))
