// Files that a program's verbs write.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace examples {

inline const std::vector<std::string> kPictureExtensions{".png", ".jpg", ".jpeg"};

/// Throws Error, naming the file, if its name ends in none of these extensions (in either case), or if it cannot be
/// created. Call it before the work, not after. `program` appears in the error.
void check_output(const std::string& program, const std::filesystem::path& path,
                  const std::vector<std::string>& extensions = kPictureExtensions);

}  // namespace examples
