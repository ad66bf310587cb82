#include <adjoint/nn/renames.h>

#include <adjoint/core/base/check.h>

namespace adjoint::nn {

Renames::Renames(const char* op, const std::vector<std::pair<std::string, std::string>>& patterns) : op_(op) {
  for (const auto& [pattern, replacement] : patterns) {
    try {
      patterns_.emplace_back(std::regex(pattern), replacement);
    } catch (const std::regex_error& error) {
      fail("{}: a pattern of .rename must be a regular expression; got '{}': {}", op, pattern, error.what());
    }
  }
}

std::string Renames::operator()(const std::string& name) const {
  if (patterns_.empty()) return name;
  ADJOINT_CHECK(name.size() <= kLongest, "{}: names that .rename searches must be at most {} bytes; got {}", op_,
                kLongest, name.size());
  std::string renamed = name;
  for (const auto& [pattern, replacement] : patterns_) renamed = std::regex_replace(renamed, pattern, replacement);
  return renamed;
}

}  // namespace adjoint::nn
