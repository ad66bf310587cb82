// Forward and backward of transposed convolutions, captured in a CUDA graph and replayed.
#ifdef ADJOINT_WITH_CUDA

#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/stream.h>
#include <adjoint/ops/conv/trio.h>
#include <adjoint/tests/support/conv_cuda.h>
#include <adjoint/tests/support/conv_layers.h>
#include <adjoint/tests/support/conv_problem.h>
#include <adjoint/tests/support/values.h>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

namespace adjoint::testing {
namespace {

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

class ConvGraphCuda : public ::testing::TestWithParam<ConvMode> {};

TEST_P(ConvGraphCuda, ReplaysForwardAndBackward) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  for (const ConvCase& c : conv_layers()) {
    SCOPED_TRACE(c);
    const PrecisionGuard precision(GetParam().precision);
    Step step(c, GetParam());
    step.run();  // loads the kernels' code, which a capture must not
    synchronize(kCUDA);
    Graph graph(Stream::create(), [&] { step.run(); });
    step.x.mul_(0.5);  // a graph reads the values at the time of its replay
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

INSTANTIATE_TEST_SUITE_P(Modes, ConvGraphCuda, ::testing::ValuesIn(kConvModes),
                         [](const auto& mode) { return std::string(mode.param.name); });

}  // namespace
}  // namespace adjoint::testing
#endif
