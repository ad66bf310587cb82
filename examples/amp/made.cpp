#include "made.h"

#include "common/paint.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

namespace amp {
namespace {

using adjoint::Tensor;
using examples::Dice;

/// A filter of one pole: x's part below the frequency.
class Lowpass {
 public:
  Lowpass(double frequency, double rate) : share_(1.0 - std::exp(-2.0 * std::numbers::pi * frequency / rate)) {}
  double operator()(double x) { return state_ += share_ * (x - state_); }

 private:
  double share_, state_ = 0.0;
};

/// A delay line that feeds back through the mean of two neighbours, which damps its high partials first.
class String {
 public:
  /// `seconds` is the time in which the tone falls by 60 dB; `brightness`, in Hz, limits the stroke.
  void pluck(double frequency, double level, double brightness, double seconds, double rate, Dice& dice) {
    delay_ = rate / frequency - 0.5;  // the mean of neighbours delays by half a sample
    loss_ = std::pow(0.001, 1.0 / (frequency * seconds));
    past_.assign(static_cast<std::size_t>(delay_) + 2, 0.0);
    Lowpass soft(brightness, rate);
    for (double& x : past_) x = soft(level * static_cast<double>(dice.between(-1.0F, 1.0F)));
    at_ = 0;
    before_ = 0.0;
  }
  double next() {
    if (past_.empty()) return 0.0;
    const double whole = std::floor(delay_), part = delay_ - whole;
    const double x =
        (1.0 - part) * ago(static_cast<std::size_t>(whole)) + part * ago(static_cast<std::size_t>(whole) + 1);
    past_[at_] = loss_ * 0.5 * (x + before_);
    before_ = x;
    at_ = at_ + 1 == past_.size() ? 0 : at_ + 1;
    return x;
  }

 private:
  double ago(std::size_t samples) const { return past_[(at_ + past_.size() - samples) % past_.size()]; }

  std::vector<double> past_;
  std::size_t at_ = 0;
  double delay_ = 0.0, loss_ = 0.0, before_ = 0.0;
};

constexpr std::size_t kStrings = 6;

/// The frets of the next stroke, by string; a negative one is not plucked.
std::array<std::int64_t, kStrings> next_frets(Dice& dice) {
  std::array<std::int64_t, kStrings> frets;
  frets.fill(-1);
  const float kind = dice.between(0, 1);
  if (kind < 0.5F) {  // a note
    frets[static_cast<std::size_t>(dice.integer(0, kStrings - 1))] = dice.integer(0, 15);
  } else if (kind < 0.8F) {  // a fifth, whose upper tone lies two frets further on the next string
    const auto low = static_cast<std::size_t>(dice.integer(0, 2));
    frets[low] = dice.integer(0, 8);
    frets[low + 1] = frets[low] + 2;
  } else {  // a major chord
    constexpr std::array<std::int64_t, kStrings> kShape{0, 2, 2, 1, 0, 0};
    const std::int64_t bar = dice.integer(0, 7);
    for (std::size_t i = 0; i < kStrings; ++i) frets[i] = bar + kShape[i];
  }
  return frets;
}

/// Log cosh, the integral of tanh.
double integral(double u) { return std::abs(u) + std::log1p(std::exp(-2.0 * std::abs(u))) - std::numbers::ln2; }

class Stage {
 public:
  Stage(double gain, double lowest, double offset, double rate)
      : gain_(gain), offset_(offset), low_(lowest, rate), bias_(15.0, rate) {}
  double operator()(double x) {
    constexpr double kShift = 0.4, kNear = 1e-4;
    const double u = gain_ * (x - low_(x)) + offset_ - shift_;
    shift_ = kShift * bias_(std::max(0.0, u));
    const double step = u - before_;
    const double y = std::abs(step) < kNear ? std::tanh(0.5 * (u + before_)) : (integral(u) - integral(before_)) / step;
    before_ = u;
    return y;
  }

 private:
  double gain_, offset_, shift_ = 0.0, before_ = 0.0;
  Lowpass low_, bias_;
};

}  // namespace

Tensor plucked(std::uint64_t number, std::int64_t samples, std::int64_t sample_rate) {
  constexpr std::array<double, kStrings> kOpen{82.41, 110.0, 146.83, 196.0, 246.94, 329.63};  // Hz
  Dice dice(number);
  const auto rate = static_cast<double>(sample_rate);
  std::array<String, kStrings> strings;
  std::vector<float> sound(static_cast<std::size_t>(samples));
  Lowpass pickup(std::min(5000.0, 0.4 * rate), rate);
  std::int64_t next = 0;
  for (std::int64_t i = 0; i < samples; ++i) {
    if (i == next) {
      const auto level = static_cast<double>(dice.log_between(0.1F, 1.0F));
      const double seconds = dice.chance(0.3F) ? 0.3 : 4.0, brightness = std::min(6000.0, 0.4 * rate);
      const auto frets = next_frets(dice);
      for (std::size_t s = 0; s < kStrings; ++s) {
        if (frets[s] < 0) continue;
        const double frequency = kOpen[s] * std::exp2(static_cast<double>(frets[s]) / 12.0);
        strings[s].pluck(frequency, level, brightness, seconds, rate, dice);
      }
      next += 1 + static_cast<std::int64_t>(dice.log_between(0.08F, 0.8F) * static_cast<float>(rate));
    }
    double sum = 0.0;
    for (String& string : strings) sum += string.next();
    sound[static_cast<std::size_t>(i)] = static_cast<float>(pickup(sum));
  }
  float peak = 1e-6F;
  for (const float x : sound) peak = std::max(peak, std::abs(x));
  for (float& x : sound) x *= 0.9F / peak;
  return Tensor::from_vector(sound, {samples});
}

Tensor amplified(const Tensor& sound, std::int64_t sample_rate) {
  const auto rate = static_cast<double>(sample_rate);
  Stage first(12.0, 120.0, 0.2, rate), second(3.0, 30.0, -0.3, rate);
  Lowpass tone(std::min(5000.0, 0.4 * rate), rate), block(10.0, rate);
  std::vector<float> out = sound.to_vector<float>();
  for (float& x : out) {
    const double y = tone(second(first(static_cast<double>(x))));
    x = static_cast<float>(0.6 * (y - block(y)));
  }
  return Tensor::from_vector(out, sound.shape());
}

}  // namespace amp
