// Clipping on CUDA. A norm is one launch for each dtype and 64 tensors, then one block for all chunks; the sizes alone
// determine its order.
#include <adjoint/core/tensor/convert.h>
#include <adjoint/optim/clip_kernels.h>
#include <adjoint/optim/cuda/batched.cuh>

namespace adjoint::optim::cuda {
namespace {

using adjoint::cuda::launch;
using adjoint::cuda::LaunchGeometry;
using adjoint::cuda::Workspace;

// Elements per load.
template <class T>
constexpr int kPack = static_cast<int>(16 / sizeof(T));

// Elements per block: as many bytes for 16-bit elements as for float32, all in flight together.
constexpr std::int64_t chunk_elements(std::size_t element_size) { return element_size == 2 ? 2 * kChunk : kChunk; }

// Combines the threads' values by halves; thread 0 gets the result.
__device__ double combine_block(const Norm& rule, double value) {
  __shared__ double values[kThreads];
  values[threadIdx.x] = value;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (half >= 32) {
      __syncthreads();
    } else {
      __syncwarp();  // only the first warp
    }
    if (static_cast<int>(threadIdx.x) < half) {
      values[threadIdx.x] = rule.combine(values[threadIdx.x], values[threadIdx.x + half]);
    }
  }
  return values[0];
}

// Adds the squares of the pack's first `count` 16-bit elements to `total`. Each square is exact in float32, and their
// sum has only a few roundings, so one number is converted to double. Converting each element would be slower than
// reading their bytes. Returns false, and adds nothing, if float32 cannot hold the sum: the squares are too large, or
// so small that digits may be lost.
template <class T>
__device__ bool add_squares(const Pack<T, kPack<T>>& pack, int count, double& total) {
  constexpr float kLeast = 0x1p-90F, kMost = 0x1p120F;
  float sum = 0.0F;
#pragma unroll
  for (int k = 0; k < kPack<T>; ++k) {
    const auto value = k < count ? static_cast<float>(pack.values[k]) : 0.0F;
    sum += value * value;
  }
  const bool holds = sum >= kLeast && sum <= kMost;
  if (holds) total += static_cast<double>(sum);
  return holds;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    norm_of_chunks(const __grid_constant__ Table<Piece> table, Norm rule, double* parts) {
  std::int64_t begin, end;
  const T* const data = static_cast<const T*>(table.find(begin, end).data);
  // Loads all of a thread's packs before it looks at the first: the flag's store might change values that are loaded
  // after it. Misaligned addresses do not change the order.
  constexpr int kPacks = static_cast<int>(chunk_elements(sizeof(T))) / kThreads / kPack<T>;
  const bool aligned = is_aligned<T, kPack<T>>(data);
  Pack<T, kPack<T>> packs[kPacks];
  int counts[kPacks];
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const std::int64_t i = begin + (p * kThreads + threadIdx.x) * kPack<T>;
    counts[p] = static_cast<int>(std::clamp<std::int64_t>(end - i, 0, kPack<T>));
    packs[p] = load_pack<kPack<T>>(data + i, counts[p], aligned && counts[p] == kPack<T>);
  }
  // Squares of types below float64 are far from its limits, so their sum is finite if all numbers are.
  const bool squares = rule.p == 2.0 && !std::is_same_v<T, double>;
  double total = 0.0;
  bool finite = true;
  const auto each = [&](int p, const auto& use) {
#pragma unroll
    for (int k = 0; k < kPack<T>; ++k) {
      if (k < counts[p]) use(convert<double>(packs[p].values[k]));
    }
  };
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    if (!squares) {
      each(p, [&](double value) {
        finite = finite && is_finite(value);
        total = rule.combine(total, rule.element(value));
      });
    } else if (!is_reduced_float<T> || !add_squares(packs[p], counts[p], total)) {
      each(p, [&](double value) { total += value * value; });
    }
  }
  if (squares) finite = is_finite(total);
  if (rule.found_inf != nullptr && !finite) *rule.found_inf = 1.0F;  // all writers write the same value
  total = combine_block(rule, total);
  if (threadIdx.x == 0) parts[blockIdx.x] = total;
}

__global__ void __launch_bounds__(kThreads)
    norm_of_parts(Norm rule, const double* parts, std::int64_t count, double* norm) {
  double total = 0.0;
#pragma unroll 8
  for (std::int64_t i = threadIdx.x; i < count; i += kThreads) total = rule.combine(total, parts[i]);
  total = combine_block(rule, total);
  if (threadIdx.x == 0) *norm = rule.finish(total);
}

struct Scale {
  const double* norm;
  double max_norm;
  template <class C>
  __device__ C operator()(C value) const {
    return value * static_cast<C>(clip_factor(*norm, max_norm));
  }
};

struct Clamp {
  double bound;
  template <class C>
  __device__ C operator()(C value) const {
    const C limit = static_cast<C>(bound);
    return value > limit ? limit : value < -limit ? -limit : value;
  }
};

struct Unscale {
  const float* scale;
  float* found_inf;
  template <class C>
  __device__ C operator()(C value) const {
    if (!is_finite(value)) *found_inf = 1.0F;  // all writers write the same value
    return value * static_cast<C>(inverse(scale));
  }
};

__global__ void update_scale_kernel(ScaleRule rule, float* scale, std::int64_t* growth_tracker,
                                    const float* found_inf) {
  rule(scale, growth_tracker, *found_inf);
}

template <class T, class F>
__global__ void __launch_bounds__(kThreads) map_kernel(const __grid_constant__ Table<Piece> table, F f) {
  std::int64_t begin, end;
  T* const data = static_cast<T*>(table.find(begin, end).data);
  const bool aligned = is_aligned<T, kPack<T>>(data);
  for (std::int64_t i = begin + threadIdx.x * kPack<T>; i < end; i += kThreads * kPack<T>) {
    const int count = static_cast<int>(std::min<std::int64_t>(kPack<T>, end - i));
    const bool whole = aligned && count == kPack<T>;
    Pack<T, kPack<T>> pack = load_pack<kPack<T>>(data + i, count, whole);
#pragma unroll
    for (int k = 0; k < kPack<T>; ++k) {
      if (k < count) pack.values[k] = convert<T>(f(convert<compute_t<T>>(pack.values[k])));
    }
    store_pack(pack, data + i, count, whole);
  }
}

// run.operator()<T>(table, geometry) for the tables of each dtype that occurs.
template <class Run>
void for_each_table_by_dtype(const std::vector<Piece>& pieces, const Run& run) {
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
    visit_floating(dtype, [&]<class T>() {
      for_each_table(
          pieces, [&](const Piece& piece) { return piece.dtype == dtype; },
          [&](const Table<Piece>& table, const LaunchGeometry& geometry) {
            run.template operator()<T>(table, geometry);
          },
          chunk_elements(sizeof(T)));
    });
  }
}

template <class F>
void map(const std::vector<Piece>& pieces, const F& f, int device) {
  for_each_table_by_dtype(pieces, [&]<class T>(const Table<Piece>& table, const LaunchGeometry& geometry) {
    launch(map_kernel<T, F>, geometry, device, table, f);
  });
}

}  // namespace

void norm(const std::vector<Piece>& pieces, const Norm& rule, double* norm, int device) {
  std::int64_t chunks = 0;
  for (const Piece& piece : pieces) chunks += chunks_of(piece.numel, chunk_elements(element_size(piece.dtype)));
  if (chunks == 0) return;  // without elements the norm is the 0 that is already stored
  const Workspace workspace(static_cast<std::size_t>(chunks) * sizeof(double), device);
  auto* const parts = static_cast<double*>(workspace.data());
  std::int64_t done = 0;
  for_each_table_by_dtype(pieces, [&]<class T>(const Table<Piece>& table, const LaunchGeometry& geometry) {
    launch(norm_of_chunks<T>, geometry, device, table, rule, parts + done);
    done += table.first_chunk[table.count];
  });
  launch(norm_of_parts, {dim3(1), dim3(kThreads)}, device, rule, parts, chunks, norm);
}

void scale(const std::vector<Piece>& pieces, const double* norm, double max_norm, int device) {
  map(pieces, Scale{norm, max_norm}, device);
}

void clamp(const std::vector<Piece>& pieces, double bound, int device) { map(pieces, Clamp{bound}, device); }

void unscale(const std::vector<Piece>& pieces, const float* scale, float* found_inf, int device) {
  map(pieces, Unscale{scale, found_inf}, device);
}

void update_scale(const ScaleRule& rule, float* scale, std::int64_t* growth_tracker, const float* found_inf,
                  int device) {
  launch(update_scale_kernel, {dim3(1), dim3(1)}, device, rule, scale, growth_tracker, found_inf);
}

}  // namespace adjoint::optim::cuda
