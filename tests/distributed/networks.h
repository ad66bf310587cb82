// Shared by the tests of data-parallel training: a small network, its batches and their parts, and comparisons.
#pragma once

#include <adjoint/core/distributed/engine.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/nn/activation.h>
#include <adjoint/nn/conv.h>
#include <adjoint/nn/norm.h>
#include <adjoint/nn/sequential.h>
#include <adjoint/ops/distributed/collectives.h>

#include <gtest/gtest.h>

#include <cstdint>

namespace adjoint::distributed {

constexpr std::int64_t kBatch = 8;

// Networks and batches are on each rank's GPU if there are GPUs.
inline TensorOptions options(DType dtype) { return {.dtype = dtype, .device = default_device()}; }

inline nn::Sequential network(std::int64_t channels = 4) {
  nn::Sequential net{nn::Conv2d(2, channels, {.kernel_size = 3, .padding = 1}), nn::BatchNorm2d(channels), nn::ReLU(),
                     nn::ConvTranspose2d(channels, 2, {.kernel_size = 4, .stride = 2, .padding = 1})};
  net.to(kFloat64);
  net.to(default_device());
  return net;
}

struct Batch {
  Tensor x, y;
};
inline Batch batch(int step) {
  manual_seed(100 + static_cast<std::uint64_t>(step));
  return {Tensor::randn({kBatch, 2, 6, 6}, options(kFloat64)), Tensor::randn({kBatch, 2, 12, 12}, options(kFloat64))};
}
inline Tensor part(const Tensor& whole) {
  const std::int64_t length = whole.size(0) / world_size();
  return whole.narrow(0, rank() * length, length).contiguous();
}

inline void expect_near(const NamedTensors& a, const NamedTensors& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto x = a[i].second.to_vector<double>(), y = b[i].second.to_vector<double>();
    for (std::size_t k = 0; k < x.size(); ++k) ASSERT_NEAR(x[k], y[k], tolerance) << a[i].first << " " << k;
  }
}
inline void expect_same_on_every_rank(const NamedTensors& state) {
  for (const auto& [name, tensor] : state) {
    EXPECT_EQ(broadcast(tensor.detach()).to_vector<double>(), tensor.to_vector<double>()) << name;
  }
}

}  // namespace adjoint::distributed
