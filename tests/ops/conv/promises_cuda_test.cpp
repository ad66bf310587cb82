// What the trio promises on a GPU whichever kernel runs: the same bits from run to run, on any grid, at any address and
// beside other streams; replay from a CUDA graph; more elements than 32 bits count.
#ifdef ADJOINT_WITH_CUDA

#include <adjoint/core/cuda/multiprocessors.h>
#include <adjoint/core/stream.h>
#include <adjoint/core/tape.h>
#include <adjoint/ops/conv/trio.h>
#include <adjoint/tests/support/conv_cuda.h>
#include <adjoint/tests/support/conv_oracle.h>
#include <adjoint/tests/support/conv_problem.h>
#include <adjoint/tests/support/values.h>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace adjoint::testing {
namespace {

/// Twenty problems that between them reach every kernel: layers of networks, in small.
const std::vector<ConvCase>& layers() {
  static const std::vector<ConvCase> cases = {
      {.name = "line", .batch = 3, .in_channels = 128, .out_channels = 128, .input = {1, 700}, .kernel = {1, 3}},
      {.name = "dilated",
       .batch = 3,
       .in_channels = 32,
       .out_channels = 64,
       .input = {1, 1500},
       .kernel = {1, 5},
       .dilation = {1, 3}},
      {.name = "plane", .in_channels = 32, .out_channels = 32, .input = {40, 72}, .kernel = {3, 7}, .padding = {1, 3}},
      {.name = "dcgan8",
       .batch = 5,
       .in_channels = 192,
       .out_channels = 128,
       .input = {8, 8},
       .kernel = {4, 4},
       .stride = {2, 2},
       .padding = {1, 1}},
      {.name = "dcgan32",
       .batch = 3,
       .in_channels = 128,
       .out_channels = 64,
       .input = {32, 32},
       .kernel = {4, 4},
       .stride = {2, 2},
       .padding = {1, 1}},
      {.name = "rgb",
       .in_channels = 64,
       .out_channels = 3,
       .input = {33, 31},
       .kernel = {4, 4},
       .stride = {2, 2},
       .padding = {1, 1}},
      {.name = "unet", .in_channels = 96, .out_channels = 64, .input = {24, 24}, .kernel = {2, 2}, .stride = {2, 2}},
      {.name = "fsrcnn",
       .in_channels = 56,
       .out_channels = 1,
       .input = {40, 40},
       .kernel = {9, 9},
       .stride = {3, 3},
       .padding = {4, 4},
       .output_padding = {2, 2}},
      {.name = "hifigan8",
       .in_channels = 128,
       .out_channels = 64,
       .input = {1, 200},
       .kernel = {1, 16},
       .stride = {1, 8},
       .padding = {0, 4}},
      {.name = "hifigan2",
       .in_channels = 64,
       .out_channels = 32,
       .input = {1, 3000},
       .kernel = {1, 4},
       .stride = {1, 2},
       .padding = {0, 1}},
      {.name = "depthwise",
       .in_channels = 64,
       .out_channels = 64,
       .groups = 64,
       .input = {32, 32},
       .kernel = {4, 4},
       .stride = {2, 2},
       .padding = {1, 1}},
      {.name = "depthwise_line",
       .in_channels = 40,
       .out_channels = 40,
       .groups = 40,
       .input = {1, 2001},
       .kernel = {1, 7},
       .padding = {0, 3}},
      {.name = "four_a_group",
       .in_channels = 64,
       .out_channels = 64,
       .groups = 16,
       .input = {20, 21},
       .kernel = {3, 3},
       .stride = {2, 2},
       .padding = {1, 1}},
      {.name = "sixteen_a_group",
       .in_channels = 64,
       .out_channels = 96,
       .groups = 4,
       .input = {20, 45},
       .kernel = {3, 5},
       .stride = {2, 3},
       .padding = {1, 2},
       .dilation = {2, 1}},
      {.name = "empty_phases",
       .in_channels = 32,
       .out_channels = 48,
       .input = {16, 30},
       .kernel = {3, 3},
       .stride = {4, 4},
       .padding = {1, 1},
       .dilation = {2, 2}},
      {.name = "stride5",
       .in_channels = 32,
       .out_channels = 64,
       .input = {16, 32},
       .kernel = {3, 3},
       .stride = {5, 5},
       .padding = {1, 1},
       .dilation = {2, 2}},
      {.name = "odd", .in_channels = 67, .out_channels = 35, .input = {19, 53}, .kernel = {3, 3}, .padding = {1, 1}},
      {.name = "far_taps",
       .in_channels = 20,
       .out_channels = 24,
       .input = {30, 40},
       .kernel = {3, 3},
       .stride = {2, 2},
       .padding = {9, 9},
       .dilation = {9, 9}},
      {.name = "one_position", .batch = 20, .in_channels = 300, .out_channels = 100, .kernel = {4, 4}},
      {.name = "pointwise", .batch = 4, .in_channels = 80, .out_channels = 80, .input = {25, 25}},
  };
  return cases;
}

struct Call {
  cuda::ConvProblem problem;
  ConvOperands operands;
  std::int64_t count;  // elements of the result
};

Call real_call(cuda::ConvRole role, const ConvCase& c, const ConvMode& mode) {
  const ConvGeometry g = geometry(c);
  const ConvOperands operands = real_operands(role, g, mode.dtype, 2);
  return {conv_problem(role, g, mode, operands), operands, conv_sizes(role, g).out};
}

/// A fresh result of the kernel that the library chooses.
Tensor result_of(const Call& call) {
  Tensor out = Tensor::empty({call.count}, {.dtype = call.problem.dtype, .device = kCUDA});
  cuda::ConvProblem problem = call.problem;
  problem.out = out.raw_mutable_data();
  cuda::select_conv_kernel(problem).run(problem);
  return out;
}

Tensor displaced(const Tensor& tensor, std::int64_t offset) {
  if (!tensor.defined()) return {};
  Tensor out = Tensor::empty({tensor.numel() + offset}, tensor.options()).narrow(0, offset, tensor.numel());
  return out.copy_(tensor);
}

class ConvPromisesCuda : public ::testing::TestWithParam<ConvMode> {
 protected:
  void SetUp() override {
    if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  }
  /// check(call) for every layer and role.
  template <class Check>
  void for_each_call(Check check) {
    for (const ConvCase& c : layers()) {
      SCOPED_TRACE(c);
      for (const cuda::ConvRole role : kConvRoles) {
        SCOPED_TRACE(role_name(role));
        check(real_call(role, c, GetParam()));
      }
    }
  }
};

TEST_P(ConvPromisesCuda, AThousandRunsGiveTheSameBits) {
  for_each_call([](const Call& call) {
    const Tensor expected = result_of(call);
    Tensor different = Tensor::zeros({}, {.device = kCUDA});
    for (int run = 0; run < 1000; ++run) different.add_((result_of(call) != expected).to(kFloat32).sum());
    EXPECT_EQ(different.item<float>(), 0) << "elements in all runs";
  });
}

TEST_P(ConvPromisesCuda, TheGridDoesNotMatter) {
  for_each_call([](const Call& call) {
    const Tensor expected = result_of(call);
    for (const int multiprocessors : {1, 7, 50, 107}) {
      const cuda::LimitMultiprocessors limit(multiprocessors);
      expect_same_bits(std::to_string(multiprocessors) + " multiprocessors", result_of(call), expected);
    }
  });
}

TEST_P(ConvPromisesCuda, AddressesDoNotMatter) {
  for_each_call([](const Call& call) {
    const Tensor expected = result_of(call);
    for (std::int64_t offset = 1; offset < 16; ++offset) {
      Call moved = call;
      moved.operands = {displaced(call.operands.first, offset), displaced(call.operands.second, 3 * offset % 16),
                        displaced(call.operands.bias, offset)};
      moved.problem.first = moved.operands.first.raw_data();
      moved.problem.second = moved.operands.second.raw_data();
      if (call.problem.bias != nullptr) moved.problem.bias = moved.operands.bias.raw_data();
      Tensor out = displaced(expected, 5 * offset % 16);
      out.fill_(7.0);
      moved.problem.out = out.raw_mutable_data();
      cuda::select_conv_kernel(moved.problem).run(moved.problem);
      expect_same_bits("offset " + std::to_string(offset), out, expected);
    }
  });
}

TEST_P(ConvPromisesCuda, EightStreamsAtOnce) {
  std::vector<Call> calls;
  std::vector<Tensor> expected;
  for_each_call([&](const Call& call) {
    calls.push_back(call);
    expected.push_back(result_of(call));
  });
  synchronize(kCUDA);
  const auto work = [&](std::size_t first) {
    const Stream stream = Stream::create();
    const StreamGuard guard(stream);
    for (int round = 0; round < 10; ++round) {
      std::vector<Tensor> results;
      for (std::size_t i = 0; i < calls.size(); ++i) results.push_back(result_of(calls[(first + i) % calls.size()]));
      for (std::size_t i = 0; i < calls.size(); ++i) {
        expect_same_bits("call " + std::to_string(i), results[i], expected[(first + i) % calls.size()]);
      }
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 8; ++i) threads.emplace_back(work, 7 * i);
  for (std::thread& thread : threads) thread.join();
}

// ---- CUDA graphs.

/// Forward and backward of one layer, through the tape, into memory that stays.
struct Step {
  const ConvCase& c;
  Tensor x, w, b, dy;
  Tensor y, dx, dw, db;

  Step(const ConvCase& layer, const ConvMode& mode) : c(layer) {
    const ConvProblem p = real_problem(geometry(layer));
    const TensorOptions options{.dtype = mode.dtype, .device = kCUDA};
    const TensorOptions leaf{.dtype = mode.dtype, .device = kCUDA, .requires_grad = true};
    x = p.feature_tensor(leaf);
    w = p.filter_tensor(leaf);
    b = p.image_bias_tensor(leaf);
    dy = p.image_tensor(options);
    y = Tensor::empty(dy.shape(), options);
    dx = Tensor::empty(x.shape(), options);
    dw = Tensor::empty(w.shape(), options);
    db = Tensor::empty(b.shape(), options);
  }

  std::vector<Tensor*> results() { return {&y, &dx, &dw, &db}; }

  void run() {
    Tensor result;
    std::vector<Tensor> gradients;
    {
      Tape tape;
      result = conv_transpose(x, w, b, geometry(c));
      gradients = tape.gradient(result, {x, w, b}, {.grad_output = dy});
    }
    y.copy_(result.detach());
    dx.copy_(gradients[0]);
    dw.copy_(gradients[1]);
    db.copy_(gradients[2]);
  }
};

class Graph {
 public:
  template <class Work>
  Graph(const Stream& stream, Work work) : stream_(stream) {
    const StreamGuard guard(stream_);
    EXPECT_EQ(cudaStreamBeginCapture(stream_.handle(), cudaStreamCaptureModeThreadLocal), cudaSuccess);
    work();
    EXPECT_EQ(cudaStreamEndCapture(stream_.handle(), &graph_), cudaSuccess);
    EXPECT_EQ(cudaGraphInstantiate(&executable_, graph_, 0), cudaSuccess);
  }
  ~Graph() {
    cudaGraphExecDestroy(executable_);
    cudaGraphDestroy(graph_);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void replay() {
    EXPECT_EQ(cudaGraphLaunch(executable_, stream_.handle()), cudaSuccess);
    stream_.synchronize();
  }

 private:
  Stream stream_;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
};

TEST_P(ConvPromisesCuda, AGraphReplaysForwardAndBackward) {
  for (const ConvCase& c : layers()) {
    SCOPED_TRACE(c);
    const PrecisionGuard precision(GetParam().precision);
    Step step(c, GetParam());
    step.run();  // loads the kernels' code, which a capture must not
    synchronize(kCUDA);
    Graph graph(Stream::create(), [&] { step.run(); });
    step.x.mul_(0.5);  // what the graph reads is what is there when it is replayed
    step.run();
    std::vector<Tensor> expected;
    for (Tensor* result : step.results()) {
      expected.push_back(result->clone());
      result->fill_(7.0);
    }
    synchronize(kCUDA);
    graph.replay();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      expect_same_bits("result " + std::to_string(i), *step.results()[i], expected[i]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, ConvPromisesCuda, ::testing::ValuesIn(kConvModes),
                         [](const auto& mode) { return std::string(mode.param.name); });

// ---- Size.

constexpr std::int64_t kEnd = 16;  // positions at either end of a long row that are not zero

/// (1, channels, length) on the GPU: zeros between the two halves of `ends`, (channels, 2 * kEnd).
Tensor long_rows(const std::vector<double>& ends, std::int64_t channels, std::int64_t length, DType dtype) {
  Tensor result = Tensor::zeros({1, channels, length}, {.dtype = dtype, .device = kCUDA});
  const Tensor values = Tensor::from_vector<double>(ends, {1, channels, 2 * kEnd}, {.dtype = dtype, .device = kCUDA});
  result.narrow(2, 0, kEnd).copy_(values.narrow(2, 0, kEnd));
  result.narrow(2, length - kEnd, kEnd).copy_(values.narrow(2, kEnd, kEnd));
  return result;
}

Tensor ends_of(const Tensor& rows, std::int64_t count) {
  const std::int64_t length = rows.size(2);
  Tensor ends = Tensor::empty({1, rows.size(1), 2 * count}, {.dtype = rows.dtype()});
  ends.narrow(2, 0, count).copy_(rows.narrow(2, 0, count).contiguous().to(kCPU));
  ends.narrow(2, count, count).copy_(rows.narrow(2, length - count, count).contiguous().to(kCPU));
  return ends;
}

// Rows so long that feature and image have more than 2^31 elements, zero but for their ends; the expected values are
// those of short rows with the same ends.
void expect_long_rows_are_exact(const ConvMode& mode) {
  constexpr std::int64_t kChannels = 16;
  ConvGeometry small{.rank = 1, .image_channels = kChannels, .feature_channels = kChannels, .kernel = {1, 3}};
  small.feature = {1, 2 * kEnd};
  small.image = {1, 2 * kEnd};
  small.padding = {0, 1};
  ConvGeometry large = small;
  large.image[1] = large.feature[1] = (std::int64_t{1} << 27) + 5;
  ConvProblem p = integer_problem(small);
  // The middle of the short rows is the long rows' zeros.
  for (std::vector<double>* rows : {&p.image, &p.feature}) {
    for (std::size_t i = 0; i < rows->size(); ++i) {
      const auto position = static_cast<std::int64_t>(i) % (2 * kEnd);
      if (position >= kEnd - 3 && position < kEnd + 3) (*rows)[i] = 0;
    }
  }
  const Tensor filter = p.filter_tensor({.dtype = mode.dtype, .device = kCUDA});
  const Tensor feature = long_rows(p.feature, kChannels, large.feature[1], mode.dtype);
  {
    const Tensor image = long_rows(p.image, kChannels, large.image[1], mode.dtype);
    expect_values("conv", ends_of(conv(image, filter, {}, large), kEnd), oracle::conv(small, p.image, p.filter, {}));
    expect_values("conv_weight", conv_weight(image, feature, large), oracle::conv_weight(small, p.image, p.feature));
  }
  expect_values("conv_transpose", ends_of(conv_transpose(feature, filter, {}, large), kEnd),
                oracle::conv_transpose(small, p.feature, p.filter, {}));
}

TEST(ConvLongRowsCuda, MoreThan31BitsCountAreExact) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  for (const ConvMode& mode : kConvModes) {
    SCOPED_TRACE(mode.name);
    const PrecisionGuard precision(mode.precision);
    expect_long_rows_are_exact(mode);
  }
}

}  // namespace
}  // namespace adjoint::testing
#endif
