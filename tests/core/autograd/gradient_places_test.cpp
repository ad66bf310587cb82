// The places of leaves' gradients: only operators compute results there.
#include <adjoint/core/autograd/gradient_places.h>
#include <adjoint/core/autograd/op.h>
#include <adjoint/core/autograd/tape.h>

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace adjoint {
namespace {

// Wants every gradient in `wanted`, and keeps the one that it gets.
class Place final : public PlacingSink {
 public:
  explicit Place(const Tensor& where) : wanted(where) {}
  Tensor place(const Tensor&) override { return wanted; }
  bool begin(std::uint64_t, const std::vector<Tensor>&) override { return true; }
  void share() override {}
  bool take(const Tensor&, const Tensor& gradient) override {
    got = gradient;
    return true;
  }
  void finish() override {}
  void commit() noexcept override {}
  void abandon() noexcept override {}

  Tensor wanted, got;
};

// The identity, whose gradient rule first makes a tensor that is no operator's result.
constinit const OpDef<NoAttr> same_op{.name = "same",
                                      .infer = [](Operands in, const NoAttr&) -> TensorSpec {
                                        return {in[0].shape(), in[0].dtype()};
                                      },
                                      .cpu = [](Operands in, Tensor& out, const NoAttr&) { copy_into(in[0], out); },
                                      .vjp = {{{kSaveNone, [](const Ctx<NoAttr>& c) {
                                                  const Tensor scratch =
                                                      Tensor::full(c.grad.shape(), 3.0, c.grad.options());
                                                  return scratch * c.grad;
                                                }}}}};

TEST(GradientPlaces, HoldTheResultOfARuleAndNotItsScratch) {
  const auto sink = std::make_shared<Place>(Tensor::zeros({2, 3}));
  const Tensor x = Tensor::ones({2, 3}, {.requires_grad = true});
  x.impl()->leaf->sink = sink;
  Tape tape;
  tape.backward(apply(same_op, {x}), {.grad_output = Tensor::full({2, 3}, 2.0)});
  ASSERT_TRUE(sink->got.defined());
  EXPECT_EQ(sink->got.raw_data(), sink->wanted.raw_data());
  EXPECT_EQ(sink->wanted.to_vector<double>(), std::vector<double>(6, 6.0));
}

}  // namespace
}  // namespace adjoint
