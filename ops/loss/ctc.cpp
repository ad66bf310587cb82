// ctc_loss: the forward algorithm over the targets with blanks between their labels, in logarithms.
#include <adjoint/ops/loss/ctc.h>

#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/elementwise/widened.h>
#include <adjoint/ops/index/index.h>
#include <adjoint/ops/join/join.h>
#include <adjoint/ops/loss/reduction.h>
#include <adjoint/ops/reduce/reduce.h>

#include <algorithm>
#include <limits>

namespace adjoint {
namespace {

constexpr const char* kCtc = "ctc_loss";
// The logarithm of a probability of 0: finite, so that differences of two are no NaN, and far below all others.
constexpr double kNever = -1e30;

// Targets as states: blank, label, blank, ..., label, blank.
struct CtcStates {
  std::int64_t samples, states;
  std::vector<std::int64_t> classes;  // (samples, states)
  std::vector<bool> skips;            // (samples, states): true if a path may skip a state
  std::vector<bool> begins;           // (samples, states): true if a path may begin there
  std::vector<std::int64_t> ends;     // (samples, 2): the ends of paths
  std::vector<bool> ended;            // (samples, states): false for the label of an empty target

  CtcStates(const Tensor& targets, const std::vector<std::int64_t>& lengths, std::int64_t blank, std::int64_t count)
      : samples(static_cast<std::int64_t>(lengths.size())),
        states(2 * *std::max_element(lengths.begin(), lengths.end()) + 1) {
    const std::vector<std::int64_t> labels = targets.to_vector<std::int64_t>();
    const auto size = static_cast<std::size_t>(samples * states);
    classes.assign(size, blank);
    skips.assign(size, false);
    begins.assign(size, false);
    std::int64_t from = 0;
    for (std::int64_t n = 0; n < samples; ++n) {
      const std::int64_t length = lengths[static_cast<std::size_t>(n)];
      if (targets.dim() == 2) from = n * targets.size(1);
      for (std::int64_t s = 0; s < length; ++s) {
        const std::int64_t label = labels[static_cast<std::size_t>(from + s)];
        ADJOINT_CHECK(label >= 0 && label < count && label != blank,
                      "{}: a label must be in [0, {}) and not the blank, {}; got {} for sample {}", kCtc, count, blank,
                      label, n);
        const auto at = static_cast<std::size_t>(n * states + 2 * s + 1);
        classes[at] = label;
        skips[at] = s > 0 && classes[at - 2] != label;
      }
      begins[static_cast<std::size_t>(n * states)] = true;
      if (length > 0) begins[static_cast<std::size_t>(n * states + 1)] = true;
      ends.insert(ends.end(), {2 * length, std::max<std::int64_t>(2 * length - 1, 0)});
      ended.insert(ended.end(), {true, length > 0});
      from += length;
    }
  }
};

void check_lengths(const char* what, const std::vector<std::int64_t>& lengths, std::int64_t samples, std::int64_t least,
                   std::int64_t most) {
  ADJOINT_CHECK(static_cast<std::int64_t>(lengths.size()) == samples,
                "{}: there must be one of {} for each of {} samples; got {}", kCtc, what, samples, lengths.size());
  for (const std::int64_t length : lengths) {
    ADJOINT_CHECK(length >= least && length <= most, "{}: {} must lie in [{}, {}]; got {}", kCtc, what, least, most,
                  length);
  }
}

// (N): -log of each sample's probability, from log_probs (T, N, C).
Tensor ctc_losses(const Tensor& log_probs, const CtcStates& s, const std::vector<std::int64_t>& input_lengths) {
  const Shape shape{s.samples, s.states};
  const auto there = [&](const Tensor& t) { return t.to(log_probs.device()); };
  const auto mask = [&](const std::vector<bool>& values, const Shape& of) {
    return there(Tensor::from_vector(values, of));
  };
  const Tensor never = Tensor::full({}, kNever, log_probs.options());
  const Tensor classes = there(Tensor::from_vector(s.classes, shape, {.dtype = kInt64}));
  const Tensor skips = mask(s.skips, shape);
  const std::int64_t frames = *std::max_element(input_lengths.begin(), input_lengths.end());
  const std::int64_t shortest = *std::min_element(input_lengths.begin(), input_lengths.end());
  const Tensor lengths = there(Tensor::from_vector(input_lengths, {s.samples, 1}, {.dtype = kInt64}));
  // (frames, N, states)
  const Tensor scores = gather(clamp_min(log_probs.narrow(0, 0, frames), kNever), 2,
                               classes.unsqueeze(0).expand({frames, s.samples, s.states}));
  const auto from_before = [&](const Tensor& x, std::int64_t distance) {
    const std::int64_t rest = std::max<std::int64_t>(0, s.states - distance);
    return cat({never.expand({s.samples, s.states - rest}), x.narrow(1, 0, rest)}, 1);
  };
  Tensor ways = where(mask(s.begins, shape), scores.select(0, 0), never);
  for (std::int64_t t = 1; t < frames; ++t) {
    const Tensor arriving = stack({ways, from_before(ways, 1), where(skips, from_before(ways, 2), never)});
    const Tensor next = clamp_min(logsumexp(arriving, 0) + scores.select(0, t), kNever);
    ways = t < shortest ? next : where(lengths > t, next, ways);
  }
  const Shape both{s.samples, 2};
  const Tensor last = gather(ways, 1, there(Tensor::from_vector(s.ends, both, {.dtype = kInt64})));
  return -logsumexp(where(mask(s.ended, both), last, never), 1);
}

}  // namespace

Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const std::vector<std::int64_t>& input_lengths,
                const std::vector<std::int64_t>& target_lengths, const CtcLossOptions& options) {
  const OpScope scope(kCtc);
  if (const detail::AutocastCall full(MixedPrecision::kFull, {log_probs}); full) {
    return ctc_loss(full[0], targets, input_lengths, target_lengths, options);
  }
  loss::check_floating(kCtc, "log_probs", log_probs);
  check_defined(kCtc, "targets", targets);
  loss::check_reduction(kCtc, options.reduction);
  ADJOINT_CHECK(log_probs.dim() == 2 || log_probs.dim() == 3, "{}: log_probs must be (T, N, C) or (T, C); got {}", kCtc,
                log_probs.shape());
  const bool batched = log_probs.dim() == 3;
  const Tensor scores = widened(batched ? log_probs : log_probs.unsqueeze(1));
  const std::int64_t frames = scores.size(0), samples = scores.size(1), classes = scores.size(2);
  ADJOINT_CHECK(samples > 0, "{}: there must be a sample; got log_probs {}", kCtc, log_probs.shape());
  ADJOINT_CHECK(targets.dtype() == kInt64 || targets.dtype() == kInt32, "{}: targets must be int64 or int32; got {}",
                kCtc, targets.dtype());
  ADJOINT_CHECK(targets.dim() == 1 || (batched && targets.dim() == 2 && targets.size(0) == samples),
                "{}: targets must be (N, S), or all samples' in one axis; got {} for log_probs {}", kCtc,
                targets.shape(), log_probs.shape());
  ADJOINT_CHECK(options.blank >= 0 && options.blank < classes, "{}: blank must be in [0, {}); got {}", kCtc, classes,
                options.blank);
  check_lengths("input_lengths", input_lengths, samples, 1, frames);
  check_lengths("target_lengths", target_lengths, samples, 0, targets.size(-1));
  std::int64_t total = 0;
  for (const std::int64_t length : target_lengths) total += length;
  ADJOINT_CHECK(targets.dim() == 2 || total == targets.size(0),
                "{}: target_lengths must add up to targets' one axis; got {} for {}", kCtc, total, targets.shape());
  Tensor each = ctc_losses(scores, CtcStates(targets, target_lengths, options.blank, classes), input_lengths);
  const double infinity = std::numeric_limits<double>::infinity();
  each = where(each > -0.1 * kNever, options.zero_infinity ? 0.0 : infinity, each);
  if (options.reduction == Reduction::kMean) {
    std::vector<double> divisors;
    for (const std::int64_t length : target_lengths)
      divisors.push_back(static_cast<double>(std::max<std::int64_t>(1, length)));
    each = each / Tensor::from_vector(divisors, {samples}, {.dtype = each.dtype()}).to(each.device());
  }
  const Tensor result = loss::reduced(each, options.reduction).to(log_probs.dtype());
  return batched || options.reduction != Reduction::kNone ? result : result.squeeze(0);
}

Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, const CtcLossOptions& options) {
  const OpScope scope(kCtc);
  const auto numbers = [](const char* what, const Tensor& lengths) {
    check_defined(kCtc, what, lengths);
    ADJOINT_CHECK(lengths.dtype() == kInt64 || lengths.dtype() == kInt32, "{}: {} must be int64 or int32; got {}", kCtc,
                  what, lengths.dtype());
    return lengths.to_vector<std::int64_t>();
  };
  return ctc_loss(log_probs, targets, numbers("input_lengths", input_lengths),
                  numbers("target_lengths", target_lengths), options);
}

}  // namespace adjoint
