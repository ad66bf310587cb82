#include <adjoint/ops/conv/sums/taps.h>

#include <adjoint/ops/conv/base/numbers.h>

#include <algorithm>

namespace adjoint::cuda {

TapGather tap_gather(std::int64_t count, std::int32_t taps, std::int64_t element_bytes, bool of_sums) {
  constexpr std::int64_t kUnit = 16,
                         kBlocks = 512;  // elements of a run; blocks, so that their waits for memory overlap
  const std::int64_t most = floor_to(kGatherBytes / element_bytes / taps, kUnit);
  TapGather gather{.count = count, .of_sums = of_sums};
  gather.run = static_cast<std::int32_t>(std::clamp(floor_to(count / kBlocks, kUnit), kUnit, most));
  gather.taps = Divider(static_cast<std::uint32_t>(taps));
  const auto vector = static_cast<std::int32_t>(16 / (of_sums ? sizeof(float) : element_bytes));
  gather.vector = count % vector == 0 ? vector : 1;
  return gather;
}

}  // namespace adjoint::cuda
