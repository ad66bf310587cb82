// Writes in place are not recorded: if a gradient would be lost, they are an error.
#include <adjoint/core/autograd/op.h>
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/memory/pinned.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/index/index.h>
#include <adjoint/tests/core/autograd/leaf.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace adjoint {
namespace {

using testing::leaf;
using testing::Values;
using testing::values;

constinit const OpDef<NoAttr> twice_op{
    .name = "twice",
    .infer =
        [](Operands in, const NoAttr&) {
          return TensorSpec{in[0].shape(), in[0].dtype()};
        },
    .cpu = [](Operands in, Tensor& out, const NoAttr&) { out.copy_(in[0] * 2.0); },  // an operator of operators
    .vjp = {{{kSaveNone, [](const Ctx<NoAttr>& c) { return c.grad * 2.0; }}}}};

struct Write {
  std::string op;
  std::function<void(Tensor& target, const Tensor& source)> run;
};

const std::vector<Write>& writes() {
  static const std::vector<Write> all = {
      {"copy_", [](Tensor& t, const Tensor& s) { t.copy_(s); }},
      {"copy_", [](Tensor& t, const Tensor& s) { t.copy_(s.to(kFloat32)); }},
      {"copy_", [](Tensor& t, const Tensor& s) { t[0].copy_(s[1]); }},
      {"copy_async", [](Tensor& t, const Tensor& s) { copy_async(s, t); }},
      {"add_", [](Tensor& t, const Tensor& s) { t += s; }},
      {"add_", [](Tensor& t, const Tensor& s) { t += s.sum(); }},
      {"add_", [](Tensor& t, const Tensor& s) { t.add_(s, -0.5); }},
      {"add_", [](Tensor& t, const Tensor& s) { t[1] += s[0]; }},
      {"sub_", [](Tensor& t, const Tensor& s) { t -= s; }},
      {"sub_", [](Tensor& t, const Tensor& s) { t.sub_(s, 2.0); }},
      {"mul_", [](Tensor& t, const Tensor& s) { t *= s; }},
      {"div_", [](Tensor& t, const Tensor& s) { t /= s; }},
      {"lerp_", [](Tensor& t, const Tensor& s) { t.lerp_(s, 0.5); }},
      {"lerp_", [](Tensor& t, const Tensor& s) { t.lerp_(t + 1.0, s); }},
      {"addcmul_", [](Tensor& t, const Tensor& s) { t.addcmul_(t, s); }},
      {"addcdiv_", [](Tensor& t, const Tensor& s) { t.addcdiv_(s, t); }},
      {"index_put_", [](Tensor& t, const Tensor& s) { index_put_(t, {0}, s[0]); }},
      {"index_put_", [](Tensor& t, const Tensor& s) { index_put_(t, {t > 0.0}, s); }},
      {"index_put_",
       [](Tensor& t, const Tensor& s) {
         index_put_(t, {Tensor::from_vector<std::int64_t>({1, 0}, {2}, {.dtype = kInt64})}, s);
       }},
      {"twice", [](Tensor& t, const Tensor& s) { apply_into(twice_op, t, Operands(&s, 1), NoAttr{}); }},
  };
  return all;
}

TEST(InPlace, AWriteThatWouldLoseAGradientThrowsAndChangesNothing) {
  const Tensor w = leaf({3, 5});
  for (const Write& write : writes()) {
    SCOPED_TRACE(write.op);
    Tensor target = leaf({1, 2}).detach();
    Tape tape;
    for (const Tensor& source : {w, w * 1.0}) {
      EXPECT_ERROR(write.run(target, source), write.op.c_str(), "in-place operations are not recorded",
                   "use the operation that returns a new tensor", "detach()");
    }
    EXPECT_EQ(values(target), (Values{1, 2}));
  }
}

TEST(InPlace, AViewFromOutsideTheTapeAndAResultOfAnotherTapeLoseOnesToo) {
  const Tensor w = leaf({3, 5}), outside = w[0];
  Tensor target = leaf({1}).detach(), gone;
  {
    Tape tape;
    gone = w * 2.0;
  }
  Tape tape;
  EXPECT_ERROR(target += outside, "add_: in-place operations are not recorded");
  EXPECT_ERROR(target += gone.sum(), "gone");
  EXPECT_ERROR(target.copy_(gone), "copy_: ");
}

TEST(InPlace, WritesOfConstantsUnderPauseAndWithoutATapeAreAllowed) {
  const Tensor w = leaf({3, 5});
  for (const Write& write : writes()) {
    SCOPED_TRACE(write.op);
    Tensor none = leaf({1, 2}).detach(), paused = none.clone(), detached = none.clone();
    write.run(none, w.detach());
    Tensor plain = leaf({1, 2}).detach();
    write.run(plain, w);
    Tape tape;
    const Tensor recorded = w * 1.0;
    write.run(detached, recorded.detach());
    {
      const PauseTape pause;
      write.run(paused, recorded);
    }
    for (const Tensor& written : {plain, paused, detached}) EXPECT_EQ(values(written), values(none));
    EXPECT_NE(values(none), (Values{1, 2}));
  }
}

TEST(InPlace, ADtypeThatCarriesNoGradientTakesAnything) {
  Tensor places = Tensor::zeros({2}, {.dtype = kInt64});
  Tape tape;
  places.copy_(leaf({3, 5}) * 1.0);
  EXPECT_EQ(places.to_vector<std::int64_t>(), (std::vector<std::int64_t>{3, 5}));
}

TEST(InPlace, AKernelMayBeMadeOfOperatorsInPlace) {
  const Tensor w = leaf({3, 5});
  Tape tape;
  const Tensor twice = apply(twice_op, {w});
  EXPECT_EQ(values(twice), (Values{6, 10}));
  EXPECT_EQ(tape.size(), 2U) << "nothing that the kernel does is recorded";
  EXPECT_EQ(values(tape.gradient(twice.sum(), {w})[0]), (Values{2, 2}));
  EXPECT_EQ(Tape::current(), &tape);
}

TEST(InPlace, ARegulariserThatIsSummedUpByNewTensorsHasItsGradient) {
  const Tensor p = leaf({3, -1});
  Tape tape;
  Tensor sum = Tensor::zeros({}, {.dtype = kFloat64});
  EXPECT_ERROR(sum += square(p).sum(), "add_: ", "x = x + y");
  sum = sum + square(p).sum();
  tape.backward(sum);
  EXPECT_EQ(values(p.grad()), (Values{6, -2}));
}

// x[0] = y would change the handle that x[0] gives, and nothing else.
static_assert(!std::is_assignable_v<Tensor, Tensor> && !std::is_assignable_v<Tensor, const Tensor&>);
static_assert(!std::is_assignable_v<decltype(std::declval<Tensor&>()[0]), Tensor>);
static_assert(!std::is_assignable_v<decltype(std::declval<Tensor&>().grad()), const Tensor&>);
static_assert(std::is_assignable_v<Tensor&, Tensor> && std::is_assignable_v<Tensor&, const Tensor&>);
static_assert(std::is_nothrow_move_assignable_v<Tensor> && std::is_nothrow_move_constructible_v<Tensor>);
static_assert(std::is_copy_assignable_v<std::optional<Tensor>> && std::is_swappable_v<Tensor>);

TEST(InPlace, ATemporaryViewIsWrittenToByMembers) {
  Tensor x = leaf({1, 2, 3}).detach();
  x[0] += Tensor::scalar(4.0, {.dtype = kFloat64});
  x[1].copy_(x[0]);
  x.narrow(0, 2, 1) *= 2.0;
  EXPECT_EQ(values(x), (Values{5, 5, 6}));
}

TEST(InPlace, ErrorsNameTheMemberThatWasCalled) {
  Tensor x = Tensor::ones({2}), small = Tensor::ones({2}, {.dtype = kUInt8});
  EXPECT_ERROR(x.sub_(Tensor::ones({2, 2})), "sub_: the operand must broadcast");
  EXPECT_ERROR(x -= Tensor::ones({2}, {.dtype = kFloat64}),
               "sub_: the tensor's dtype must hold the operand's; got operand float64 (2,)");
  EXPECT_ERROR(x.sub_(Tensor{}, 2.0), "sub_: the operand must be defined");
  EXPECT_ERROR(Tensor::ones({2}, {.dtype = kInt32}).sub_(Tensor::ones({2}, {.dtype = kInt32}), 0.5), "sub_: ");
  small -= Tensor::full({2}, 3, {.dtype = kUInt8});
  EXPECT_EQ(values(small), (Values{254, 254})) << "modulo 256, as small - x";
}

}  // namespace
}  // namespace adjoint
