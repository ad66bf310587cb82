// Checks and times the tensor-core kernels of conv and conv_transpose alone, without the library:
//   nvcc -gencode=arch=compute_90a,code=sm_90a -std=c++20 --expt-relaxed-constexpr -I<include> -cudart static
// Exact on small integers over geometries, alignments and grids; then random data and times over the benchmark's cases.
#include <adjoint/ops/conv/cuda/correlation_select.cuh>

#include <cuda_runtime.h>

#include <algorithm>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

using namespace adjoint;
using namespace adjoint::cuda;

#define CHECK(call)                                                                         \
  do {                                                                                      \
    const cudaError_t status = (call);                                                      \
    if (status != cudaSuccess) {                                                            \
      std::printf("%s:%d %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(status)); \
      std::fflush(stdout);                                                                  \
      std::exit(1);                                                                         \
    }                                                                                       \
  } while (0)

template <Arithmetic kArithmetic>
cudaError_t enqueue(const CorrelationPlan& plan, CorrelationOperands operands, const void* filter, void* blocks,
                    int grid) {
  const dim3 pack_grid = correlation::pack_grid(plan);
  if (plan.blocks_per_group > 0) {
    correlation::pack_filter_kernel<kArithmetic><<<pack_grid, 256>>>(plan, filter, static_cast<std::uint32_t*>(blocks));
    if (const cudaError_t status = cudaGetLastError(); status != cudaSuccess) return status;
  }
  operands.filter_blocks = blocks;
  const correlation::Kernel kernel = correlation::select_kernel<kArithmetic>(plan);
  const auto smem_bytes = static_cast<int>(correlation_smem_bytes(plan));
  const cudaError_t allowed = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, smem_bytes);
  if (allowed != cudaSuccess) return allowed;
  kernel<<<grid, 128 * (plan.consumers + 1), smem_bytes>>>(plan, operands);
  return cudaGetLastError();
}

__device__ float hash_value(std::uint64_t i, std::uint32_t seed, bool integers) {
  std::uint64_t z = (i + 1) * 0x9e3779b97f4a7c15ULL + seed * 0xd1b54a32d192ed03ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  z ^= z >> 31;
  if (integers) return static_cast<float>(static_cast<int>(z % 9) - 4);
  return static_cast<float>(static_cast<double>(z >> 11) * 0x1p-52 - 1.0);
}

template <class T>
__global__ void fill(T* p, std::int64_t n, std::uint32_t seed, bool integers) {
  for (std::int64_t i = blockIdx.x * 256LL + threadIdx.x; i < n; i += gridDim.x * 256LL) {
    p[i] = from_float<T>(hash_value(static_cast<std::uint64_t>(i), seed, integers));
  }
}

/// worst[0]: the largest |out - reference| / (sum of |terms| + |bias|), as float bits; worst[1]: outputs that differ at
/// all.
template <class T>
__global__ void verify(ConvGeometry g, bool transposed, const T* x, const T* w, const T* bias, const T* out,
                       std::int64_t step, unsigned* worst) {
  const std::int64_t total = transposed ? g.image_numel() : g.feature_numel();
  const std::int64_t ci = g.image_channels_per_group(), cf = g.feature_channels_per_group();
  for (std::int64_t at = (blockIdx.x * 256LL + threadIdx.x) * step; at < total; at += gridDim.x * 256LL * step) {
    const Extent2& extent = transposed ? g.image : g.feature;
    const std::int64_t ow = at % extent[1], oh = at / extent[1] % extent[0];
    const std::int64_t channels = transposed ? g.image_channels : g.feature_channels;
    const std::int64_t c = at / (extent[0] * extent[1]) % channels, n = at / (extent[0] * extent[1]) / channels;
    const std::int64_t group = c / (transposed ? ci : cf);
    double sum = bias ? static_cast<double>(to_float(bias[c])) : 0, size = fabs(sum);
    for (std::int64_t kh = 0; kh < g.kernel[0]; ++kh) {
      for (std::int64_t kw = 0; kw < g.kernel[1]; ++kw) {
        std::int64_t h, v;
        if (transposed) {
          h = oh + g.padding[0] - kh * g.dilation[0];
          v = ow + g.padding[1] - kw * g.dilation[1];
          if (h < 0 || v < 0 || h % g.stride[0] || v % g.stride[1]) continue;
          h /= g.stride[0];
          v /= g.stride[1];
          if (h >= g.feature[0] || v >= g.feature[1]) continue;
        } else {
          h = image_position(oh, kh, g.stride[0], g.padding[0], g.dilation[0]);
          v = image_position(ow, kw, g.stride[1], g.padding[1], g.dilation[1]);
          if (h < 0 || v < 0 || h >= g.image[0] || v >= g.image[1]) continue;
        }
        for (std::int64_t k = 0; k < (transposed ? cf : ci); ++k) {
          const std::int64_t feature = transposed ? group * cf + k : c, image = transposed ? c - group * ci : k;
          const double weight = to_float(w[((feature * ci + image) * g.kernel[0] + kh) * g.kernel[1] + kw]);
          const std::int64_t plane =
              transposed ? (n * g.feature_channels + feature) : n * g.image_channels + group * ci + k;
          const Extent2& in = transposed ? g.feature : g.image;
          const double term = weight * to_float(x[(plane * in[0] + h) * in[1] + v]);
          sum += term;
          size += fabs(term);
        }
      }
    }
    const double got = to_float(out[at]);
    const double rounded = to_float(from_float<T>(static_cast<float>(sum)));
    const double error = fabs(got - rounded) / (size > 0 ? size : 1);
    if (!(got == rounded)) atomicAdd(worst + 1, 1u);
    const float bits = error == error ? static_cast<float>(error) : 1e30f;
    atomicMax(worst, __float_as_uint(bits));
  }
}

struct Case {
  const char* name;
  std::int64_t n, cin, cout, groups;
  Extent2 feature, kernel, stride, padding, dilation, output_padding;
};

ConvGeometry geometry_of(const Case& c) {
  ConvGeometry g;
  g.batch = c.n;
  g.feature_channels = c.cin;
  g.image_channels = c.cout;
  g.groups = c.groups;
  g.feature = c.feature;
  g.kernel = c.kernel;
  g.stride = c.stride;
  g.padding = c.padding;
  g.dilation = c.dilation;
  for (int a = 0; a < 2; ++a) {
    g.image[a] = (c.feature[a] - 1) * c.stride[a] - 2 * c.padding[a] + c.dilation[a] * (c.kernel[a] - 1) +
                 c.output_padding[a] + 1;
  }
  return g;
}

unsigned char *buffer_x, *buffer_w, *buffer_out, *buffer_blocks, *buffer_bias;
unsigned* worst;
constexpr std::int64_t kBig = 2300LL << 20, kSmall = 512LL << 20;

struct Result {
  bool ran = false;
  float error = 0, ms = 0;
  unsigned differing = 0;
};

template <Arithmetic kArithmetic>
Result run(const ConvGeometry& g, bool transposed, bool integers, int offset, int grid, int repeats,
           std::int64_t verify_step) {
  using Traits = ArithmeticTraits<kArithmetic>;
  using T = typename Traits::Element;
  Result result;
  static CorrelationPlan plan;
  if (!plan_correlation(g, transposed, Traits::kHalf ? 2 : 1, Traits::kSplit, {}, plan)) return result;
  const std::int64_t nx = transposed ? g.feature_numel() : g.image_numel(),
                     no = transposed ? g.image_numel() : g.feature_numel();
  const std::int64_t channels = transposed ? g.image_channels : g.feature_channels;
  T* x = reinterpret_cast<T*>(buffer_x) + offset;
  T* w = reinterpret_cast<T*>(buffer_w) + offset;
  T* bias = reinterpret_cast<T*>(buffer_bias) + offset;
  T* out = reinterpret_cast<T*>(buffer_out) + offset;
  static std::uint32_t seed = 1;
  fill<<<1024, 256>>>(x, nx, ++seed, integers);
  fill<<<1024, 256>>>(w, g.filter_numel(), ++seed, integers);
  fill<<<16, 256>>>(bias, channels, ++seed, integers);
  CHECK(cudaMemset(out, 0xff, static_cast<std::size_t>(no) * sizeof(T)));
  CHECK(cudaMemset(buffer_blocks, 0xff, 1 << 20));
  CHECK(cudaMemset(worst, 0, 8));
  CorrelationOperands operands{x, nullptr, bias, out, 1, 1};
  if (plan.in_stride_w == 1) operands.load_vector = row_vector(x, plan.in_w, sizeof(T));
  if (plan.out_stride_w == 1) operands.store_vector = row_vector(out, plan.out_w, sizeof(T));
  const int blocks = static_cast<int>(std::min<std::int64_t>(grid > 0 ? grid : 132 * plan.blocks_per_sm, plan.tiles()));
  CHECK(enqueue<kArithmetic>(plan, operands, w, buffer_blocks, blocks));
  verify<<<2048, 256>>>(g, transposed, x, w, bias, out, verify_step, worst);
  unsigned host[2];
  CHECK(cudaMemcpy(host, worst, 8, cudaMemcpyDeviceToHost));
  std::memcpy(&result.error, host, 4);
  result.differing = host[1];
  result.ran = true;
  if (repeats > 0) {
    std::vector<float> times;
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    for (int i = 0; i < repeats; ++i) {
      CHECK(cudaEventRecord(begin));
      CHECK(enqueue<kArithmetic>(plan, operands, w, buffer_blocks, blocks));
      CHECK(cudaEventRecord(end));
      CHECK(cudaEventSynchronize(end));
      float ms;
      CHECK(cudaEventElapsedTime(&ms, begin, end));
      times.push_back(ms);
    }
    std::sort(times.begin(), times.end());
    result.ms = times[times.size() / 2];
  }
  return result;
}

Result run_any(int arithmetic, const ConvGeometry& g, bool transposed, bool integers, int offset, int grid, int repeats,
               std::int64_t verify_step) {
  switch (arithmetic) {
    case 0: return run<Arithmetic::kTF32>(g, transposed, integers, offset, grid, repeats, verify_step);
    case 1: return run<Arithmetic::kFloat32>(g, transposed, integers, offset, grid, repeats, verify_step);
    case 2: return run<Arithmetic::kBFloat16>(g, transposed, integers, offset, grid, repeats, verify_step);
    default: return run<Arithmetic::kFloat16>(g, transposed, integers, offset, grid, repeats, verify_step);
  }
}

const Case kTimed[] = {
    {"seed64", 64, 128, 128, 1, {1, 65536}, {1, 3}, {1, 1}, {0, 0}, {1, 1}, {0, 0}},
    {"seed74", 32, 32, 64, 1, {1, 131072}, {1, 5}, {1, 1}, {0, 0}, {1, 3}, {0, 0}},
    {"seed78", 8, 32, 32, 1, {512, 1024}, {3, 7}, {1, 1}, {1, 3}, {1, 1}, {0, 0}},
    {"dcgan2", 128, 512, 256, 1, {8, 8}, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {0, 0}},
    {"dcgan4", 128, 128, 64, 1, {32, 32}, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {0, 0}},
    {"unet", 16, 256, 128, 1, {64, 64}, {2, 2}, {2, 2}, {0, 0}, {1, 1}, {0, 0}},
    {"fsrcnn", 16, 56, 1, 1, {256, 256}, {9, 9}, {3, 3}, {4, 4}, {1, 1}, {2, 2}},
    {"hifi0", 16, 512, 256, 1, {1, 512}, {1, 16}, {1, 8}, {0, 4}, {1, 1}, {0, 0}},
    {"hifi2", 16, 128, 64, 1, {1, 32768}, {1, 4}, {1, 2}, {0, 1}, {1, 1}, {0, 0}},
};

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::string(argv[1]) == "check";
  CHECK(cudaMalloc(&buffer_x, kBig));
  CHECK(cudaMalloc(&buffer_out, kBig));
  CHECK(cudaMalloc(&buffer_w, kSmall));
  CHECK(cudaMalloc(&buffer_blocks, kSmall));
  CHECK(cudaMalloc(&buffer_bias, 1 << 20));
  CHECK(cudaMalloc(&worst, 8));
  const Case fixed[] = {
      {"one chunk", 1, 16, 16, 1, {1, 256}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, {0, 0}},
      {"stride1", 2, 20, 18, 1, {1, 300}, {1, 3}, {1, 1}, {0, 0}, {1, 1}, {0, 0}},
      {"columns128", 2, 40, 130, 1, {1, 1001}, {1, 3}, {1, 1}, {0, 1}, {1, 1}, {0, 0}},
      {"columns64", 2, 40, 64, 1, {1, 1024}, {1, 3}, {1, 1}, {0, 1}, {1, 1}, {0, 0}},
      {"dilation", 1, 3, 5, 1, {9, 21}, {3, 2}, {1, 1}, {2, 1}, {2, 3}, {0, 0}},
      {"stride2", 3, 6, 40, 1, {8, 8}, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {0, 0}},
      {"wide stride2", 3, 70, 64, 1, {24, 88}, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {0, 0}},
      {"sparse", 1, 4, 3, 1, {5, 6}, {2, 1}, {3, 4}, {0, 0}, {1, 1}, {1, 2}},
      {"factor", 2, 3, 4, 1, {6, 7}, {3, 3}, {2, 4}, {1, 3}, {2, 6}, {0, 1}},
      {"phases", 1, 9, 1, 1, {51, 130}, {9, 9}, {3, 3}, {4, 4}, {1, 1}, {2, 2}},
      {"groups", 2, 12, 8, 4, {5, 9}, {3, 5}, {2, 1}, {1, 2}, {1, 2}, {1, 0}},
      {"stride8", 1, 33, 17, 1, {1, 270}, {1, 16}, {1, 8}, {0, 4}, {1, 1}, {0, 0}},
      {"one pixel", 5, 70, 3, 1, {1, 1}, {4, 4}, {1, 1}, {0, 0}, {1, 1}, {0, 0}},
      {"far taps", 1, 18, 17, 1, {40, 50}, {3, 3}, {2, 2}, {19, 19}, {19, 19}, {1, 1}},
      {"many weights", 2, 300, 260, 1, {9, 17}, {5, 5}, {1, 1}, {2, 2}, {1, 1}, {0, 0}},
  };
  const char* names[] = {"tf32", "float32", "bf16", "fp16"};
  int failures = 0, ran = 0;
  std::mt19937 random(argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 5);
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  const auto check = [&](const Case& c, const ConvGeometry& g) {
    for (int arithmetic = 0; arithmetic < 4; ++arithmetic) {
      for (const bool transposed : {true, false}) {
        const int offset = static_cast<int>(draw(0, 3)) * static_cast<int>(draw(0, 3)),
                  grid = draw(0, 1) ? 0 : static_cast<int>(draw(1, 7));
        const Result r = run_any(arithmetic, g, transposed, true, offset, grid, 0, 1);
        ++ran;
        if (!r.ran || r.differing != 0) {
          ++failures;
          std::printf(
              "FAIL %-12s %-7s %s offset %d grid %d: ran %d, %u differ, error %g | N %ld C %ld->%ld g %ld f %ldx%ld k "
              "%ldx%ld s %ldx%ld p %ldx%ld d %ldx%ld\n",
              c.name, names[arithmetic], transposed ? "conv_transpose" : "conv", offset, grid, r.ran, r.differing,
              r.error, g.batch, g.feature_channels, g.image_channels, g.groups, g.feature[0], g.feature[1], g.kernel[0],
              g.kernel[1], g.stride[0], g.stride[1], g.padding[0], g.padding[1], g.dilation[0], g.dilation[1]);
          std::fflush(stdout);
        }
      }
    }
  };
  for (const Case& c : fixed) check(c, geometry_of(c));
  std::printf("fixed cases: %d of %d fail\n", failures, ran);
  std::fflush(stdout);
  const int random_cases = argc > 3 ? std::atoi(argv[3]) : 100;
  for (int i = 0; i < random_cases && failures < 20; ++i) {
    const std::int64_t groups = draw(0, 3) == 0 ? draw(2, 3) : 1;
    Case c{"random",
           draw(1, 4),
           groups * draw(1, 90),
           groups * draw(1, 90),
           groups,
           {draw(1, 20), draw(1, 150)},
           {draw(1, 4), draw(1, 6)},
           {draw(1, 3), draw(1, 5)},
           {0, 0},
           {draw(1, 3), draw(1, 3)},
           {0, 0}};
    for (int a = 0; a < 2; ++a) {
      c.output_padding[a] = draw(0, std::max(c.stride[a], c.dilation[a]) - 1);
      c.padding[a] = draw(0, c.dilation[a] * (c.kernel[a] - 1));
      if (geometry_of(c).image[a] < 1) c.padding[a] = 0;
    }
    check(c, geometry_of(c));
  }
  std::printf("small integers, exact: %d of %d fail\n", failures, ran);
  std::fflush(stdout);
  if (quick) return failures != 0;

  std::printf("%-8s", "ms");
  for (const char* name : names) std::printf(" | %7s T %9s %7s C %9s", name, "err/eps", "", "err/eps");
  std::printf("\n");
  for (const Case& c : kTimed) {
    const ConvGeometry g = geometry_of(c);
    std::printf("%-8s", c.name);
    for (int arithmetic = 0; arithmetic < 4; ++arithmetic) {
      std::printf(" |");
      for (const bool transposed : {true, false}) {
        const std::int64_t total = transposed ? g.image_numel() : g.feature_numel();
        const Result r = run_any(arithmetic, g, transposed, false, 0, 0, 7, total / 20000 * 2 + 1);
        std::printf(" %9.4f %9.2f", r.ms, r.error * 0x1p24);
      }
    }
    std::printf("\n");
    std::fflush(stdout);
  }
  return failures != 0;
}
