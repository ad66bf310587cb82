#include <adjoint/core/autograd/custom.h>
#include <adjoint/core/autograd/gradcheck.h>
#include <adjoint/core/autograd/op.h>
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/tests/core/autograd/leaf.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <limits>
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
  const auto later = [](const std::vector<Tensor>& in) { return in[0] + in[1] + apply(hidden_op, {in[2]}); };
  EXPECT_TRUE(gradcheck(later, {leaf({1, 5}), leaf({2, 6}), leaf({3, 7})}));
  EXPECT_ERROR(gradgradcheck(later, {leaf({1, 5}), leaf({2, 6}), leaf({3, 7})}),
               "gradgradcheck: analytic and numeric gradient differ; got 0 and ", "of input 2 of shape (2,)");
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

using Inputs = std::vector<Tensor>;

TEST(Gradcheck, OptionsAndFunctionsOutOfRangeAreErrors) {
  const auto square = [](const Inputs& in) { return in[0] * in[0]; };
  const Inputs inputs{leaf({1, 5})};
  constexpr double kInf = std::numeric_limits<double>::infinity(), kNaN = std::numeric_limits<double>::quiet_NaN();
  for (const double eps : {0.0, -1e-6, kInf, kNaN}) {
    EXPECT_ERROR(gradcheck(square, inputs, {.eps = eps}), "gradcheck: eps must be finite and above 0; got");
    EXPECT_ERROR(gradgradcheck(square, inputs, {.eps = eps}), "gradgradcheck: eps must be finite and above 0; got");
  }
  for (const double tolerance : {-1.0, kInf, kNaN}) {
    EXPECT_ERROR(gradcheck(square, inputs, {.atol = tolerance}), "gradcheck: atol and rtol must be finite");
    EXPECT_ERROR(gradgradcheck(square, inputs, {.rtol = tolerance}), "gradgradcheck: atol and rtol must be finite");
  }
  EXPECT_ERROR(gradcheck({}, inputs), "gradcheck: f must be a function; got an empty std::function");
  EXPECT_ERROR(gradgradcheck({}, inputs), "gradgradcheck: f must be a function; got an empty std::function");
  EXPECT_ERROR(gradcheck(square, inputs, {.eps = 1e-30}), "gradcheck: eps must change each element", "1e-30 beside 1");
  EXPECT_ERROR(gradcheck(square, {leaf({1, kInf})}), "gradcheck: eps must change each element", "beside inf");
}

TEST(Gradcheck, ACheckOfNothingIsAnError) {
  const auto square = [](const Inputs& in) { return in[0] * in[0]; };
  for (const DType dtype : {kInt32, kInt64, kUInt8, kBool}) {
    const Tensor input = Tensor::ones({2}, {.dtype = dtype});
    EXPECT_ERROR(gradcheck(square, {input}), "gradcheck: there must be a floating-point input to check; got 1 inputs");
    EXPECT_ERROR(gradgradcheck(square, {input, input}), "gradgradcheck: there must be a floating-point input",
                 "got 2 inputs");
  }
  const auto compared = [](const Inputs& in) { return in[0] > 2.0; };
  EXPECT_ERROR(gradcheck(compared, {leaf({1, 5})}), "gradcheck: f's result must be floating point; got bool (2,)");
  const auto rounded = [](const Inputs& in) { return in[0].to(kInt64); };
  EXPECT_ERROR(gradgradcheck(rounded, {leaf({1, 5})}),
               "gradgradcheck: f's result must be floating point; got int64 (2,)");
  EXPECT_ERROR(gradcheck([](const Inputs&) { return Tensor{}; }, {leaf({1})}), "gradcheck: f's result must be defined");
}

TEST(Gradcheck, ResultsThatChangeTheirShapeAreAFailure) {
  // The shape changes when an element is nudged below 2, and then at a call of a certain number.
  const auto shorter = [](const Inputs& in) { return in[0].narrow(0, 0, in[0].to_vector<double>()[1] < 2.0 ? 1 : 2); };
  EXPECT_ERROR(gradcheck(shorter, {leaf({1, 2})}), "gradcheck: f's results must have one shape; got (2,), then (1,)");
  EXPECT_THROW(gradgradcheck(shorter, {leaf({1, 2})}), GradcheckError);
  for (int until = 1; until < 8; ++until) {
    int calls = 0;
    const auto longer = [&](const Inputs& in) { return ++calls > until ? in[0].reshape({1, 2}) : in[0] * 1.0; };
    EXPECT_ERROR(gradcheck(longer, {leaf({1, 2})}),
                 "gradcheck: f's results must have one shape; got (2,), then (1, 2)");
  }
}

TEST(Gradcheck, GradientsThatAreNotFiniteAreAFailure) {
  // At 0 the numeric gradient is infinite (1e308 / 2e-6 is beyond the largest double), for any analytic one.
  const auto cliff = [](const Inputs& in) { return where(in[0] > 0.0, in[0] * 0.0 + 1e308, in[0] * 3.0); };
  EXPECT_ERROR(gradcheck(cliff, {leaf({0})}), "gradcheck: analytic and numeric gradient must be finite; got 3 and inf");
  EXPECT_ERROR(gradcheck([](const Inputs& in) { return sqrt(in[0]); }, {leaf({0})}), "must be finite; got inf and");
  const auto infinite = [](const Inputs& in) { return in[0] + std::numeric_limits<double>::infinity(); };
  EXPECT_ERROR(gradcheck(infinite, {leaf({1})}), "must be finite; got 1 and");
}

TEST(Gradcheck, AFunctionThatIsNotDeterministicIsAFailure) {
  int calls = 0;
  const auto drifting = [&](const Inputs& in) { return in[0] * 2.0 + 1e-9 * ++calls; };  // within the tolerances
  EXPECT_ERROR(gradcheck(drifting, {leaf({1})}, {.eps = 1.0}), "gradcheck: f must be deterministic",
               "for element 0 of its result at the same inputs");
  EXPECT_THROW(gradgradcheck(drifting, {leaf({1})}, {.eps = 1.0}), GradcheckError);
  // The value stays the same, but every other recording has no gradient for element 1.
  int recordings = 0;
  const Tensor first = Tensor::from_vector<double>({1, 0}, {2}, {.dtype = kFloat64});
  const auto forgetful = [&](const Inputs& in) {
    const bool forget = Tape::current() != nullptr && ++recordings % 2 == 0;
    return forget ? in[0] * first + in[0].detach() * (1.0 - first) : in[0] * first + in[0] * (1.0 - first);
  };
  EXPECT_ERROR(gradcheck(forgetful, {leaf({1, 2})}), "gradcheck: f must be deterministic; got 2, then 0",
               "for element 1 of its gradient at the same inputs");
}

// In narrower dtypes the gradient under test is theirs, and finite differences are float64's.
TEST(Gradcheck, TakesEveryFloatingDtype) {
  const auto f = [](const Inputs& in) { return sin(in[0]) * in[1] / 3.0; };
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32}) {
    const Inputs inputs{leaf({0.25, 1.5}).detach().to(dtype), leaf({3, -2}).detach().to(dtype)};
    EXPECT_TRUE(gradcheck(f, inputs));
    EXPECT_TRUE(gradgradcheck(f, inputs));
    EXPECT_THROW(gradcheck(f, inputs, {.atol = 0.0, .rtol = 1e-12}), GradcheckError);
  }
  // A tenth too much, which no dtype's tolerances let pass.
  const auto wrong = [](const Inputs& in) {
    return custom(
        "wrong", in, [](const Inputs& x) -> Inputs { return {x[0] * x[0]}; },
        [](const CustomCall& call) -> Inputs { return {call.grads[0] * call.inputs[0] * 2.2}; })[0];
  };
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32}) {
    EXPECT_THROW(gradcheck(wrong, {leaf({1, 5}).detach().to(dtype)}), GradcheckError);
  }
}

TEST(Gradcheck, WhatAFunctionCapturedMustWorkInFloat64) {
  const Tensor captured = Tensor::ones({2});
  const auto f = [&](const Inputs& in) { return in[0] * captured; };
  EXPECT_ERROR(gradcheck(f, {Tensor::ones({2})}),
               "gradcheck: f must work on float64 copies of its inputs on the CPU; pass what it captured as inputs");
  const auto ignores = [&](const Inputs&) { return captured; };
  EXPECT_ERROR(gradcheck(ignores, {Tensor::ones({2})}), "got a result of float32 on cpu");
}

TEST(Gradcheck, TakesSeveralResults) {
  const auto f = [](const Inputs& in) -> Inputs { return {in[0] * in[1], in[0] > 2.0, sin(in[0])}; };
  EXPECT_TRUE(gradcheck(f, {leaf({1, 5}), leaf({3, -4})}));
  EXPECT_TRUE(gradgradcheck(f, {leaf({1, 5}), leaf({3, -4})}));
  const auto second_is_wrong = [](const Inputs& in) {
    return custom(
        "wrong", in,
        [](const Inputs& x) -> Inputs {
          return {x[0] * 2.0, x[0] * x[0]};
        },
        [](const CustomCall& call) -> Inputs {
          const Tensor first = call.grads[0].defined() ? call.grads[0] * 2.0 : Tensor{};
          return {call.grads[1].defined() ? call.grads[1] : first};
        });
  };
  EXPECT_ERROR(gradcheck(second_is_wrong, {leaf({1, 5})}), "got 1 and ", "result element 2 by element 0 of input 0");
  int calls = 0;
  const auto growing = [&](const Inputs& in) { return Inputs(static_cast<std::size_t>(++calls), in[0] * 2.0); };
  EXPECT_ERROR(gradcheck(growing, {leaf({1})}), "f must have as many results each time; got 1, then 2");
}

TEST(Gradcheck, OfAFunctionWithGradientsInside) {
  const auto penalty = [](const std::vector<Tensor>& in) {
    const Tensor x = in[0] * 1.0;
    const Tensor g = gradient((x * x * x * in[1]).sum(), {x}, {.record = true})[0];
    return square(g - 1.0);
  };
  EXPECT_TRUE(gradcheck(penalty, {leaf({1, -2}), leaf({3, 0.5})}));
  EXPECT_TRUE(gradgradcheck(penalty, {leaf({1, -2}), leaf({3, 0.5})}));
  const auto wrong = [](const std::vector<Tensor>& in) {
    return gradient((in[0] * in[0]).sum(), {in[0]})[0] + in[0];  // not recorded: a constant
  };
  EXPECT_ERROR(gradcheck(wrong, {leaf({1, 5})}), "analytic and numeric gradient differ; got 1 and ");
  const auto adjoint = [](const Tensor& y) {  // of a shift, by its gradient
    const Tensor z = Tensor::zeros({3}, {.dtype = kFloat64, .requires_grad = true});
    return gradient(z.narrow(0, 1, 2) * 3.0, {z}, {.record = true, .grad_output = y})[0];
  };
  EXPECT_TRUE(check_adjoint(adjoint, leaf({1, 2})));
}

TEST(CheckAdjoint, ComparesScalarProducts) {
  const auto shift = [](const Tensor& x) { return x.narrow(0, 1, 3) * 3.0 - x.narrow(0, 0, 3); };
  for (const DType dtype : {kFloat64, kFloat32, kFloat16, kBFloat16}) {
    EXPECT_TRUE(check_adjoint(shift, leaf({1, 2, 3, 5}).detach().to(dtype)));
  }
  const auto affine = [](const Tensor& x) { return x + 1.0; };
  EXPECT_ERROR(check_adjoint(affine, leaf({1, 2})), "check_adjoint: f must be linear: sum |f(0) y| must be 0; got");
  EXPECT_THROW(check_adjoint(affine, leaf({1, 2})), GradcheckError);
  const char* nonlinear = "check_adjoint: f must be linear: <f(-x / 2 + 2 v), y> must be -<f(x), y> / 2 + 2 <f(v), y>";
  EXPECT_ERROR(check_adjoint([](const Tensor& x) { return x * x; }, leaf({1, 2})), nonlinear);
  EXPECT_ERROR(check_adjoint([](const Tensor& x) { return x.abs(); }, leaf({1, 2})), nonlinear);
  EXPECT_ERROR(check_adjoint([](const Tensor& x) { return relu(x); }, leaf({1, 2})), nonlinear);
  // Linear, and with gradients that are 0, or another function's adjoint.
  const char* no_adjoint = "check_adjoint: f is linear, but its gradient is not its adjoint A: <f(x), y> must be <x, A";
  EXPECT_ERROR(check_adjoint([](const Tensor& x) { return x.detach() * 2.0; }, leaf({1, 2})), no_adjoint);
  EXPECT_ERROR(check_adjoint([](const Tensor& x) { return x * 3.0 - x.detach(); }, leaf({1, 2})), no_adjoint);
  EXPECT_ERROR(check_adjoint({}, leaf({1})), "check_adjoint: f must be a function");
  EXPECT_ERROR(check_adjoint(shift, Tensor::ones({2}, {.dtype = kInt32})), "must be floating point; got int32");
}

}  // namespace
}  // namespace adjoint
