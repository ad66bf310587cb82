// Losses of generative adversarial networks, composed of other operators.
#include <adjoint/ops/loss/gan.h>

#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/elementwise/widened.h>
#include <adjoint/ops/loss/reduction.h>
#include <adjoint/ops/reduce/reduce.h>

#include <algorithm>
#include <optional>

namespace adjoint {
namespace {

// The parts of each score's loss, by GanLoss.
struct Parts {
  Tensor (*real)(const Tensor&);
  Tensor (*fake)(const Tensor&);
  Tensor (*generator)(const Tensor&);
};

Tensor negative(const Tensor& x) { return -x; }
Tensor low(const Tensor& x) { return softplus(-x); }
Tensor high(const Tensor& x) { return softplus(x); }

constexpr Parts kParts[] = {
    {low, high, low},
    {[](const Tensor& x) { return relu(1.0 - x); }, [](const Tensor& x) { return relu(x + 1.0); }, negative},
    {[](const Tensor& x) { return square(x - 1.0) / 2.0; }, [](const Tensor& x) { return square(x) / 2.0; },
     [](const Tensor& x) { return square(x - 1.0) / 2.0; }},
    {negative, [](const Tensor& x) { return x; }, negative},
};

const Parts& parts(const char* op, GanLoss loss) {
  check_enumerator(op, "GanLoss", loss, GanLoss::kWasserstein);
  return kParts[static_cast<std::size_t>(loss)];
}

// The norm of each sample, over all axes but the first; its gradient at 0 is 0.
Tensor norms(const Tensor& x) {
  return norm(x.reshape({x.size(0), x.numel() / std::max<std::int64_t>(1, x.size(0))}), 2.0, {1});
}

}  // namespace

Tensor gan_discriminator_loss(GanLoss loss, const Tensor& real, const Tensor& fake, Named<Reduction> reduction) {
  constexpr const char* kOp = "gan_discriminator_loss";
  const OpScope scope(kOp);
  if (const detail::AutocastCall full(MixedPrecision::kFull, {real, fake}); full) {
    return gan_discriminator_loss(loss, full[0], full[1], reduction);
  }
  const Parts& by = parts(kOp, loss);
  loss::check_reduction(kOp, reduction);
  loss::check_floating(kOp, "real", real);
  loss::check_floating(kOp, "fake", fake);
  ADJOINT_CHECK(real.dtype() == fake.dtype(), "{}: real and fake must have one dtype; got real {}, fake {}", kOp,
                real.dtype(), fake.dtype());
  ADJOINT_CHECK(reduction != Reduction::kNone || real.shape() == fake.shape(),
                "{}: real and fake must have one shape without a reduction; got real {}, fake {}", kOp, real.shape(),
                fake.shape());
  const Tensor of_real = loss::reduced(by.real(widened(real)), reduction);
  return (of_real + loss::reduced(by.fake(widened(fake)), reduction)).to(real.dtype());
}

Tensor gan_generator_loss(GanLoss loss, const Tensor& fake, Named<Reduction> reduction) {
  constexpr const char* kOp = "gan_generator_loss";
  const OpScope scope(kOp);
  if (const detail::AutocastCall full(MixedPrecision::kFull, {fake}); full) {
    return gan_generator_loss(loss, full[0], reduction);
  }
  const Parts& by = parts(kOp, loss);
  loss::check_reduction(kOp, reduction);
  loss::check_floating(kOp, "fake", fake);
  return loss::reduced(by.generator(widened(fake)), reduction).to(fake.dtype());
}

Tensor gradient_penalty(const std::function<Tensor(const Tensor&)>& critic, const Tensor& real_samples,
                        const Tensor& fake_samples, const GradientPenaltyOptions& given) {
  constexpr const char* kOp = "gradient_penalty";
  Tensor real = real_samples, fake = fake_samples;
  GradientPenaltyOptions options = given;
  // Computes in float32, except for the critic, which uses the surrounding region's dtype.
  if (const detail::AutocastCall full(MixedPrecision::kFull, {real_samples, fake_samples, given.u}); full) {
    real = full[0], fake = full[1], options.u = full[2];
  }
  ADJOINT_CHECK(critic != nullptr, "{}: the critic must not be empty; got a function without a target", kOp);
  loss::check_pair(kOp, "real", real, "fake", fake);
  loss::check_reduction(kOp, options.reduction);
  ADJOINT_CHECK(real.dim() >= 1, "{}: samples must have a batch axis; got shape {}", kOp, real.shape());
  const Shape count = {real.size(0)};
  ADJOINT_CHECK(!options.u.defined() || (options.u.shape() == count && options.u.dtype() == real.dtype()),
                "{}: u must have one number for each sample, of their dtype; got {} {} for {} {}", kOp,
                options.u.dtype(), options.u.shape(), real.dtype(), real.shape());
  const bool differentiates = Tape::current() != nullptr;
  std::optional<Tape> own;
  if (!differentiates) own.emplace();  // for the critic's gradient
  Tensor x;
  {
    const PauseTape pause;
    const OpScope scope(kOp);
    Shape shape = Dims::filled(real.shape().size(), 1);
    shape[0] = real.size(0);
    const Tensor from = widened(real.detach());
    const Tensor u = options.u.defined() ? widened(options.u.detach()) : Tensor::rand(count, from.options());
    x = (from + u.reshape(shape) * (widened(fake.detach()) - from)).to(real.dtype());
  }
  x = x.detach().requires_grad_();
  const Tensor scores = critic(x);
  const OpScope scope(kOp);
  ADJOINT_CHECK(scores.defined() && is_floating_point(scores.dtype()) && scores.requires_grad(),
                "{}: the critic's scores must be floating point and depend on its samples; got others", kOp);
  const Tensor total = widened(scores).sum();
  const Tensor gradient = Tape::current()->gradient(total, {x}, {.retain = true, .record = differentiates})[0];
  const Tensor each = square(norms(widened(gradient)) - options.target);
  const Tensor penalty = loss::reduced(each, options.reduction).to(real.dtype());
  return differentiates ? penalty : penalty.detach();
}

}  // namespace adjoint
