// Frequent mistakes in programs: the names in the message, and the advice that it gives.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/tensor/factories.h>
#include <adjoint/nn/activation.h>
#include <adjoint/nn/conv.h>
#include <adjoint/nn/freeze.h>
#include <adjoint/nn/linear.h>
#include <adjoint/nn/norm.h>
#include <adjoint/nn/safetensors.h>
#include <adjoint/nn/sequential.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/join/join.h>
#include <adjoint/ops/loss/classification.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace adjoint::nn {
namespace {

TEST(Messages, APictureOfOtherChannelsNamesTheLayerAndBothNumbers) {
  const Sequential net{Conv2d(3, 8, 3), Sequential{ReLU(), Conv2d(8, 4, 1)}};
  EXPECT_ERROR(net(zeros(2, 1, 8, 8)), "0: conv2d: input's axis 1 must have the 3 channels that weight is for",
               "got 1 channels, input (2, 1, 8, 8)");
  EXPECT_ERROR(net[1](zeros(2, 3, 8, 8)), "1.1: conv2d: input's axis 1 must have the 8 channels", "got 3 channels");
  EXPECT_ERROR(Conv2d(3, 8, 3)(zeros(1, 8, 8)), "conv2d: input's axis 0 must have the 3 channels", "got 1 channels");
  EXPECT_ERROR(ConvTranspose1d(4, 2, 3)(zeros(2, 3, 8)),
               "conv_transpose1d: input's axis 1 must have the 4 channels that weight is for; got 3 channels");
}

TEST(Messages, AnOperandOfAnotherDTypeIsNamedWithIt) {
  const Tensor x = zeros(1, 3, 8, 8), weight = zeros(2, 3, 3, 3);
  EXPECT_ERROR(conv2d(x, weight, zeros({2}, {.dtype = kFloat64})), "conv2d: bias and input must have one dtype",
               "bias (2,) of float64");
  EXPECT_ERROR(where(zeros({2}, {.dtype = kBool}), zeros(2), zeros({2}, {.dtype = kFloat64})),
               "where: operands must share one dtype; got float32 (2,) and float64 (2,) as operand 2");
  EXPECT_ERROR(lerp(zeros(2), zeros(2), zeros({2}, {.dtype = kFloat64})),
               "lerp: operands must share one dtype; got float32 (2,) and float64 (2,) as operand 2");
}

TEST(Messages, APictureWithoutABatchAxisIsToldToUnsqueeze) {
  EXPECT_ERROR(GroupNorm(4, 16)(zeros(16, 8, 8)),
               "GroupNorm: input's axis 1 must have the 16 channels that weight is for; got 8 in input (16, 8, 8), "
               "weight (16,); without a batch axis? unsqueeze(0)");
  EXPECT_ERROR(BatchNorm2d(3)(zeros(3, 8, 8)), "(3, 8, 8)");
}

TEST(Messages, ATargetOfTheWrongKindSaysWhatItShouldBe) {
  const Tensor scores = zeros(4, 3);
  EXPECT_ERROR(cross_entropy(scores, zeros(4)),
               "cross_entropy: a target of class indices must be int64; got float32 (4,) for input (4, 3); convert "
               "with to(kInt64)");
  EXPECT_ERROR(cross_entropy(scores, zeros({4, 3}, {.dtype = kInt64})),
               "cross_entropy: a target of probabilities must be floating point, as input is; got int64 (4, 3) for "
               "input float32 (4, 3); convert with to(float32)");
}

TEST(Messages, AGradientThatWasNotRecordedNamesRecord) {
  Tensor w = ones({2}, {.requires_grad = true});
  Tape tape;
  const Tensor gradient = tape.gradient((w * w).sum(), {w}, {.retain = true})[0];
  EXPECT_ERROR(tape.backward(gradient.sum()), "backward: the result must be recorded on this tape", ".record = true");
}

TEST(Messages, StackTellsShapesAndRanks) {
  EXPECT_ERROR(stack({zeros(2, 3), zeros(3)}),
               "stack: tensors must have one shape; got (2, 3) in place 0, (3,) in place 1, of 2 and 1 axes");
}

TEST(Messages, APyTorchFileIsCalledOne) {
  const std::filesystem::path path = std::filesystem::path(::testing::TempDir()) / "adjoint_weights.pt";
  for (const std::string& begin : {std::string("PK\x03\x04"), std::string("\x80\x02\x8a\x0al\xfc\x9c")}) {
    std::ofstream(path, std::ios::binary) << begin << std::string(200, 'x');
    Linear layer(2, 2);
    EXPECT_ERROR(load_safetensors(path, layer), "got a PyTorch archive; save it as safetensors, see docs/weights.md",
                 "adjoint_weights.pt");
  }
  std::filesystem::remove(path);
}

TEST(Messages, RandOfIntegersNamesRandint) {
  EXPECT_ERROR(rand({2}, {.dtype = kInt64}), "rand: the dtype must be floating point; got int64; use randint");
  EXPECT_ERROR(randn({2}, {.dtype = kUInt8}), "randn: the dtype must be floating point; got uint8; use randint");
}

TEST(Messages, LoadingIntoAFrozenModuleNamesTheWeight) {
  const std::filesystem::path path = std::filesystem::path(::testing::TempDir()) / "adjoint_frozen.safetensors";
  Sequential net{Conv2d(1, 1, 3)};
  save_safetensors(path, net);
  net.eval();
  const Frozen frozen = freeze(net);
  EXPECT_ERROR(load_safetensors(path, net), "must not change while their model is frozen; got '0.weight'");
  EXPECT_ERROR(net.load_state_dict(net.state_dict()), "load_state_dict: weights must not change", "'0.weight'");
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace adjoint::nn
