#include <adjoint/core/gradcheck.h>
#include <adjoint/core/op.h>
#include <adjoint/core/tensor.h>
#include <adjoint/tests/core/leaf.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <vector>

namespace adjoint {
namespace {

using testing::leaf;

TEST(Gradcheck, NamesInputElementAndBothValues) {
  // A wrong gradient: the product's rule forgets one operand.
  static constinit const OpDef<NoAttr> wrong_op{
      .name = "wrong",
      .infer =
          [](Operands in, const NoAttr&) {
            return TensorSpec{in[0].shape(), in[0].dtype()};
          },
      .cpu = [](Operands in, Tensor& out, const NoAttr&) { out.copy_(in[0] * in[1]); },
      .vjp = {{{kSaveIn1, [](const Ctx<NoAttr>& c) { return c.grad * c.in[1]; }},
               {kSaveNone, [](const Ctx<NoAttr>& c) { return c.grad * 2.0; }}}}};
  const auto f = [](const std::vector<Tensor>& in) { return apply(wrong_op, {in[0], in[1]}); };
  EXPECT_ERROR(gradcheck(f, {leaf({1, 5}), leaf({3, 4})}),
               "gradcheck: analytic and numeric gradient differ; got 2 and 1",
               "result element 0 by element 0 of input 1 of shape (2,)");
  EXPECT_THROW(gradcheck(f, {leaf({1, 5}), leaf({3, 4})}), GradcheckError);
  EXPECT_TRUE(gradcheck(f, {leaf({1, 5}), leaf({3, 4}).detach()})) << "only marked inputs are checked";
  // A first gradient that is right, and hides from the tape that it depends on the operand.
  static constinit const OpDef<NoAttr> hidden_op{
      .name = "hidden",
      .infer =
          [](Operands in, const NoAttr&) {
            return TensorSpec{in[0].shape(), in[0].dtype()};
          },
      .cpu = [](Operands in, Tensor& out, const NoAttr&) { out.copy_(in[0] * in[0]); },
      .vjp = {{{kSaveIn0, [](const Ctx<NoAttr>& c) { return c.grad * (c.in[0].detach() * 2.0); }}}}};
  const auto square = [](const std::vector<Tensor>& in) { return apply(hidden_op, {in[0]}); };
  EXPECT_TRUE(gradcheck(square, {leaf({1, 5})}));
  EXPECT_ERROR(gradgradcheck(square, {leaf({1, 5})}),
               "gradgradcheck: analytic and numeric gradient differ; got 0 and ");
  EXPECT_ERROR(gradcheck(f, {Tensor::ones({1}), Tensor::ones({1})}),
               "inputs to check must be float64; got float32 as input 0");
}

TEST(Gradcheck, AConstantHasZeroGradients) {
  const auto constant = [](const std::vector<Tensor>&) { return Tensor::ones({2}, {.dtype = kFloat64}); };
  EXPECT_TRUE(gradcheck(constant, {leaf({1, 2}).detach()}));
  EXPECT_TRUE(gradgradcheck(constant, {leaf({1, 2}).detach()}));
}

TEST(Gradcheck, IsExactOnBilinearFunctionsWithALargeStep) {
  const auto product = [](const std::vector<Tensor>& in) { return in[0] * in[1]; };
  const GradcheckOptions exact{.eps = 1.0, .atol = 1e-12, .rtol = 0.0};
  EXPECT_TRUE(gradcheck(product, {leaf({1, 5}), leaf({3, -4})}, exact));
  EXPECT_TRUE(gradgradcheck(product, {leaf({1, 5}), leaf({3, -4})}, exact));
  EXPECT_THROW(gradcheck([](const std::vector<Tensor>& in) { return in[0] * in[0] * in[0]; }, {leaf({2})}, exact),
               GradcheckError);
}

}  // namespace
}  // namespace adjoint
