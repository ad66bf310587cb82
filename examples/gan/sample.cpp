#include "sample.h"

#include "common/squares.h"

namespace gan {

using adjoint::Tensor;

Tensor generate(const Generator& model, const Tensor& noise, adjoint::Device device) {
  constexpr std::int64_t kAtOnce = 256;
  return examples::in_parts(noise, kAtOnce, [&](const Tensor& part) {
    return examples::to_bytes(model(part.to(device))).to(adjoint::kCPU).contiguous();
  });
}

}  // namespace gan
