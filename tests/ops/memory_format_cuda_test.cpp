// Operators of images in channels_last on a GPU: the values of contiguous operands, no conversion on the way, and
// channels that fill the kernels' packs, which the registry's small examples do not.
#ifdef ADJOINT_WITH_CUDA

#include <adjoint/adjoint.h>
#include <adjoint/core/cuda/launch_observer.h>
#include <adjoint/tests/support/kernel_names.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace adjoint {
namespace {

Tensor integers_in(const Shape& shape, DType dtype, std::uint64_t seed) {
  return Tensor::from_vector(testing::integers(shape.numel(), 3, seed), shape).to(dtype).to(kCUDA);
}

std::set<std::string> launched;

/// The names of the kernels that `f` launches.
std::set<std::string> launches_of(const std::function<void()>& f) {
  launched.clear();
  cuda::observe_launches(
      [](void* function) { launched.insert(testing::function_name(static_cast<CUfunction>(function))); });
  f();
  cuda::observe_launches(nullptr);
  return launched;
}

struct Step {
  Tensor value;
  std::vector<Tensor> gradients;
};

using Net = std::function<Tensor(const std::vector<Tensor>&)>;

Step step(const Net& net, std::vector<Tensor> in) {
  for (Tensor& x : in) x = x.detach().requires_grad_();
  Tape tape;
  Step found;
  found.value = net(in);
  (found.value * found.value).sum().backward();
  for (const Tensor& x : in) found.gradients.push_back(x.grad());
  return found;
}

class MemoryFormatCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda_is_available()) GTEST_SKIP() << "needs a CUDA device";
  }
};

TEST_F(MemoryFormatCuda, TakesVolumes) {
  const auto nets = std::vector<std::pair<const char*, Net>>{
      {"max", [](const auto& in) { return max_pool3d(in[0], 3, 2, 1); }},
      {"average", [](const auto& in) { return avg_pool3d(in[0], 2, 2); }},
      {"adaptive",
       [](const auto& in) {
         return adaptive_avg_pool3d(in[0], {3, 2, 5});
       }},
      {"trilinear",
       [](const auto& in) { return interpolate(in[0], {.scale_factor = 2, .mode = Interpolation::kTrilinear}); }},
      {"nearest",
       [](const auto& in) {
         return interpolate(in[0], {.size = {4, 9, 12}});
       }},
      {"pad",
       [](const auto& in) {
         return pad(in[0], {1, 2, 0, 1, 2, 1}, PadMode::kReflect);
       }},
      {"batch norm", [](const auto& in) { return batch_norm(in[0], {}, {}, {}, {}, true); }},
      {"group norm", [](const auto& in) { return group_norm(in[0], 4); }},
      {"instance norm", [](const auto& in) { return instance_norm(in[0]); }}};
  for (const DType dtype : {kBFloat16, kFloat16, kFloat32, kFloat64}) {
    const double tolerance = element_size(dtype) == 2 ? 0.1 : 1e-4;
    for (const std::int64_t channels : {std::int64_t{16}, std::int64_t{12}}) {
      const Tensor x = integers_in({2, channels, 4, 6, 8}, dtype, 1);
      for (const auto& [name, net] : nets) {
        SCOPED_TRACE(std::string(name) + " " + to_string(dtype));
        const Step host = step(net, {x.to(kCPU)}), contiguous = step(net, {x}), last = step(net, {x.to(kChannelsLast)});
        EXPECT_EQ(last.value.memory_format(), kChannelsLast);
        EXPECT_EQ(last.gradients[0].memory_format(), kChannelsLast);
        for (const Step& found : {contiguous, last}) {
          testing::expect_near("value", found.value, host.value.to_vector<double>(), tolerance);
          testing::expect_near("gradient", found.gradients[0], host.gradients[0].to_vector<double>(), tolerance);
        }
      }
    }
  }
}

TEST_F(MemoryFormatCuda, PoolsWholePacksOfChannels) {
  const auto pools = std::vector<std::pair<const char*, Net>>{
      {"max 2", [](const auto& in) { return max_pool2d(in[0], 2); }},
      {"max 3", [](const auto& in) { return max_pool2d(in[0], 3, {.stride = 2, .padding = 1}); }},
      {"average", [](const auto& in) { return avg_pool2d(in[0], 3, {.stride = 1, .padding = 1}); }},
      {"adaptive", [](const auto& in) {
         return adaptive_avg_pool2d(in[0], {3, 5});
       }}};
  for (const DType dtype : {kBFloat16, kFloat16, kFloat32, kFloat64}) {
    for (const std::int64_t channels : {std::int64_t{16}, std::int64_t{12}}) {
      const Tensor x = integers_in({2, channels, 9, 11}, dtype, 1);
      for (const auto& [name, pool] : pools) {
        SCOPED_TRACE(std::string(name) + " " + to_string(dtype));
        const Step contiguous = step(pool, {x}), last = step(pool, {x.to(kChannelsLast)});
        EXPECT_EQ(last.value.memory_format(), kChannelsLast);
        EXPECT_EQ(last.gradients[0].memory_format(), kChannelsLast);
        testing::expect_same_bits("value", last.value.to(kCPU), contiguous.value.to(kCPU));
        testing::expect_near("gradient", last.gradients[0], contiguous.gradients[0].to_vector<double>(),
                             element_size(dtype) == 2 ? 0.05 : 1e-5);
      }
    }
  }
}

// Filters in either format. Sums of small integers are exact.
TEST_F(MemoryFormatCuda, ConvolutionsHaveTheValuesOfContiguousOperands) {
  const Net down = [](const auto& in) { return conv2d(in[0], in[1], in[2], {.stride = 2, .padding = 1}); };
  const Net up = [](const auto& in) { return conv_transpose2d(in[0], in[1], in[2], {.stride = 2, .padding = 1}); };
  for (const DType dtype : {kFloat16, kFloat32}) {
    const PrecisionGuard tf32(Precision::kTF32);
    for (const std::int64_t channels : {std::int64_t{3}, std::int64_t{64}, std::int64_t{72}}) {
      for (const bool transposed : {false, true}) {
        SCOPED_TRACE(to_string(dtype) + std::to_string(channels) + (transposed ? " up" : " down"));
        const Tensor x = integers_in({2, channels, 24, 40}, dtype, 1), bias = integers_in({64}, dtype, 3);
        const Tensor filter = integers_in(transposed ? Shape{channels, 64, 4, 4} : Shape{64, channels, 4, 4}, dtype, 2);
        const Net& net = transposed ? up : down;
        const Tensor expected = net({x, filter, bias});
        for (const MemoryFormat format : {kContiguous, kChannelsLast}) {
          const Tensor found = net({x.to(kChannelsLast), filter.to(format), bias});
          EXPECT_EQ(found.memory_format(), kChannelsLast);
          testing::expect_same_bits("value", found.to(kCPU), expected.to(kCPU));
        }
      }
    }
  }
}

TEST_F(MemoryFormatCuda, TrainingStepsDoNotConvert) {
  const Net net = [](const std::vector<Tensor>& in) {
    const Tensor a = relu(conv2d(in[0], in[1], in[2], {.padding = 1}));
    const Tensor b = conv2d(max_pool2d(a, 2), in[1], in[2], {.padding = 1, .activation = Activation::relu()});
    const Tensor c = conv_transpose2d(b, in[3], in[2], {.stride = 2});
    return conv2d(dropout(cat({a, c}, 1), 0.1), in[4], in[2]) * 0.01;
  };
  const auto draw = [](const Shape& shape) { return (Tensor::randn(shape, {.device = kCUDA}) * 0.1).to(kBFloat16); };
  const std::vector<Tensor> in{draw({8, 64, 64, 64}).to(kChannelsLast), draw({64, 64, 3, 3}), draw({64}),
                               draw({64, 64, 2, 2}), draw({64, 128, 1, 1})};
  for (const std::string& name : launches_of([&] { step(net, in); })) {
    EXPECT_EQ(name.find("transpose_tiles"), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace adjoint

#endif
