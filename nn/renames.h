// Applies LoadOptions::rename. Internal.
#pragma once

#include <cstddef>
#include <regex>
#include <string>
#include <utility>
#include <vector>

namespace adjoint::nn {

class Renames {
 public:
  /// Throws Error, naming `op`, for an invalid regular expression. `op` must outlive the object.
  Renames(const char* op, const std::vector<std::pair<std::string, std::string>>& patterns);
  /// Throws Error for a name that is too long to be searched.
  std::string operator()(const std::string& name) const;

 private:
  static constexpr std::size_t kLongest = 2000;  // libstdc++ recurses for each character

  const char* op_;
  std::vector<std::pair<std::regex, std::string>> patterns_;
};

}  // namespace adjoint::nn
