#include "prior.h"

#include "common/memory_format.h"

#include <adjoint/core/base/error.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/pad/pad.h>
#include <adjoint/ops/reduce/reduce.h>
#include <adjoint/ops/scan/scan.h>
#include <adjoint/ops/softmax/softmax.h>

#include <algorithm>

namespace autoencoder {
namespace {

namespace nn = adjoint::nn;
using adjoint::Tensor;

// Puts zeros around x, with which a kernel of (2, 3) or (1, 3) sees only the lines at and above, and one of (2, 2) or
// (2, 1) only the places at, above and left.
Tensor above(const Tensor& x) { return adjoint::pad(x, {1, 1, 1, 0}); }
Tensor left(const Tensor& x) { return adjoint::pad(x, {1, 0, 1, 0}); }
Tensor down_by_one(const Tensor& x) { return adjoint::pad(x, {0, 0, 1, -1}); }
Tensor right_by_one(const Tensor& x) { return adjoint::pad(x, {1, -1, 0, 0}); }

}  // namespace

Prior::Prior(std::int64_t codes, std::int64_t width, std::int64_t blocks)
    : Module("Prior"), codes_(codes), width_(width) {
  for (std::int64_t i = 0; i < blocks; ++i) {
    for (int convs = 0; convs < 2; ++convs) {
      above_.append(nn::Conv2d(width, width, {.kernel_size = {2, 3}}));
      left_.append(nn::Conv2d(width, width, {.kernel_size = 2}));
    }
    across_.append(nn::Conv2d(width, width, {.kernel_size = 1}));
  }
}

Tensor Prior::operator()(const Tensor& codes) const {
  const Tensor x = examples::in_format(embedding_(codes).permute({0, 3, 1, 2}), examples::format_of(*this));
  Tensor u = down_by_one(first_above_(above(x)));
  Tensor l = down_by_one(first_line_(x)) + right_by_one(first_left_(adjoint::pad(x, {0, 0, 1, 0})));
  const auto relu = [](const Tensor& of) { return adjoint::relu(of); };
  for (std::size_t i = 0; i < across_.size(); ++i) {
    u = u + above_[2 * i + 1](above(relu(above_[2 * i](above(relu(u))))));
    l = l + left_[2 * i + 1](left(relu(left_[2 * i](left(relu(l))) + across_[i](relu(u)))));
  }
  return out_(relu(l));
}

Tensor Prior::sample(std::int64_t count, std::int64_t height, std::int64_t width, adjoint::Device device) const {
  Tensor codes = Tensor::zeros({count, height, width}, {.dtype = adjoint::kInt64, .device = device});
  const Tensor chances = Tensor::rand({count, height, width}, {.device = device});
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      // The lines below do not count.
      const Tensor scores = (*this)(codes.narrow(1, 0, y + 1)).select(2, y).select(2, x).to(adjoint::kFloat32);
      const Tensor upto = adjoint::cumsum(adjoint::softmax(scores, 1), 1);  // (count, codes)
      // As many codes as end before the chance; rounding may leave the last sum a little below 1.
      const Tensor chance = chances.select(1, y).select(1, x).unsqueeze(1);
      const Tensor found = (upto <= chance).to(adjoint::kInt64).sum({1});
      codes.select(1, y).select(1, x).copy_(adjoint::clamp(found, 0.0, static_cast<double>(scores.size(1) - 1)));
    }
  }
  return codes;
}

}  // namespace autoencoder
