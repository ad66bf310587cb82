#include "sample.h"

#include "common/squares.h"

#include <adjoint/ops/join/join.h>

#include <algorithm>
#include <vector>

namespace gan {

using adjoint::Tensor;

Tensor generate(const Generator& model, const Tensor& noise, adjoint::Device device) {
  constexpr std::int64_t kAtOnce = 256;
  std::vector<Tensor> parts;
  for (std::int64_t at = 0; at < noise.size(0); at += kAtOnce) {
    const Tensor part = noise.narrow(0, at, std::min(kAtOnce, noise.size(0) - at));
    parts.push_back(examples::to_bytes(model(part.to(device))).to(adjoint::kCPU).contiguous());
  }
  return adjoint::cat(parts);
}

}  // namespace gan
