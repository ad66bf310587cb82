#include <adjoint/core/gradcheck.h>
#include <adjoint/core/random.h>
#include <adjoint/core/tape.h>
#include <adjoint/core/tensor_impl.h>
#include <adjoint/tests/core/leaf.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace adjoint {
namespace {

using testing::leaf;
using testing::Values;
using testing::values;

Tensor two_layers(const std::vector<Tensor>& in) { return in[0] * in[0] * in[1] + in[0]; }

TEST(Checkpoint, GivesTheSameGradientsOfAnyOrder) {
  const Tensor x = leaf({1, 2, 3}), w = leaf({2, -1, 4});
  Tape tape;
  const auto plain = tape.gradient(two_layers({x * 2.0, w}).sum(), {x, w});
  const auto again = tape.gradient(checkpoint(two_layers, {x * 2.0, w}).sum(), {x, w});
  EXPECT_EQ(values(plain[0]), values(again[0]));
  EXPECT_EQ(values(plain[1]), values(again[1]));
  const auto through = [](const std::vector<Tensor>& in) { return checkpoint(two_layers, {in[0] * in[1], in[1]}); };
  EXPECT_TRUE(gradcheck(through, {x.detach(), w.detach()}));
  EXPECT_TRUE(gradgradcheck(through, {x.detach(), w.detach()}));
}

TEST(Checkpoint, FindsTheLeavesThatTheFunctionCaptures) {
  Tensor x = leaf({1, 2}), w = leaf({3, 4});
  int calls = 0;
  int hook_calls = 0;
  w.register_hook([&](const Tensor&) {
    ++hook_calls;
    return Tensor{};
  });
  const auto f = [&](const std::vector<Tensor>& in) {
    ++calls;
    return in[0] * w * w;
  };
  Tape tape;
  tape.backward((checkpoint(f, {x}) + w).sum());
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(hook_calls, 1);
  EXPECT_EQ(values(w.grad()), (Values{7, 17}));
  EXPECT_EQ(values(x.grad()), (Values{9, 16}));
  const Tensor recorded = x * 2.0;
  EXPECT_ERROR(checkpoint([&](const std::vector<Tensor>& in) { return in[0] * recorded; }, {w}), "outer live tape",
               "checkpoint");
}

TEST(Checkpoint, OfAFunctionThatGivesBackWhatItGot) {
  const auto identity = [](const std::vector<Tensor>& in) {
    return checkpoint([](const auto& x) { return x[0]; }, in);
  };
  EXPECT_TRUE(gradcheck(identity, {leaf({1, 2}).detach()}));
  EXPECT_TRUE(gradgradcheck([&](const auto& in) { return identity({in[0] * in[0]}); }, {leaf({1, 2}).detach()}));
  const Tensor x = leaf({1, 2}), w = leaf({3, 4});
  Tape tape;
  const Tensor y = checkpoint([&](const std::vector<Tensor>&) { return w; }, {x});
  EXPECT_EQ(values(tape.gradient((y * y).sum(), {w}, {.retain = true})[0]), (Values{6, 8}));
  const Tensor recorded = x * 2.0;
  EXPECT_ERROR(checkpoint([&](const std::vector<Tensor>&) { return recorded; }, {w}), "outer live tape", "checkpoint");
}

TEST(Checkpoint, OfAFunctionWhoseResultDependsOnNothing) {
  Tensor x = leaf({1, 2});
  const Tensor constant = leaf({3, 4}).detach();
  for (const bool record : {false, true}) {
    Tape tape;
    const Tensor y = checkpoint([&](const std::vector<Tensor>&) { return constant; }, {x});
    EXPECT_EQ(values(y), (Values{3, 4}));
    x.set_grad({});
    tape.backward((y + x).sum(), {.record = record});
    EXPECT_EQ(values(x.grad()), (Values{1, 1}));
  }
}

TEST(Checkpoint, KeepsInputsInsteadOfIntermediateResults) {
  const Tensor x = leaf({1, 2});
  std::weak_ptr<TensorImpl> inside;
  Tape tape;
  Tensor y = checkpoint(
      [&](const std::vector<Tensor>& in) {
        const Tensor squared = in[0] * in[0];
        inside = squared.impl_ptr();
        return squared * squared;
      },
      {x});
  EXPECT_TRUE(inside.expired());
  EXPECT_EQ(tape.size(), 2U);
  const std::weak_ptr<TensorImpl> result = y.impl_ptr();
  y = {};
  EXPECT_TRUE(result.expired()) << "nobody's gradient needs it";
}

TEST(Checkpoint, DrawsTheSameRandomNumbersAgain) {
  Tensor x = leaf({1, 1, 1});
  std::vector<double> masks;
  manual_seed(4);
  Tape tape;
  const Tensor y = checkpoint(
      [&](const std::vector<Tensor>& in) {
        const Tensor mask = Tensor::rand({3}, {.dtype = kFloat64});
        masks.push_back(mask.sum().item<double>());
        return in[0] * mask;
      },
      {x});
  const double next = Tensor::rand({1}, {.dtype = kFloat64}).item<double>();
  manual_seed(4);
  Tensor::rand({3}, {.dtype = kFloat64});
  EXPECT_EQ(next, Tensor::rand({1}, {.dtype = kFloat64}).item<double>());
  tape.backward(y.sum());
  ASSERT_EQ(masks.size(), 2U);
  EXPECT_EQ(masks[0], masks[1]);
  EXPECT_EQ(values(x.grad()), values(y));
}

}  // namespace
}  // namespace adjoint
