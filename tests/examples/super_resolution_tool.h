// Shared by the tests of super_resolution: a temporary folder with pictures, and the program itself.
#pragma once

#include "example_tool.h"

#include "super_resolution/synthetic.h"

#include <adjoint/data/image.h>
#include <adjoint/data/transforms.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>

namespace super_resolution {

namespace fs = std::filesystem;
namespace data = adjoint::data;
using adjoint::Shape;
using adjoint::Tensor;

class SuperResolution : public examples::ExampleTool {
 protected:
  SuperResolution() : ExampleTool("super_resolution") {}

  /// Made pictures of several sizes as files, some grey, some JPEG.
  fs::path write_pictures() const {
    fs::create_directories(folder_ / "pictures");
    for (int i = 0; i < 6; ++i) {
      const Tensor picture = synthetic_picture(100 + static_cast<std::uint64_t>(i), 40 + 3 * i, 61 - 2 * i);
      const fs::path path = folder_ / "pictures" / std::to_string(i);
      if (i % 3 == 0) data::write_jpeg(path.string() + ".jpg", picture);
      if (i % 3 == 1) data::write_png(path.string() + ".png", picture);
      if (i % 3 == 2) data::write_png(path.string() + ".png", data::to_channels(picture, data::Channels::kGrey));
    }
    return folder_ / "pictures";
  }
  /// Arguments of a training on small pictures.
  std::string quick(const fs::path& out, int steps, const std::string& more = "") const {
    return "train --images '" + write_pictures().string() +
           "' --batch 2 --patch 8 --features 4 --layers 1 --test-every 3 --steps " + std::to_string(steps) +
           " --out '" + out.string() + "' " + more;
  }
};

using SuperResolutionTool = SuperResolution;

}  // namespace super_resolution
