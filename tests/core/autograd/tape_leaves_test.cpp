// Leaves: results that are one, views of one, and whose memory their gradients are.
#include <adjoint/core/autograd/op.h>
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/view/view.h>
#include <adjoint/tests/core/autograd/leaf.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace adjoint {
namespace {

using testing::leaf;
using testing::Values;
using testing::values;

using Function = std::function<Tensor(const Tensor&)>;

// The gradient of a (1, 2) tensor, itself.
const std::vector<std::pair<const char*, Function>>& identities() {
  static const std::vector<std::pair<const char*, Function>> all{
      {"the leaf", [](const Tensor& x) { return x; }},
      {"reshape",
       [](const Tensor& x) {
         return x.reshape({1, 2});
       }},
      {"reshape -1",
       [](const Tensor& x) {
         return x.reshape({1, -1});
       }},
      {"contiguous", [](const Tensor& x) { return x.contiguous(); }},
      {"squeeze", [](const Tensor& x) { return x.squeeze(1); }},
      {"flatten", [](const Tensor& x) { return x.flatten(1, 1); }},
      {"expand",
       [](const Tensor& x) {
         return x.expand({1, 2});
       }},
      {"expand -1",
       [](const Tensor& x) {
         return x.expand({-1, -1});
       }},
      {"narrow", [](const Tensor& x) { return x.narrow(1, 0, 2); }},
      {"permute",
       [](const Tensor& x) {
         return x.permute({0, 1});
       }},
      {"sum_to",
       [](const Tensor& x) {
         return sum_to(x, {1, 2});
       }},
      {"to dtype", [](const Tensor& x) { return x.to(kFloat64); }},
      {"to device", [](const Tensor& x) { return x.to(kCPU); }},
      {"sum over one", [](const Tensor& x) { return x.sum({0}, true); }},
      {"clone", [](const Tensor& x) { return x.clone(); }},
      {"checkpoint",
       [](const Tensor& x) { return checkpoint([](const std::vector<Tensor>& in) { return in[0]; }, {x}); }},
  };
  return all;
}

TEST(Leaves, AreResultsOfWhateverGivesThemBack) {
  const Tensor seed = leaf({3, 4}).detach().reshape({1, 2});
  for (const auto& [name, identity] : identities()) {
    SCOPED_TRACE(name);
    const Tensor own = leaf({1, 2}).detach().reshape({1, 2});
    Tensor x = own.clone().requires_grad_();
    Tape tape;
    tape.backward(identity(x), {.grad_output = seed});
    EXPECT_EQ(values(x.grad()), (Values{3, 4}));
    EXPECT_EQ(values(tape.gradient(identity(x), {x}, {.grad_output = seed})[0]), (Values{3, 4}));
    tape.backward(identity(identity(x)), {.grad_output = seed});
    EXPECT_EQ(values(x.grad()), (Values{6, 8}));

    const Tensor fresh = own.clone().requires_grad_();
    EXPECT_EQ(values(tape.gradient(identity(fresh), {fresh}, {.grad_output = seed})[0]), (Values{3, 4}))
        << "a leaf that nothing has used";
    EXPECT_EQ(values(seed), (Values{3, 4}));
  }
}

TEST(Leaves, OfOneElementNeedNoGradientToStartFrom) {
  Tensor x = leaf({2});
  int calls = 0;
  x.register_hook([&](const Tensor&) { return ++calls, Tensor{}; });
  Tape tape;
  tape.backward(x.reshape({1}));
  EXPECT_EQ(values(x.grad()), (Values{1}));
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(tape.size(), 1U);
  EXPECT_ERROR(tape.backward(leaf({1}).detach()), "backward: the result must be recorded on this tape");
}

TEST(Leaves, ViewsFromBeforeTheTapeAreErrors) {
  const char* rule = "a view of a tensor that requires a gradient must be made while the tape records";
  const std::vector<std::pair<const char*, Function>> views{
      {"reshape", [](const Tensor& x) { return x.reshape({4}); }},
      {"flatten", [](const Tensor& x) { return x.flatten(); }},
      {"transpose", [](const Tensor& x) { return x.transpose(0, 1); }},
      {"permute",
       [](const Tensor& x) {
         return x.permute({1, 0});
       }},
      {"narrow", [](const Tensor& x) { return x.narrow(0, 0, 1); }},
      {"select", [](const Tensor& x) { return x.select(1, 0); }},
      {"unsqueeze", [](const Tensor& x) { return x.unsqueeze(0); }},
      {"expand",
       [](const Tensor& x) {
         return x.expand({3, 2, 2});
       }},
      {"a view of a view", [](const Tensor& x) { return x.transpose(0, 1).select(0, 1); }},
      {"a copy in place of a view", [](const Tensor& x) { return x.transpose(0, 1).contiguous(); }},
      {"reshape, which must copy", [](const Tensor& x) { return x.transpose(0, 1).reshape({4}); }},
  };
  for (const auto& [name, view] : views) {
    SCOPED_TRACE(name);
    Tensor x = leaf({1, 2, 3, 4}).detach().reshape({2, 2}).clone().requires_grad_();
    const Tensor before = view(x);
    EXPECT_EQ((before * 2.0).numel(), before.numel()) << "usable where nothing records";
    Tape tape;
    EXPECT_ERROR(before * 2.0, "mul", rule, "detach()");
    EXPECT_ERROR(before.unsqueeze(0), "unsqueeze", rule);
    EXPECT_ERROR(checkpoint([](const std::vector<Tensor>& in) { return in[0] * 2.0; }, {before}), "checkpoint", rule);
    EXPECT_ERROR(checkpoint([&](const std::vector<Tensor>&) { return before * 2.0; }, {x}), "mul", rule);
    EXPECT_EQ(tape.size(), 0U);
    EXPECT_FALSE((before.detach() * 2.0).requires_grad());
    EXPECT_FALSE((before < 2.0).requires_grad());
    tape.backward(view(x).sum());
    EXPECT_TRUE(x.grad().defined());
  }
}

TEST(Leaves, ViewsOfConstantsAndUnderAPauseAreConstants) {
  const Tensor x = leaf({1, 2}), constant = leaf({3, 4}).detach();
  const Tensor view = constant.reshape({2, 1}), result = (x * 2.0).reshape({2, 1});
  Tensor own = x.reshape({2, 1});
  own.requires_grad_();  // a separate leaf from now on
  Tape tape;
  Tensor paused;
  {
    const PauseTape pause;
    paused = x.reshape({2, 1});
  }
  for (const Tensor& each : {view, result, paused}) EXPECT_FALSE((each * 1.0).requires_grad());
  tape.backward((own * view).sum());
  EXPECT_EQ(values(own.grad()), (Values{3, 4}));
}

TEST(Leaves, ViewsOfResultsWhoseTapeIsGoneAreErrors) {
  const Tensor x = leaf({1, 2});
  Tensor result;
  {
    Tape tape;
    result = x * 2.0;
  }
  const Tensor view = result.reshape({2, 1});
  Tape tape;
  EXPECT_ERROR(view * 2.0, "must be made while the tape records", "detach()");
}

TEST(Leaves, GradientsThatShareMemoryWithOneThatIsAddedToStayRight) {
  Tensor x = leaf({1, 1}), y = leaf({1, 1});
  x.set_grad(leaf({1, 2}).detach());
  const Tensor held = x.grad();
  Tape tape;
  tape.backward(x + y, {.grad_output = held});  // the sweep's gradient is x's own tensor, and becomes y's, too
  EXPECT_EQ(values(held), (Values{2, 4}));
  EXPECT_EQ(values(y.grad()), (Values{1, 2}));

  y.set_grad(leaf({5, 5}).detach());
  x.set_grad(held);
  tape.backward(y + x, {.grad_output = held});
  EXPECT_EQ(values(x.grad()), (Values{4, 8}));
  EXPECT_EQ(values(y.grad()), (Values{7, 9}));
}

TEST(Leaves, AddToGradientsOfAnyStrideInPlace) {
  Tensor x = leaf({1, 2, 3, 4}).detach().reshape({2, 2}).clone().requires_grad_();
  Tensor whole = Tensor::zeros({2, 4}, {.dtype = kFloat64});
  x.set_grad(whole.transpose(0, 1).narrow(0, 1, 2));
  Tape tape;
  tape.backward((x * x.detach()).sum());
  EXPECT_EQ(values(whole), (Values{0, 1, 3, 0, 0, 2, 4, 0}));
}

TEST(Leaves, ThatShareOneGradientBothAddToIt) {
  for (const bool transposed : {false, true}) {
    Tensor x = leaf({1, 2, 3, 4}).detach().reshape({2, 2}).clone().requires_grad_(),
           y = x.detach().clone().requires_grad_();
    Tensor shared = Tensor::zeros({2, 2}, {.dtype = kFloat64});
    if (transposed) shared = shared.transpose(0, 1);
    x.set_grad(shared);
    y.set_grad(shared);
    Tape tape;
    tape.backward((x * x.detach() + y * 10.0).sum());
    EXPECT_EQ(values(shared), (Values{11, 12, 13, 14}));
  }
}

TEST(Leaves, ThatAreTheGradientToStartFromAreCopied) {
  for (const bool record : {false, true}) {
    SCOPED_TRACE(record);
    Tensor x = leaf({1, 2}), y = leaf({3, 4});
    {
      Tape tape;
      tape.backward(x + y, {.record = record, .grad_output = x});
      EXPECT_EQ(x.grad().requires_grad(), record);
      EXPECT_EQ(y.grad().requires_grad(), record);
    }
    x.fill_(7);
    EXPECT_EQ(values(x.grad()), (Values{1, 2}));
    EXPECT_EQ(values(y.grad()), (Values{1, 2}));
    const std::weak_ptr<TensorImpl> alive = x.impl_ptr();
    x = {};
    EXPECT_TRUE(alive.expired()) << "its gradient should not hold it";
  }
}

TEST(Leaves, ThatWereConvertedSinceTheirUseAreErrors) {
  Tensor x = leaf({1, 2}), y = leaf({3, 4});
  x.set_grad(leaf({5, 6}).detach());
  Tape tape;
  const Tensor z = (x + y).sum();
  const Tensor other = y.detach().to(kFloat32);
  y.impl()->storage = other.impl()->storage;  // as Module::to() does
  y.impl()->dtype = kFloat32;
  EXPECT_ERROR(tape.backward(z), "backward: a leaf must keep its dtype and device", "float64", "float32");
  EXPECT_EQ(values(x.grad()), (Values{5, 6}));
  EXPECT_FALSE(y.grad().defined());
}

// The address of each gradient that the rule of `term` has given, the latest last; `kept` holds on to the tensors.
std::vector<const void*> term_addresses;
std::vector<Tensor> kept;
bool keep = false;
constinit const OpDef<NoAttr> term_op{.name = "term",
                                      .infer =
                                          [](Operands in, const NoAttr&) {
                                            return TensorSpec{in[0].shape(), in[0].dtype()};
                                          },
                                      .cpu = [](Operands in, Tensor& out, const NoAttr&) { out.copy_(in[0]); },
                                      .vjp = {{{kSaveNone, [](const Ctx<NoAttr>& c) {
                                                  Tensor gradient = c.grad.clone();
                                                  term_addresses.push_back(gradient.raw_data());
                                                  if (keep) kept.push_back(gradient);
                                                  return gradient;
                                                }}}}};

Tensor three_terms(const Tensor& x) {
  const auto term = [&] { return apply(term_op, {x}); };
  return (term() + term() + term()).sum();
}

TEST(Sweep, AddsInPlaceWhatOnlyItOwns) {
  for (const bool held : {false, true}) {
    SCOPED_TRACE(held);
    Tensor x = leaf({1, 2});
    term_addresses.clear();
    keep = held;
    Tape tape;
    tape.backward(three_terms(x));
    EXPECT_EQ(values(x.grad()), (Values{3, 3}));
    ASSERT_EQ(term_addresses.size(), 3U);
    EXPECT_EQ(x.grad().raw_data() == term_addresses[0], !held)
        << "the first term's memory becomes the sum's and .grad()'s";
    for (const Tensor& term : kept) EXPECT_EQ(values(term), (Values{1, 1})) << "what others hold stays";
    kept.clear();
  }
}

TEST(Sweep, AddsToAGradientWhereItIs) {
  Tensor x = leaf({1, 2});
  keep = false;
  Tape tape;
  tape.backward(three_terms(x));
  const void* const address = x.grad().raw_data();
  const Tensor held = x.grad();
  tape.backward(three_terms(x));
  EXPECT_EQ(x.grad().raw_data(), address);
  EXPECT_EQ(values(held), (Values{6, 6}));
}

}  // namespace
}  // namespace adjoint
