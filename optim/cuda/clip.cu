// Clipping on CUDA. A norm is one launch for each dtype and 64 tensors, then one block for all chunks; its order
// depends on the sizes alone.
#include <adjoint/core/convert.h>
#include <adjoint/optim/clip_kernels.h>
#include <adjoint/optim/cuda/batched.cuh>

namespace adjoint::optim::cuda {
namespace {

using adjoint::cuda::launch;
using adjoint::cuda::LaunchGeometry;
using adjoint::cuda::Workspace;

// The threads' values combined by halves; the result is thread 0's.
__device__ double combine_block(const Norm& rule, double value) {
  __shared__ double values[kThreads];
  values[threadIdx.x] = value;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < half) {
      values[threadIdx.x] = rule.combine(values[threadIdx.x], values[threadIdx.x + half]);
    }
  }
  return values[0];
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    norm_of_chunks(const __grid_constant__ Table<Piece> table, Norm rule, double* parts) {
  std::int64_t begin, end;
  const T* const data = static_cast<const T*>(table.find(begin, end).data);
  double total = 0.0;
#pragma unroll 4
  for (std::int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
    const auto value = convert<double>(data[i]);
    if (rule.found_inf != nullptr && !is_finite(value)) *rule.found_inf = 1.0F;  // all that write it write the same
    total = rule.combine(total, rule.element(value));
  }
  total = combine_block(rule, total);
  if (threadIdx.x == 0) parts[blockIdx.x] = total;
}

__global__ void __launch_bounds__(kThreads)
    norm_of_parts(Norm rule, const double* parts, std::int64_t count, double* norm) {
  double total = 0.0;
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
    if (!is_finite(value)) *found_inf = 1.0F;  // all that write it write the same
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
#pragma unroll 4
  for (std::int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
    data[i] = convert<T>(f(convert<compute_t<T>>(data[i])));
  }
}

// run.operator()<T>(table, geometry) for the tables of each dtype that is there.
template <class Run>
void for_each_table_by_dtype(const std::vector<Piece>& pieces, const Run& run) {
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
    visit_floating(dtype, [&]<class T>() {
      for_each_table(
          pieces, [&](const Piece& piece) { return piece.dtype == dtype; },
          [&](const Table<Piece>& table, const LaunchGeometry& geometry) {
            run.template operator()<T>(table, geometry);
          });
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
  for (const Piece& piece : pieces) chunks += chunks_of(piece.numel);
  if (chunks == 0) return;  // the norm of nothing is the 0 that is there
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
