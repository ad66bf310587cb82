// Running statistics: of which dtypes they may be, how they follow a batch, and when they must not.
#include <adjoint/core/autograd/gradcheck.h>
#include <adjoint/ops/norm/norm.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <vector>

namespace adjoint {
namespace {

using testing::expect_values;

struct Running {
  Tensor mean, variance;

  explicit Running(DType dtype = kFloat32)
      : mean(Tensor::full({2}, 4.0, {.dtype = dtype})), variance(Tensor::full({2}, 4.0, {.dtype = dtype})) {}
  void expect(const std::vector<double>& means, const std::vector<double>& variances) const {
    expect_values("mean", mean, means);
    expect_values("variance", variance, variances);
  }
};

// One sample, so that the channels' means, 3 and 30, and variances, 8 and 800, are those of each sample too.
Tensor batch(DType dtype) { return Tensor::from_vector<double>({1, 5, 10, 50}, {1, 2, 2}, {.dtype = dtype}); }

void follow(bool by_instance, const Tensor& x, const Running& running, double momentum) {
  const Tensor y = by_instance ? instance_norm(x, running.mean, running.variance, {}, {}, true, momentum)
                               : batch_norm(x, running.mean, running.variance, {}, {}, true, momentum);
  EXPECT_EQ(y.shape(), x.shape());
  EXPECT_EQ(y.dtype(), x.dtype());
}

TEST(Norm, RunningStatisticsMayBeOfAnotherDtype) {
  for (const bool by_instance : {false, true}) {
    for (const DType dtype : {kFloat64, kFloat32, kBFloat16, kFloat16}) {
      for (const DType kept : {kFloat64, kFloat32, kBFloat16, kFloat16}) {
        SCOPED_TRACE(::testing::Message() << by_instance << " " << dtype << " " << kept);
        Running running(kept);
        follow(by_instance, batch(dtype), running, 0.25);
        running.expect({3.75, 10.5}, {5, 203});  // exact in each
        EXPECT_EQ(running.mean.dtype(), kept);
        follow(by_instance, batch(dtype), running, 1.0);
        running.expect({3, 30}, {8, 800});
      }
    }
  }
}

TEST(Norm, GivenStatisticsMayBeOfAnotherDtype) {
  for (const DType dtype : {kFloat64, kFloat32, kBFloat16}) {
    for (const DType kept : {kFloat64, kFloat32, kBFloat16}) {
      const Running running(kept);
      for (const bool by_instance : {false, true}) {
        const Tensor y = by_instance
                             ? instance_norm(batch(dtype), running.mean, running.variance, {}, {}, false, 0.1, 12.0)
                             : batch_norm(batch(dtype), running.mean, running.variance, {}, {}, false, 0.1, 12.0);
        EXPECT_EQ(y.dtype(), dtype);
        expect_values("y", y, {-0.75, 0.25, 1.5, 11.5});  // (x - 4) / sqrt(4 + 12)
      }
      running.expect({4, 4}, {4, 4});
    }
  }
}

TEST(Norm, RunningStatisticsMustBeOfOneDtype) {
  const Tensor mean = Tensor::zeros({2}), wide = Tensor::ones({2}, {.dtype = kFloat64});
  for (const bool training : {false, true}) {
    EXPECT_ERROR(batch_norm(batch(kFloat32), mean, wide, {}, {}, training), "batch_norm: running_var", "float64");
    EXPECT_ERROR(instance_norm(batch(kFloat32), wide, mean, {}, {}, training), "instance_norm: running_var", "float32");
    const Tensor whole = Tensor::ones({2}, {.dtype = kInt64});
    EXPECT_ERROR(batch_norm(batch(kFloat32), whole, whole, {}, {}, training), "running_mean", "int64");
    EXPECT_ERROR(batch_norm(batch(kFloat32), mean, Tensor::ones({1}), {}, {}, training), "running_var", "(1,)");
  }
}

TEST(Norm, BatchesWithoutValuesLeaveRunningStatistics) {
  for (const Shape& shape : {Shape{0, 2}, Shape{0, 2, 3}, Shape{3, 2, 0}, Shape{0, 2, 1, 1}, Shape{0, 2, 0}}) {
    SCOPED_TRACE(to_string(shape));
    Running running;
    follow(false, Tensor::zeros(shape), running, 0.5);
    running.expect({4, 4}, {4, 4});
    if (Shape(shape.begin() + 2, shape.end()).numel() == 1) continue;  // which instance_norm refuses
    follow(true, Tensor::zeros(shape), running, 0.5);
    running.expect({4, 4}, {4, 4});
  }
}

// To the second order, with an activation and without the other operands, in any of the forms.
TEST(Norm, ActivationsNeedNoResidual) {
  const Tensor x = Tensor::from_vector<double>({1, 5, 10, 50, 3, -2, 4, 0.5}, {2, 2, 2}, {.dtype = kFloat64}) / 8.0;
  const Tensor weight = Tensor::from_vector<double>({1.5, -0.5}, {2}, {.dtype = kFloat64}), bias = weight + 1.0;
  const auto norm = [](const Tensor& in, const Tensor& w, const Tensor& b, const Tensor& residual) {
    return batch_norm(in, {}, {}, w, b, true, 0.1, 0.5, {.activation = Activation::sigmoid(), .residual = residual});
  };
  EXPECT_TRUE(gradgradcheck([&](const std::vector<Tensor>& in) { return norm(in[0], {}, {}, {}); }, {x}));
  EXPECT_TRUE(gradgradcheck([&](const std::vector<Tensor>& in) { return norm(in[0], in[1], {}, {}); }, {x, weight}));
  EXPECT_TRUE(
      gradgradcheck([&](const std::vector<Tensor>& in) { return norm(in[0], in[1], in[2], {}); }, {x, weight, bias}));
  EXPECT_TRUE(gradgradcheck([&](const std::vector<Tensor>& in) { return norm(in[0], {}, {}, in[1]); }, {x, x * 0.5}));
}

TEST(Norm, RunningStatisticsMayBeViews) {
  for (const bool by_instance : {false, true}) {
    for (const bool mean_alone : {false, true}) {
      Tensor all = Tensor::full({2, 3}, 4.0), rows = Tensor::full({2, 3}, 4.0);
      Running running;
      running.mean = all.select(1, 1);
      if (!mean_alone) running.variance = rows.select(1, 2);
      follow(by_instance, batch(kFloat32), running, 0.25);
      running.expect({3.75, 10.5}, {5, 203});
      expect_values("beside the mean", all, {4, 3.75, 4, 4, 10.5, 4});
      if (!mean_alone) expect_values("beside the variance", rows, {4, 4, 5, 4, 4, 203});
    }
  }
}

// Neither has changed.
TEST(Norm, RunningStatisticsMustBeWritable) {
  for (const bool by_instance : {false, true}) {
    for (const bool of_mean : {false, true}) {
      Running running;
      (of_mean ? running.mean : running.variance) = Tensor::full({1}, 2.0).expand({2});
      const std::vector<double> mean = running.mean.to_vector<double>(),
                                variance = running.variance.to_vector<double>();
      EXPECT_ERROR(follow(by_instance, batch(kFloat32), running, 0.5),
                   by_instance ? "instance_norm: elements of the tensor must not share memory"
                               : "batch_norm: elements of the tensor must not share memory");
      running.expect(mean, variance);
      // Without training they are only read.
      const Tensor y = by_instance ? instance_norm(batch(kFloat32), running.mean, running.variance, {}, {}, false)
                                   : batch_norm(batch(kFloat32), running.mean, running.variance, {}, {}, false);
      EXPECT_EQ(y.shape(), (Shape{1, 2, 2}));
    }
  }
}

}  // namespace
}  // namespace adjoint
