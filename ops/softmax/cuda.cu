// softmax on CUDA. If some threads of a block can hold a row, it is read once, into registers, and written once, even
// if its elements are interleaved with neighbouring rows'. Otherwise a reduction computes each row's sum, and a second
// kernel writes; with many interleaved rows one thread does both for one row. Shapes alone determine the method.
#include <adjoint/core/cuda/pack.h>
#include <adjoint/ops/softmax/kernels.h>
#include <adjoint/core/cuda/lanes.cuh>
#include <adjoint/core/cuda/rows.cuh>
#include <adjoint/ops/reduce/cuda/reduce.cuh>

#include <algorithm>
#include <bit>
#include <limits>

namespace adjoint::cuda {
namespace {

constexpr int kThreads = 256;
// The most elements of a row that a thread holds, if V move together.
template <class Task, int V>
inline constexpr int kHeld = (V > 1 ? 32 : 16) / Task::kOperands;
constexpr std::int64_t kManyColumns = 32768;  // this many threads with one row each keep a GPU busy

/// Like the rule of logsumexp, which keeps the largest element and the sum.
template <class A>
struct KeepSum : reduce::LogSumExp<A, A> {
  using Out = typename reduce::LogSumExp<A, A>::Acc;
  __device__ Out finish(const Out& acc) const { return acc; }
};

template <class T, class R>
struct Forward {
  using From = T;
  using To = R;
  using A = compute_t<T>;
  using Rule = KeepSum<A>;
  using Sum = typename Rule::Acc;
  static constexpr int kOperands = 1;
  const T* in[1];
  bool log;

  using In = T;  // the input type of a reduction's source
  __device__ In load(std::int64_t i) const { return in[0][i]; }
  __device__ A value(In loaded, std::int64_t /*i*/) const { return convert<A>(loaded); }

  // Raises `largest` to x. NaN does not raise it, but makes the sum NaN.
  __device__ static void raise(A& largest, A x) { largest = scalar::select(x > largest, x, largest); }
  // The held value of an element, relative to the row's largest, and its part of the sum. It is NaN if all are
  // -infinity.
  __device__ A hold(A x, A largest) const { return log ? x - largest : scalar::exp(x - largest); }
  __device__ A term(const A (&held)[1]) const { return log ? scalar::exp(held[0]) : held[0]; }
  // The numbers that make a result: the largest, and the sum's inverse or logarithm. An infinity makes the whole row
  // NaN.
  __device__ Sum close(Sum sum) const {
    const A zero = sum.largest - sum.largest;
    return {sum.largest, (log ? scalar::log(sum.sum) : A{1} / sum.sum) + zero};
  }
  __device__ A of_held(const A (&held)[1], Sum sum) const { return log ? held[0] - sum.sum : held[0] * sum.sum; }
  __device__ A result(const A (&x)[1], Sum sum) const {
    const A held[1] = {hold(x[0], sum.largest)};
    return of_held(held, sum);
  }
};

template <class T, class R>
struct Gradient {
  using From = R;
  using To = T;
  using A = compute_t<T>;
  using Rule = reduce::Total<reduce::Sum, A, A>;
  using Sum = A;
  static constexpr int kOperands = 2;
  const R* in[2];  // the result's gradient, the result
  bool log;

  struct In {
    R g, y;
  };
  __device__ In load(std::int64_t i) const { return {in[0][i], in[1][i]}; }
  __device__ A value(In loaded, std::int64_t /*i*/) const {
    const A operands[2] = {convert<A>(loaded.g), convert<A>(loaded.y)};
    return term(operands);
  }

  __device__ A term(const A (&x)[2]) const { return log ? x[0] : x[0] * x[1]; }
  __device__ Sum close(Sum sum) const { return sum; }
  __device__ A of_held(const A (&held)[2], Sum sum) const { return result(held, sum); }
  __device__ A result(const A (&x)[2], Sum sum) const { return term(x) - (log ? scalar::exp(x[1]) : x[1]) * sum; }
};

// Combines the values that `lanes` threads have for a row, and returns the result in all of them. kBeside: for kSums
// rows, with other rows in neighbouring threads, through shared memory.
template <bool kBeside, class A, int kSums, class Combine>
__device__ void combine_held(A (&values)[kSums], A (*shared)[kThreads], int lanes, const Combine& combine) {
  if constexpr (kBeside) {
    const int thread = static_cast<int>(threadIdx.x), rows_here = kThreads / lanes;
    __syncthreads();  // another thread may still read the previous call's values
#pragma unroll
    for (int s = 0; s < kSums; ++s) shared[s][thread] = values[s];
    for (int half = lanes / 2; half > 0; half /= 2) {
      __syncthreads();
      if (thread >= half * rows_here) continue;
#pragma unroll
      for (int s = 0; s < kSums; ++s) {
        shared[s][thread] = combine(shared[s][thread], shared[s][thread + half * rows_here]);
      }
    }
    __syncthreads();
#pragma unroll
    for (int s = 0; s < kSums; ++s) values[s] = shared[s][thread % rows_here];
  } else {
    values[0] = combine_lanes<kThreads>(values[0], lanes, combine);
  }
}

// `lanes` threads, a power of two, hold a row of neighbouring elements, V of which move together, or (kBeside) V
// neighbouring rows whose elements are `inner` apart, with the next rows in neighbouring threads. `count`: the number
// of rows, or of groups of V.
template <class Task, int V, bool kBeside>
__global__ void __launch_bounds__(kThreads)
    softmax_held(Task task, std::int64_t count, std::int64_t extent, std::int64_t inner, RowSplit by_inner, int lanes,
                 typename Task::To* out) {
  using A = typename Task::A;
  using From = typename Task::From;
  using To = typename Task::To;
  using Sum = typename Task::Sum;
  constexpr int kPacks = kHeld<Task, V> / V, kOperands = Task::kOperands, kSums = kBeside ? V : 1;
  const int thread = static_cast<int>(threadIdx.x), rows_here = kThreads / lanes;
  const int lane = kBeside ? thread / rows_here : thread % lanes;
  const std::int64_t row = std::int64_t{blockIdx.x} * rows_here + (kBeside ? thread % rows_here : thread / lanes);
  const int end = row < count ? static_cast<int>(extent) : 0;
  std::int64_t beside = row;
  const std::int64_t outer = kBeside ? by_inner(beside) : row;
  const std::int64_t first = outer * extent * inner + (kBeside ? beside * V : 0);
  const auto at = [&](int p) { return (p * lanes + lane) * (kBeside ? 1 : V); };
  Pack<From, V> loaded[kPacks][kOperands];
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    if (at(p) >= end) continue;
#pragma unroll
    for (int operand = 0; operand < kOperands; ++operand) {
      loaded[p][operand] = *reinterpret_cast<const Pack<From, V>*>(task.in[operand] + first + at(p) * inner);
    }
  }
  A held[kPacks][V][kOperands];
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
#pragma unroll
    for (int operand = 0; operand < kOperands; ++operand) {
#pragma unroll
      for (int v = 0; v < V; ++v) held[p][v][operand] = convert<A>(loaded[p][operand].values[v]);
    }
  }
  // use(s, the held value of an element of row s)
  const auto each = [&](const auto& use) {
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      if (at(p) >= end) continue;
#pragma unroll
      for (int v = 0; v < V; ++v) use(kBeside ? v : 0, held[p][v]);
    }
  };
  __shared__ A shared[kBeside ? kSums : 1][kThreads];
  Sum sums[kSums];
  A totals[kSums];
  if constexpr (requires { task.hold(A{}, A{}); }) {
#pragma unroll
    for (A& total : totals) total = -std::numeric_limits<A>::infinity();
    each([&](int s, const A(&x)[1]) { task.raise(totals[s], x[0]); });
    const auto larger = [](A a, A b) { return scalar::select(b > a, b, a); };
    combine_held<kBeside>(totals, shared, lanes, larger);
    each([&](int s, A(&x)[1]) { x[0] = task.hold(x[0], totals[s]); });
#pragma unroll
    for (int s = 0; s < kSums; ++s) sums[s].largest = totals[s];
  }
#pragma unroll
  for (A& total : totals) total = A{0};
  each([&](int s, const A(&x)[kOperands]) { totals[s] += task.term(x); });
  combine_held<kBeside>(totals, shared, lanes, [](A a, A b) { return a + b; });
#pragma unroll
  for (int s = 0; s < kSums; ++s) {
    if constexpr (std::is_same_v<Sum, A>) {
      sums[s] = task.close(totals[s]);
    } else {
      sums[s] = task.close({sums[s].largest, totals[s]});
    }
  }
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    if (at(p) >= end) continue;
    Pack<To, V> pack;
#pragma unroll
    for (int v = 0; v < V; ++v) pack.values[v] = convert<To>(task.of_held(held[p][v], sums[kBeside ? v : 0]));
    *reinterpret_cast<Pack<To, V>*>(out + first + at(p) * inner) = pack;
  }
}

template <class Task>
__device__ typename Task::A result_at(const Task& task, std::int64_t i, typename Task::Sum sum) {
  typename Task::A operands[Task::kOperands];
#pragma unroll
  for (int operand = 0; operand < Task::kOperands; ++operand) {
    operands[operand] = convert<typename Task::A>(task.in[operand][i]);
  }
  return task.result(operands, sum);
}

// A thread has one row along the middle axis; if rows are short, the second read comes from a cache.
template <class Task>
__global__ void __launch_bounds__(kThreads)
    softmax_columns(Task task, std::int64_t columns, std::int64_t extent, std::int64_t inner, typename Task::To* out) {
  using Sum = typename Task::Sum;
  constexpr std::int64_t kBlock = 32;  // rounding errors grow with two short sums, not with one long sum
  const std::int64_t column = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (column >= columns) return;
  const std::int64_t first = column / inner * extent * inner + column % inner;
  const typename Task::Rule rule{};
  Sum sum = rule.identity();
  for (std::int64_t from = 0; from < extent; from += kBlock) {
    Sum part = rule.identity();
    const std::int64_t to = min(extent, from + kBlock);
    for (std::int64_t k = from; k < to; ++k) {
      const std::int64_t i = first + k * inner;
      part = rule.add(part, task.value(task.load(i), i));
    }
    sum = rule.combine(sum, part);
  }
  sum = task.close(sum);
  for (std::int64_t k = 0; k < extent; ++k) {
    const std::int64_t i = first + k * inner;
    out[i] = convert<typename Task::To>(result_at(task, i, sum));
  }
}

template <class Task>
__global__ void __launch_bounds__(kThreads)
    softmax_write(Task task, const typename Task::Sum* sums, std::int64_t numel, std::int64_t row_elements,
                  std::int64_t inner, typename Task::To* out) {
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < numel; i += step) {
    out[i] = convert<typename Task::To>(result_at(task, i, task.close(sums[i / row_elements * inner + i % inner])));
  }
}

LaunchGeometry over(std::int64_t threads) {
  constexpr std::int64_t kMostBlocks = std::int64_t{1} << 30;
  const std::int64_t blocks = (threads + kThreads - 1) / kThreads;
  return {dim3(static_cast<unsigned>(std::min(blocks, kMostBlocks))), dim3(kThreads)};
}

// Returns true if some threads of a block can hold a row.
template <class Task, int V, bool kBeside>
bool run_held(const Task& task, Tensor& out, const SoftmaxAttr& attr, bool aligned) {
  constexpr std::int64_t kPacks = kHeld<Task, V> / V;
  constexpr bool kSideways = kBeside && V > 1;
  // The target number of a row's elements per thread: many rows provide loads enough.
  constexpr std::int64_t kElements = kSideways ? kPacks : 8;
  // Interleaved rows: the 32 rows of a warp, or packs of 128 bytes; otherwise a warp's row needs no shared memory.
  constexpr std::int64_t kFew = kSideways ? 32 : kBeside ? kThreads / 32 : 32, kMost = kBeside ? kFew : kThreads;
  constexpr std::int64_t kHeldByLane = kBeside ? kPacks : kHeld<Task, V>;
  if ((attr.inner != 1) != kBeside || attr.extent > kMost * kHeldByLane || !aligned) return false;
  const auto wanted = std::bit_ceil(static_cast<std::uint64_t>((attr.extent + kElements - 1) / kElements));
  const int lanes = static_cast<int>(std::min<std::uint64_t>(wanted, attr.extent <= kFew * kHeldByLane ? kFew : kMost));
  const std::int64_t inner = attr.inner / (kBeside ? V : 1), count = attr.outer * inner;
  if (kSideways && count * lanes < kManyColumns) return false;
  launch(softmax_held<Task, V, kBeside>, over(count * lanes), out.device().index, task, count, attr.extent, attr.inner,
         RowSplit(std::max<std::int64_t>(inner, 1), count + kThreads), lanes, out.mutable_data<typename Task::To>());
  return true;
}

template <class Task>
void run(const Task& task, Tensor& out, const SoftmaxAttr& attr) {
  using Sum = typename Task::Sum;
  using From = typename Task::From;
  using To = typename Task::To;
  constexpr int kV = static_cast<int>(16 / std::max(sizeof(From), sizeof(To)));
  const int device = out.device().index;
  To* const result = out.mutable_data<To>();
  bool aligned = is_aligned<To, kV>(result);
  for (const From* in : task.in) aligned = aligned && is_aligned<From, kV>(in);
  if (run_held<Task, kV, false>(task, out, attr, aligned && attr.extent % kV == 0) ||
      run_held<Task, 1, false>(task, out, attr, true) ||
      run_held<Task, kV, true>(task, out, attr, aligned && attr.inner % kV == 0) ||
      run_held<Task, 1, true>(task, out, attr, true)) {
    return;
  }
  const std::int64_t columns = attr.outer * attr.inner;
  if (columns >= kManyColumns && attr.inner > 1) {
    return launch(softmax_columns<Task>, over(columns), device, task, columns, attr.extent, attr.inner, result);
  }
  Tensor sums = make_tensor({Shape{columns * static_cast<std::int64_t>(sizeof(Sum))}, kUInt8}, out.device());
  const ReduceAttr along{Shape{attr.outer, attr.extent, attr.inner}, 0b010, false, 1.0};
  run_reduce_stages(typename Task::Rule{}, task, sums, along);
  launch(softmax_write<Task>, over(out.numel()), device, task, static_cast<const Sum*>(sums.raw_data()), out.numel(),
         attr.extent * attr.inner, attr.inner, result);
}

}  // namespace

void softmax(std::span<const Tensor> in, Tensor& out, const SoftmaxAttr& attr) {
  visit_softmax(in[0].dtype(), out.dtype(), [&]<class T, class R>() {
    run(Forward<T, R>{{in[0].data<T>()}, attr.log}, out, attr);
  });
}

void softmax_gradient(std::span<const Tensor> in, Tensor& out, const SoftmaxAttr& attr) {
  visit_softmax(out.dtype(), in[0].dtype(), [&]<class T, class R>() {
    run(Gradient<T, R>{{in[0].data<R>(), in[1].data<R>()}, attr.log}, out, attr);
  });
}

}  // namespace adjoint::cuda
