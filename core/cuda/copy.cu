// Copies with any strides and dtypes on CUDA devices. If neighbours in the source are not neighbours in the result,
// square tiles are transposed in shared memory, so that both sides move whole pieces of memory; axes of a few elements
// are transposed in registers (interleave.cuh).

#include <adjoint/core/cuda/backend.h>
#include <adjoint/core/tensor/convert.h>
#include <adjoint/core/cuda/elementwise.cuh>
#include <adjoint/core/cuda/interleave.cuh>

namespace adjoint::cuda {
namespace {

template <class To>
struct Convert {
  [[maybe_unused]] static constexpr bool kCopies = true;  // rows of one dtype, which move in packs
  template <class From>
  __device__ To operator()(From value) const {
    return convert<To>(value);
  }
};

constexpr int kTileThreads = 128;
constexpr int kTileBytes = 128;  // of a tile's side
constexpr int kGroupBytes = 16;

template <class Bits>
inline constexpr int kSide = static_cast<int>(kTileBytes / sizeof(Bits));

// Matrices whose elements (b, a) are neighbours along a in the result and along b in the source.
struct Transposition {
  std::int64_t size_a, size_b, in_stride_a, out_stride_b;
  std::uint32_t tiles_a, tiles_b;
  StridedPlan<2> matrices;
};

// Where the i-th matrix begins, in result and source.
__device__ void locate(const StridedPlan<2>& matrices, std::int64_t i, std::int64_t (&offsets)[2]) {
  offsets[0] = offsets[1] = 0;
  for (int axis = 0; axis < matrices.rank; ++axis) {
    const std::int64_t quotient = axis + 1 == matrices.rank ? 0 : i / matrices.sizes[axis];
    const std::int64_t position = i - quotient * matrices.sizes[axis];
    i = quotient;
    for (int n = 0; n < 2; ++n) offsets[n] += position * matrices.strides[n][axis];
  }
}

// The place of a tile's element (b, a): rows of b whose 16-byte groups are permuted by b, so that threads that write
// columns, and threads that read rows, use different banks.
template <class Bits>
__device__ int place_in_tile(int b, int a) {
  constexpr int kGroup = static_cast<int>(kGroupBytes / sizeof(Bits));
  return b * kSide<Bits> + (a / kGroup ^ b / kGroup) * kGroup + a % kGroup;
}

// W: elements that move together, along b from the source and along a to the result: 16 bytes of them, or 1. In the
// former case size_a and size_b are multiples of W.
template <class Bits, int W>
__global__ void __launch_bounds__(kTileThreads)
    transpose_tiles(const __grid_constant__ Transposition t, const Bits* __restrict__ in, Bits* __restrict__ out) {
  constexpr int kLength = kSide<Bits>;
  // A thread copies enough rows of a to fill a word of shared memory.
  constexpr int kRows = W == 1 || sizeof(Bits) >= 4 ? 1 : static_cast<int>(4 / sizeof(Bits));
  constexpr int kAlongB = kLength / W;
  constexpr int kLoads = kAlongB * (kLength / kRows) / kTileThreads, kStores = kAlongB * kLength / kTileThreads;
  constexpr int kLoadsAtOnce = kLoads < 8 ? kLoads : 8, kStoresAtOnce = kStores < 8 ? kStores : 8;
  __shared__ alignas(kGroupBytes) Bits tile[kLength * kLength];  // (b, a)

  const std::uint32_t rest = blockIdx.x / t.tiles_a;
  const std::int64_t first_a = std::int64_t{blockIdx.x % t.tiles_a} * kLength;
  const std::int64_t first_b = std::int64_t{rest % t.tiles_b} * kLength;
  std::int64_t offsets[2];
  locate(t.matrices, rest / t.tiles_b, offsets);
  const auto thread = static_cast<int>(threadIdx.x);

#pragma unroll 1
  for (int begin = 0; begin < kLoads; begin += kLoadsAtOnce) {
    Pack<Bits, W> loaded[kLoadsAtOnce][kRows];
#pragma unroll
    for (int i = 0; i < kLoadsAtOnce; ++i) {
      const int unit = (begin + i) * kTileThreads + thread;
      const std::int64_t b = first_b + unit % kAlongB * W, a = first_a + unit / kAlongB * kRows;
      if (a >= t.size_a || b >= t.size_b) continue;
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        loaded[i][r] = *reinterpret_cast<const Pack<Bits, W>*>(in + offsets[1] + (a + r) * t.in_stride_a + b);
      }
    }
#pragma unroll
    for (int i = 0; i < kLoadsAtOnce; ++i) {
      const int unit = (begin + i) * kTileThreads + thread;
      const int b = unit % kAlongB * W, a = unit / kAlongB * kRows;
#pragma unroll
      for (int w = 0; w < W; ++w) {
        Pack<Bits, kRows> word;
#pragma unroll
        for (int r = 0; r < kRows; ++r) word.values[r] = loaded[i][r].values[w];
        *reinterpret_cast<Pack<Bits, kRows>*>(tile + place_in_tile<Bits>(b + w, a)) = word;
      }
    }
  }
  __syncthreads();
#pragma unroll 1
  for (int begin = 0; begin < kStores; begin += kStoresAtOnce) {
#pragma unroll
    for (int i = 0; i < kStoresAtOnce; ++i) {
      const int unit = (begin + i) * kTileThreads + thread;
      const int a = unit % kAlongB * W, b = unit / kAlongB;
      if (first_a + a >= t.size_a || first_b + b >= t.size_b) continue;
      *reinterpret_cast<Pack<Bits, W>*>(out + offsets[0] + (first_b + b) * t.out_stride_b + first_a + a) =
          *reinterpret_cast<const Pack<Bits, W>*>(tile + place_in_tile<Bits>(b, a));
    }
  }
}

// The axis along which the source is contiguous, or 0 if no tile helps: axes shorter than half of a tile's side leave
// most of it empty.
template <class Bits>
int transposed_axis(const StridedPlan<2>& plan) {
  constexpr std::int64_t kLeast = kSide<Bits> / 2;
  if (plan.strides[0][0] != 1 || std::abs(plan.strides[1][0]) <= 1 || plan.sizes[0] < kLeast) return 0;
  for (int axis = 1; axis < plan.rank; ++axis) {
    if (plan.strides[1][axis] == 1 && plan.sizes[axis] >= kLeast) return axis;
  }
  return 0;
}

template <class Bits>
bool copy_transposed(const StridedPlan<2>& plan, int device, const Bits* in, Bits* out) {
  constexpr int kPack = static_cast<int>(kGroupBytes / sizeof(Bits));
  const int along = transposed_axis<Bits>(plan);
  if (along == 0) return false;
  StridedPlan<2> matrices = plan;
  matrices.rank = 0;
  matrices.numel = 1;
  bool packs = is_aligned<Bits, kPack>(in) && is_aligned<Bits, kPack>(out) && plan.sizes[0] % kPack == 0 &&
               plan.sizes[along] % kPack == 0 && plan.strides[1][0] % kPack == 0 && plan.strides[0][along] % kPack == 0;
  for (int axis = 1; axis < plan.rank; ++axis) {
    if (axis == along) continue;
    const int at = matrices.rank++;
    matrices.numel *= matrices.sizes[at] = plan.sizes[axis];
    for (int n = 0; n < 2; ++n) {
      matrices.strides[n][at] = plan.strides[n][axis];
      packs = packs && plan.strides[n][axis] % kPack == 0;
    }
  }
  const auto tiles = [](std::int64_t size) { return (size - 1) / kSide<Bits> + 1; };
  const std::int64_t tiles_a = tiles(plan.sizes[0]), tiles_b = tiles(plan.sizes[along]);
  const std::int64_t blocks = tiles_a * tiles_b * matrices.numel;
  if (blocks > std::numeric_limits<std::int32_t>::max()) return false;
  const Transposition t{plan.sizes[0],
                        plan.sizes[along],
                        plan.strides[1][0],
                        plan.strides[0][along],
                        static_cast<std::uint32_t>(tiles_a),
                        static_cast<std::uint32_t>(tiles_b),
                        matrices};
  const LaunchGeometry geometry{dim3(static_cast<unsigned>(blocks)), dim3(kTileThreads)};
  launch(packs ? transpose_tiles<Bits, kPack> : transpose_tiles<Bits, 1>, geometry, device, t, in, out);
  return true;
}

template <class Bits>
void copy_bits(const Tensor& src, Tensor& dst) {
  if (!src.is_contiguous() || !dst.is_contiguous()) {
    const StridedPlan<2> plan = make_strided_plan<2>(dst.shape(), {dst.strides(), src.strides()});
    const auto* in = static_cast<const Bits*>(src.raw_data());
    auto* out = static_cast<Bits*>(dst.raw_mutable_data());
    const int device = dst.device().index;
    if (copy_transposed(plan, device, in, out) || detail::copy_interleaved(plan, device, in, out)) return;
  }
  elementwise<Bits(Bits)>(Convert<Bits>{}, dst, src);
}

}  // namespace

void copy_strided(const Tensor& src, Tensor& dst) {
  if (src.dtype() == dst.dtype()) {
    visit_bits(dst.dtype(), [&]<class Bits>() { copy_bits<Bits>(src, dst); });
    return;
  }
  visit(dst.dtype(), [&]<class To>() {
    visit(src.dtype(), [&]<class From>() {
      if constexpr (!std::is_same_v<To, From>) elementwise<To(From)>(Convert<To>{}, dst, src);
    });
  });
}

}  // namespace adjoint::cuda
