// Warnings that are taken in place of being printed.
#pragma once

#include <adjoint/core/base/warning.h>

#include <string>
#include <vector>

namespace adjoint::testing {

/// While it lives, it catches every warning of the process.
class Warnings {
 public:
  Warnings() : before_(set_warning_handler([this](const std::string& message) { messages.push_back(message); })) {}
  ~Warnings() { set_warning_handler(before_); }
  Warnings(const Warnings&) = delete;
  Warnings& operator=(const Warnings&) = delete;

  std::vector<std::string> messages;

 private:
  WarningHandler before_;
};

}  // namespace adjoint::testing
