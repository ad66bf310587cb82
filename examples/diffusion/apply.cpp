#include "apply.h"

#include "process.h"

#include "common/drawn.h"
#include "common/memory_format.h"
#include "common/squares.h"

namespace diffusion {

using adjoint::Tensor;
using examples::kPictureExtent;

Tensor picture_noise(std::uint64_t seed, std::int64_t count) {
  return examples::noise_of(seed, count, 3 * kPictureExtent * kPictureExtent)
      .reshape({count, 3, kPictureExtent, kPictureExtent});
}

Tensor generate(const Denoiser& model, const Tensor& noise, std::int64_t steps, adjoint::Device device) {
  constexpr std::int64_t kAtOnce = 128;
  const Sampler sampler(model, steps);
  const adjoint::MemoryFormat format = examples::format_of(model);
  return examples::in_parts(noise, kAtOnce, [&](const Tensor& part) {
    const Tensor pictures = sampler(examples::in_format(part.to(device), format));
    return examples::to_bytes(pictures).to(adjoint::kCPU).contiguous();
  });
}

}  // namespace diffusion
