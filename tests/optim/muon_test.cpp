#include <adjoint/optim/muon.h>
#include <adjoint/optim/schedule.h>
#include <adjoint/tests/optim/optim_fixture.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace adjoint::optim {
namespace {

Tensor matrix(const Json& c, DType dtype) {
  auto values = fixture()["start"].get<std::vector<double>>();
  values.push_back(0.75);
  return Tensor::from_vector(values, Shape(c["shape"].get<std::vector<std::int64_t>>()),
                             {.dtype = dtype, .requires_grad = true});
}

MuonOptions muon_options(const Json& c) {
  MuonOptions o = options_of<MuonOptions>(c["options"]);
  if (c["options"].value("adjust_lr_fn", "original") == "match_rms_adamw") o.adjust_lr_fn = MuonRate::kMatchRmsAdamW;
  return o;
}

void expect_trajectories(DType dtype, double tolerance) {
  ASSERT_EQ(fixture()["muons"].size(), 3U);
  for (const Json& c : fixture()["muons"]) {
    Tensor p = matrix(c, dtype);
    Muon muon({p}, muon_options(c));
    for (std::size_t t = 0; t < c["points"].size(); ++t) {
      set_gradient(p, t);
      muon.step();
      const auto expected = c["points"][t].get<std::vector<double>>(), actual = p.to_vector<double>();
      for (std::size_t i = 0; i < expected.size(); ++i) {
        ASSERT_NEAR(actual[i], expected[i], tolerance) << c["options"] << " step " << t << " element " << i;
      }
    }
  }
}

TEST(Muon, Float64TrajectoriesAreThePseudocodes) { expect_trajectories(kFloat64, 1e-12); }
TEST(Muon, Float32TrajectoriesAreThePseudocodes) { expect_trajectories(kFloat32, 2e-5); }
TEST(Muon, HalfPrecisionHasMasters) { expect_trajectories(kBFloat16, 2e-2); }

TEST(Muon, UpdatesAreNearlyOrthogonal) {
  Tensor p = Tensor::zeros({4, 2, 3, 1}, {.requires_grad = true});
  p.set_grad(Tensor::from_vector(testing::integers(24, 9, 1), {4, 2, 3, 1}));
  Muon muon({p}, {.lr = 1.0, .weight_decay = 0.0, .momentum = 0.0, .ns_steps = 10});
  muon.step();
  const Tensor u = p.detach().reshape({4, 6}), gram = matmul(u, u.t());
  for (std::int64_t i = 0; i < 4; ++i) EXPECT_NEAR(gram[i][i].item<float>(), 1.0F, 0.6F) << i;
  EXPECT_LT((gram - gram * Tensor::eye(4)).abs().max().item<float>(), 0.6F);
}

TEST(Muon, ResumesAndFollowsSchedules) {
  const Json& c = fixture()["muons"][0];
  Tensor p = matrix(c, kFloat32);
  Muon muon({p}, muon_options(c));
  StepLR schedule(muon, {.step_size = 1, .gamma = 0.5});
  set_gradient(p, 0);
  muon.step();
  schedule.step();
  EXPECT_EQ(muon.lr(), 0.5e-3);
  Tensor q = p.detach().clone().requires_grad_();
  Muon resumed({q}, muon_options(c));
  resumed.load_state_dict(muon.state_dict());
  for (Tensor* x : {&p, &q}) set_gradient(*x, 1);
  muon.step();
  resumed.step();
  testing::expect_same_bits("resumed", q.detach(), p.detach());
  EXPECT_EQ(muon.momentum(), 0.95);
}

TEST(Muon, SaysWhatIsWrong) {
  const Tensor p = Tensor::zeros({2, 2}, {.requires_grad = true});
  EXPECT_ERROR(Muon({Tensor::zeros({3})}), "Muon: parameters must have two axes at least; got (3,)", "AdamW");
  EXPECT_ERROR(Muon({p}, {.weight_decay = -1.0}), "Muon: weight_decay must not be negative; got -1");
  EXPECT_ERROR(Muon({p}, {.momentum = 1.0}), "Muon: momentum must be in [0, 1); got 1");
  EXPECT_ERROR(Muon({p}, {.eps = -1.0}), "Muon: eps must not be negative; got -1");
  EXPECT_ERROR(Muon({p}, {.ns_steps = 0}), "Muon: ns_steps must be at least 1; got 0");
  EXPECT_ERROR(Muon({p}, {.adjust_lr_fn = static_cast<MuonRate>(2)}), "MuonRate", "got 2");
}

}  // namespace
}  // namespace adjoint::optim
