#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/distributed/engine.h>
#include <adjoint/ops/distributed/collectives.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/join/join.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <vector>

namespace adjoint::distributed {
namespace {

const std::vector<DType> kDTypes = {kFloat16, kBFloat16, kFloat32, kFloat64, kInt32, kInt64, kUInt8};

// On each rank's GPU if there are GPUs. 1, 2, ... plus the rank, of small integers, so that every sum is exact.
Tensor counted(const Shape& shape, DType dtype, int of_rank = rank()) {
  Tensor x = Tensor::empty(shape, {.dtype = kFloat64});
  double* const at = x.mutable_data<double>();
  for (std::int64_t i = 0; i < x.numel(); ++i) at[i] = static_cast<double>(i % 5 + of_rank + 1);
  return x.to(dtype).to(default_device());
}

TEST(Collectives, WorldHasTheLaunchersSize) {
  EXPECT_TRUE(is_initialized());
  EXPECT_LT(rank(), world_size());
  EXPECT_EQ(engine() == nullptr, world_size() == 1) << "one rank of a launcher's is as good as alone";
  EXPECT_THROW(init(), Error);
}

TEST(Collectives, AllReduceCombinesEveryDtype) {
  for (const DType dtype : kDTypes) {
    for (const std::int64_t count : {0, 1, 2, 1000}) {
      const std::vector<double> first = counted({count}, dtype, 0).to_vector<double>();
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kMax}) {
        const std::vector<double> got = all_reduce(counted({count}, dtype), op).to_vector<double>();
        for (std::size_t i = 0; i < got.size(); ++i) {
          double expected = first[i];
          for (int r = 1; r < world_size(); ++r) {
            const double other = first[i] + r;
            expected = op == ReduceOp::kSum       ? expected + other
                       : op == ReduceOp::kProduct ? expected * other
                       : op == ReduceOp::kMin     ? std::min(expected, other)
                                                  : std::max(expected, other);
          }
          if (dtype == kUInt8) expected = static_cast<double>(static_cast<std::int64_t>(expected) % 256);  // it wraps
          if (dtype == kBFloat16) expected = static_cast<float>(bfloat16(static_cast<float>(expected)));
          EXPECT_EQ(got[i], expected) << to_string(dtype) << " " << static_cast<int>(op) << " " << i;
        }
      }
    }
  }
}

// 2^-9 and smaller are lost in a bfloat16 sum that rounds at each step.
TEST(Collectives, HalfPrecisionIsSummedInFloat32AndRoundedOnce) {
  const Tensor x = Tensor::full({3}, rank() == 0 ? 1.0 : 0x1p-8, {.dtype = kBFloat16, .device = default_device()});
  const float expected = static_cast<float>(bfloat16(1.0F + 0x1p-8F * static_cast<float>(world_size() - 1)));
  EXPECT_EQ(all_reduce(x).to_vector<float>(), std::vector<float>(3, expected));
}

// MPI's, and NCCL's of two; NCCL begins each part of a longer ring with another rank, in every call with the same one.
TEST(Collectives, SumsAreInTheOrderOfRanks) {
  const auto value = [](int r, std::int64_t i) { return static_cast<float>(1.0 / (3.0 + r * 7.0 + i)); };
  std::vector<float> own, expected;
  for (std::int64_t i = 0; i < 101; ++i) {
    own.push_back(value(rank(), i));
    float sum = value(0, i);
    for (int r = 1; r < world_size(); ++r) sum += value(r, i);
    expected.push_back(sum);
  }
  const Tensor x = Tensor::from_vector(own, {101}).to(default_device()), sum = all_reduce(x);
  if (default_device().is_cuda() && world_size() > 2) {
    EXPECT_EQ(all_reduce(x).to_vector<float>(), sum.to_vector<float>());
    Tensor of_rank_0 = sum.clone();
    broadcast_(of_rank_0, 0);
    EXPECT_EQ(of_rank_0.to_vector<float>(), sum.to_vector<float>());
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_FLOAT_EQ(sum.to_vector<float>()[i], expected[i]);
  } else {
    EXPECT_EQ(sum.to_vector<float>(), expected);
  }
}

TEST(Collectives, MoreElementsThanTravelAtOnce) {
  const std::int64_t count = (std::int64_t{1} << 22) + 12345;
  const auto bytes = [&](const Tensor& x) {
    const Tensor on_host = x.to(kCPU);
    const auto* const at = on_host.data<std::uint8_t>();
    return std::vector<std::uint8_t>(at, at + on_host.numel());
  };
  const Tensor own = counted({count}, kUInt8);
  const std::vector<std::uint8_t> last = bytes(counted({count}, kUInt8, world_size() - 1));
  Tensor x = own.clone();
  all_reduce_(x, ReduceOp::kMax);
  EXPECT_EQ(bytes(x), last);
  EXPECT_EQ(bytes(broadcast(own, world_size() - 1)), last);
  const Tensor all = all_gather(own);
  EXPECT_EQ(bytes(all.narrow(0, (world_size() - 1) * count, count).contiguous()), last);
  EXPECT_EQ(bytes(all.narrow(0, rank() * count, count).contiguous()), bytes(own));
  std::vector<Tensor> parts;
  for (int r = 0; r < world_size(); ++r) parts.push_back(counted({count}, kUInt8, r + rank()));
  EXPECT_EQ(bytes(reduce_scatter(cat(parts), ReduceOp::kMax)),
            bytes(counted({count}, kUInt8, rank() + world_size() - 1)));
}

TEST(Collectives, BoolsTravelAndAreCombined) {
  const auto of_rank = [](int r) { return std::vector<bool>{r % 2 == 0, r == 2}; };
  const auto bools = [](const Tensor& x) {
    std::vector<bool> all;
    for (const int value : x.to_vector<int>()) all.push_back(value != 0);
    return all;
  };
  const std::vector<bool> own = of_rank(rank());
  const Tensor x = Tensor::from_vector(std::vector<int>(own.begin(), own.end()), {2}).to(kBool).to(default_device());
  std::vector<bool> gathered, both = of_rank(0), any = of_rank(0);
  for (int r = 0; r < world_size(); ++r) {
    const std::vector<bool> other = of_rank(r);
    gathered.insert(gathered.end(), other.begin(), other.end());
    for (std::size_t i = 0; i < 2; ++i) {
      both[i] = both[i] && other[i];
      any[i] = any[i] || other[i];
    }
  }
  EXPECT_EQ(bools(all_reduce(x, ReduceOp::kMin)), both);
  EXPECT_EQ(bools(all_reduce(x, ReduceOp::kMax)), any);
  EXPECT_EQ(bools(broadcast(x, world_size() - 1)), of_rank(world_size() - 1));
  EXPECT_EQ(bools(all_gather(x)), gathered);
  EXPECT_EQ(all_gather(x).dtype(), kBool);
}

TEST(Collectives, BroadcastGivesTheRootsElements) {
  for (int root = 0; root < world_size(); ++root) {
    EXPECT_EQ(broadcast(counted({2, 3}, kInt32), root).to_vector<int>(),
              counted({2, 3}, kInt32, root).to_vector<int>());
  }
  Tensor strided = counted({4, 3}, kFloat32).transpose(0, 1);
  broadcast_(strided, world_size() - 1);
  EXPECT_EQ(strided.to_vector<float>(), counted({4, 3}, kFloat32, world_size() - 1).transpose(0, 1).to_vector<float>());
}

TEST(Collectives, AllGatherAndReduceScatterSplitAxis0) {
  const Tensor all = all_gather(counted({2, 3}, kFloat64));
  ASSERT_EQ(all.shape(), (Shape{2 * world_size(), 3}));
  for (int r = 0; r < world_size(); ++r) {
    EXPECT_EQ(all.narrow(0, 2 * r, 2).to_vector<double>(), counted({2, 3}, kFloat64, r).to_vector<double>());
  }
  const Shape whole{3 * world_size(), 2};
  EXPECT_EQ(reduce_scatter(counted(whole, kFloat64)).to_vector<double>(),
            all_reduce(counted(whole, kFloat64)).narrow(0, 3 * rank(), 3).to_vector<double>());
  barrier();
}

// loss_r = sum(weight_r * f(x)); the gradient is that of the sum of all ranks' losses.
TEST(Collectives, GradientsAreThoseOfTheSumOfLosses) {
  const double ranks = world_size();
  const auto gradient = [](const std::function<Tensor(const Tensor&)>& f, std::int64_t rows) {
    Tensor x = counted({rows, 2}, kFloat64);
    x.requires_grad_();
    Tape tape;
    const Tensor loss = (f(x) * static_cast<double>(rank() + 1)).sum();
    tape.backward(loss);
    return x.grad().to_vector<double>();
  };
  const double weights = ranks * (ranks + 1) / 2;
  EXPECT_EQ(gradient([](const Tensor& x) { return all_reduce(x); }, 1), std::vector<double>(2, weights));
  EXPECT_EQ(gradient([](const Tensor& x) { return all_reduce(x, ReduceOp::kAvg); }, 1),
            std::vector<double>(2, weights / ranks));
  EXPECT_EQ(gradient([](const Tensor& x) { return all_gather(x); }, 1), std::vector<double>(2, weights));
  EXPECT_EQ(gradient([](const Tensor& x) { return broadcast(x, 0); }, 1),
            std::vector<double>(2, rank() == 0 ? weights : 0.0));
  const std::vector<double> scattered =
      gradient([](const Tensor& x) { return reduce_scatter(x); }, static_cast<std::int64_t>(world_size()));
  for (std::size_t i = 0; i < scattered.size(); ++i) EXPECT_EQ(scattered[i], static_cast<double>(i / 2 + 1));
}

TEST(Collectives, BadCallsThrowBeforeAnyRankIsAsked) {
  const Tensor x = Tensor::ones({3});
  EXPECT_ERROR(all_reduce(Tensor::ones({2}, {.dtype = kInt32}), ReduceOp::kAvg), "kAvg", "int32");
  EXPECT_ERROR(all_reduce(Tensor::ones({2}, {.dtype = kBool})), "bool", "kSum");
  EXPECT_ERROR(broadcast(x, world_size()), "src");
  EXPECT_ERROR(broadcast(x, -1), "src", "-1");
  EXPECT_ERROR(all_gather(Tensor::ones({})), "axis");
  EXPECT_ERROR(all_reduce(Tensor()), "x");
  if (world_size() > 1) {
    EXPECT_ERROR(reduce_scatter(Tensor::ones({1})), "divide");
  }
}

}  // namespace
}  // namespace adjoint::distributed
