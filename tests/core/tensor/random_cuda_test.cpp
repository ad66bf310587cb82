// Random numbers in a CUDA graph: the position is read from device memory, so that every replay draws the same numbers
// as a call would.
#ifdef ADJOINT_WITH_CUDA

#include <adjoint/core/base/stream.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/nn/activation.h>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace adjoint {
namespace {

/// The random numbers of a step: a uniform fill of an odd length, normal numbers in a strided tensor, and a Dropout.
struct Draws {
  nn::Dropout dropout{{.p = 0.25}};
  Tensor x = Tensor::ones({1001}, {.device = kCUDA});
  Tensor uniform = Tensor::zeros({3003}, {.dtype = kBFloat16, .device = kCUDA});
  Tensor normal = Tensor::zeros({40, 50}, {.device = kCUDA});
  Tensor dropped = Tensor::zeros({1001}, {.device = kCUDA});

  void draw(Generator& generator) {
    fill_uniform(uniform, 50.0, 51.0, generator);
    Tensor columns = normal.view_as({50, 40}, {1, 50}, 0);
    fill_normal(columns, 1.0, 2.0, generator);
    const GeneratorGuard guard(generator);
    dropped.copy_(dropout(x));
    generator.seek(default_generator().offset());
  }
  std::vector<std::vector<float>> values() const {
    return {uniform.to_vector<float>(), normal.to_vector<float>(), dropped.to_vector<float>()};
  }
};

TEST(RandomCuda, AGraphDrawsInEveryReplayWhatCallsWouldDraw) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  const Stream stream = Stream::create();
  const StreamGuard guard(stream);
  Draws draws;
  Generator called(5);
  std::vector<std::vector<std::vector<float>>> expected;
  for (int step = 0; step < 3; ++step) {
    draws.draw(called);
    expected.push_back(draws.values());
  }
  ASSERT_NE(expected[0], expected[1]);

  Tensor position = Tensor::zeros({}, {.dtype = kInt64, .device = kCUDA});
  Generator captured(5);
  captured.set_device_base(reinterpret_cast<const std::uint64_t*>(position.data<std::int64_t>()));
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(stream.handle(), cudaStreamCaptureModeThreadLocal), cudaSuccess);
  draws.draw(captured);
  ASSERT_EQ(cudaStreamEndCapture(stream.handle(), &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  const auto blocks = static_cast<double>(captured.offset());
  EXPECT_EQ(captured.offset() * 3, called.offset());
  for (const int step : {0, 1, 2, 1}) {
    position.fill_(step * blocks);
    ASSERT_EQ(cudaGraphLaunch(executable, stream.handle()), cudaSuccess);
    EXPECT_EQ(draws.values(), expected[static_cast<std::size_t>(step)]) << "step " << step;
  }
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
}

}  // namespace
}  // namespace adjoint

#endif
