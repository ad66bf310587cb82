#include "made_sounds.h"

#include "common/paint.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <numbers>
#include <vector>

namespace vocoder {
namespace {

using examples::Dice;

constexpr float kPi = std::numbers::pi_v<float>;
constexpr float kBefore = 0.4F;  // seconds that are made and dropped, before sound has set in

std::int64_t count_of(float seconds, float rate) { return static_cast<std::int64_t>(seconds * rate); }

/// About normal: the sum of four uniform numbers.
float noise(Dice& dice) {
  constexpr float kScale = 1.0F / 65536.0F;
  const std::uint32_t a = dice.bits(), b = dice.bits();
  const auto part = [](std::uint32_t bits) {
    return static_cast<float>(bits & 0xffffU) + static_cast<float>(bits >> 16U);
  };
  return 1.732F * ((part(a) + part(b)) * kScale - 2.0F);
}

/// Klatt's ("Software for a cascade/parallel formant synthesizer", 1980), of gain 1 at 0 Hz.
class Resonance {
 public:
  void tune(float frequency, float bandwidth, float rate) {
    const float r = std::exp(-kPi * bandwidth / rate);
    c_ = -r * r;
    b_ = 2.0F * r * std::cos(2.0F * kPi * std::min(frequency, 0.49F * rate) / rate);
    a_ = 1.0F - b_ - c_;
  }
  float operator()(float x) {
    const float y = a_ * x + b_ * y1_ + c_ * y2_;
    y2_ = y1_;
    y1_ = y;
    return y;
  }
  /// Of gain 1 at the resonance, about.
  float band(float x, float bandwidth, float rate) { return (*this)(x) / a_ * (kPi * bandwidth / rate); }

 private:
  float a_ = 1.0F, b_ = 0.0F, c_ = 0.0F, y1_ = 0.0F, y2_ = 0.0F;
};

// Peterson, Barney: "Control methods used in a study of the vowels", 1952: men's first three formants, in Hz.
constexpr std::array<std::array<float, 3>, 10> kVowels{{{270, 2290, 3010},
                                                        {390, 1990, 2550},
                                                        {530, 1840, 2480},
                                                        {660, 1720, 2410},
                                                        {730, 1090, 2440},
                                                        {570, 840, 2410},
                                                        {440, 1020, 2240},
                                                        {300, 870, 2240},
                                                        {640, 1190, 2390},
                                                        {490, 1350, 1690}}};

/// A voice's state at a time: levels, and the frequencies of its resonances.
struct Posture {
  float voiced = 0.0F, breath = 0.0F, hiss = 0.0F, hiss_frequency = 4000.0F, hiss_width = 1500.0F;
  std::array<float, 4> formants{500.0F, 1500.0F, 2500.0F, 3500.0F};
};

/// The next sound of speech, given the one before it, and its duration in seconds.
Posture next_posture(const Posture& before, float throat, Dice& dice, float& seconds) {
  Posture p;
  const auto& vowel = kVowels[static_cast<std::size_t>(dice.integer(0, std::ssize(kVowels) - 1))];
  for (std::size_t i = 0; i < vowel.size(); ++i) p.formants[i] = vowel[i] * throat * dice.between(0.95F, 1.05F);
  p.formants[3] = 3500.0F * throat;
  const float kind = dice.between(0, 1);
  const auto hiss = [&](float level) {
    p.hiss = level;
    p.hiss_frequency = dice.log_between(1800.0F, 8000.0F);
    p.hiss_width = dice.log_between(500.0F, 3000.0F);
  };
  if (kind < 0.58F) {  // a vowel
    p.voiced = dice.between(0.6F, 1.0F);
    p.breath = dice.log_between(0.003F, 0.05F);
    seconds = dice.between(0.08F, 0.28F);
  } else if (kind < 0.70F) {  // a hissed consonant: s, f
    hiss(dice.log_between(0.03F, 0.3F));
    seconds = dice.between(0.05F, 0.15F);
  } else if (kind < 0.78F) {  // a voiced one: z, v
    hiss(dice.log_between(0.02F, 0.12F));
    p.voiced = dice.between(0.15F, 0.4F);
    seconds = dice.between(0.05F, 0.12F);
  } else if (kind < 0.86F) {  // a nasal: m, n
    p.formants = {250.0F * throat, dice.between(1000, 1600) * throat, 2200.0F * throat, 3300.0F * throat};
    p.voiced = dice.between(0.25F, 0.5F);
    seconds = dice.between(0.05F, 0.12F);
  } else if (kind < 0.95F) {  // the silence in front of a burst
    p.formants = before.formants;
    seconds = dice.between(0.03F, 0.08F);
  } else {
    p.formants = before.formants;
    seconds = dice.between(0.10F, 0.25F);
  }
  return p;
}

std::vector<float> voice(Dice& dice, std::int64_t samples, float rate) {
  const float pitch = dice.log_between(75.0F, 320.0F);
  const float throat = std::clamp(0.95F + 0.2F * std::log2(pitch / 120.0F) + dice.between(-0.06F, 0.06F), 0.85F, 1.35F);
  const float open = dice.between(0.5F, 0.75F), closing = dice.between(0.2F, 0.4F);  // shares of a period, of `open`
  const float jitter = dice.log_between(0.002F, 0.02F), vibrato = dice.between(0.0F, 0.015F);
  const float vibrato_rate = dice.between(4.0F, 6.5F), glide = 1.0F - std::exp(-1.0F / (0.018F * rate));
  Posture now, aim;
  std::int64_t left = 0, burst = 0;
  float phase = 0.0F, flow_before = 0.0F, period_factor = 1.0F, pitch_now = pitch, pitch_aim = pitch;
  std::array<Resonance, 4> formants;
  Resonance hiss;
  std::vector<float> out(static_cast<std::size_t>(samples));
  for (std::int64_t i = 0; i < samples; ++i) {
    if (left-- <= 0) {
      const bool was_silent = aim.voiced == 0.0F && aim.hiss == 0.0F;
      float seconds = 0.1F;
      aim = next_posture(aim, throat, dice, seconds);
      left = count_of(seconds, rate);
      burst = was_silent && i > 0 ? count_of(dice.between(0.004F, 0.02F), rate) : 0;
      pitch_aim = pitch * dice.log_between(0.8F, 1.3F);
    }
    const auto follow = [&](float& value, float to) { value += glide * (to - value); };
    follow(now.voiced, aim.voiced);
    follow(now.breath, aim.breath);
    follow(now.hiss, aim.hiss);
    now.hiss_frequency = aim.hiss_frequency;
    now.hiss_width = aim.hiss_width;
    for (std::size_t f = 0; f < formants.size(); ++f) follow(now.formants[f], aim.formants[f]);
    pitch_now += 0.15F * glide * (pitch_aim - pitch_now);
    if (i % 16 == 0) {  // resonances move slowly
      constexpr std::array<float, 4> kWidths{60.0F, 90.0F, 130.0F, 200.0F};
      for (std::size_t f = 0; f < formants.size(); ++f) formants[f].tune(now.formants[f], kWidths[f], rate);
      hiss.tune(now.hiss_frequency, now.hiss_width, rate);
    }
    const float sway = 1.0F + vibrato * std::sin(2.0F * kPi * vibrato_rate * static_cast<float>(i) / rate);
    phase += pitch_now * sway * period_factor / rate;
    if (phase >= 1.0F) {
      phase -= 1.0F;
      period_factor = 1.0F + jitter * noise(dice);
    }
    // Rosenberg's pulse ("Effect of glottal pulse shape on the quality of natural vowels", 1971); lips differentiate.
    const float opening = open * (1.0F - closing), fall = open * closing;
    const float flow = phase < opening ? 0.5F - 0.5F * std::cos(kPi * phase / opening)
                       : phase < open  ? std::cos(0.5F * kPi * (phase - opening) / fall)
                                       : 0.0F;
    const float pulse = (flow - flow_before) * rate / (8.0F * pitch);
    flow_before = flow;
    const float random = noise(dice);
    float x = now.voiced * pulse + now.breath * (0.3F + flow) * random;
    const bool bursts = burst > 0;
    if (bursts) x += 0.4F * random, --burst;
    for (Resonance& formant : formants) x = formant(x);
    const float shared = now.voiced > 0.1F ? 0.4F + flow : 1.0F;  // hiss of voiced consonants is pulsed
    x += now.hiss * shared * hiss.band(random, now.hiss_width, rate) * 3.0F;
    out[static_cast<std::size_t>(i)] = x;
  }
  return out;
}

/// One tone of an instrument, added to `out`.
struct Instrument {
  enum Kind : int { kPlucked, kBlown, kBell, kDrum, kKinds };
  Kind kind;
  float brightness, attack, decay, vibrato, loudness;
  explicit Instrument(Dice& dice)
      : kind(static_cast<Kind>(dice.integer(0, kKinds - 1))),
        brightness(dice.between(0.5F, 0.9F)),
        attack(dice.log_between(0.003F, 0.06F)),
        decay(dice.log_between(0.15F, 1.2F)),
        vibrato(dice.between(0.0F, 0.006F)),
        loudness(dice.log_between(0.4F, 1.0F)) {}

  void play(std::vector<float>& out, std::int64_t from, float pitch, float seconds, float rate, Dice& dice) const {
    if (kind == kDrum) return drum(out, from, rate, dice);
    const auto held = count_of(seconds, rate), size = static_cast<std::int64_t>(out.size());
    const std::int64_t end = std::min(size, from + (kind == kBlown ? held + count_of(0.08F, rate) : held * 3));
    constexpr std::array<float, 8> kBellRatios{0.5F, 1.0F, 1.183F, 1.506F, 2.0F, 2.514F, 2.662F, 3.011F};
    const int partials = kind == kBell ? static_cast<int>(kBellRatios.size()) : 24;
    const float stretch = kind == kPlucked ? 0.0002F : 0.0F;
    for (int n = 1; n <= partials; ++n) {
      const auto order = static_cast<float>(n);
      const float ratio = kind == kBell ? kBellRatios[static_cast<std::size_t>(n - 1)]
                                        : order * std::sqrt(1.0F + stretch * order * order);
      const float frequency = pitch * ratio;
      if (frequency > 0.45F * rate) break;
      const float level = loudness * 0.25F * std::pow(brightness, order - 1.0F) * dice.between(0.5F, 1.0F);
      const float fades = kind == kBlown ? 0.0F : 1.0F / (decay * rate / (1.0F + 0.25F * (order - 1.0F)));
      // A rotating number is the tone; its length fades.
      std::complex<float> tone = std::polar(level, dice.between(0, 2.0F * kPi));
      const float shift = 2.0F * kPi * frequency / rate;
      const std::complex<float> turn = std::polar(std::exp(-fades), shift);
      for (std::int64_t i = from; i < end; ++i) {
        const auto t = static_cast<float>(i - from);
        float envelope = std::min(1.0F, t / (attack * rate));
        if (kind == kBlown && i >= from + held)
          envelope *= std::max(0.0F, 1.0F - static_cast<float>(i - from - held) / (0.08F * rate));
        out[static_cast<std::size_t>(i)] += envelope * tone.imag();
        tone *= turn;
        if (kind == kBlown && i % 8 == 0) {  // vibrato: eight samples' worth of a slightly other pitch
          const float sway = vibrato * std::sin(2.0F * kPi * 5.5F * t / rate);
          tone *= std::polar(1.0F, 8.0F * shift * sway);
        }
      }
    }
  }

 private:
  void drum(std::vector<float>& out, std::int64_t from, float rate, Dice& dice) const {
    const float low = dice.log_between(60.0F, 220.0F), center = dice.log_between(800.0F, 7000.0F);
    const float tonal = dice.between(0.0F, 1.0F), length = 0.15F * decay + 0.02F;
    Resonance band;
    band.tune(center, 0.6F * center, rate);
    float phase = 0.0F;
    const std::int64_t end = std::min<std::int64_t>(std::ssize(out), from + count_of(6.0F * length, rate));
    for (std::int64_t i = from; i < end; ++i) {
      const float t = static_cast<float>(i - from) / rate, envelope = std::exp(-t / length);
      phase += 2.0F * kPi * low * (1.0F + 1.5F * std::exp(-t / 0.03F)) / rate;
      const float hit = band.band(noise(dice), 0.6F * center, rate) * 3.0F * std::exp(-2.0F * t / length);
      out[static_cast<std::size_t>(i)] += 0.5F * loudness * (tonal * envelope * std::sin(phase) + (1.0F - tonal) * hit);
    }
  }
};

std::vector<float> music(Dice& dice, std::int64_t samples, float rate) {
  constexpr std::array<int, 5> kScale{0, 2, 4, 7, 9};  // semitones
  std::vector<float> out(static_cast<std::size_t>(samples), 0.0F);
  const float root = dice.log_between(55.0F, 110.0F), beat = dice.log_between(0.11F, 0.4F);
  for (std::int64_t instruments = dice.integer(1, 3); instruments > 0; --instruments) {
    const Instrument instrument(dice);
    const std::int64_t octave = dice.integer(0, 3);
    float at = -dice.between(0, beat);
    while (at * rate < static_cast<float>(samples)) {
      const float seconds = beat * static_cast<float>(dice.integer(1, 3));
      const auto semitone = static_cast<float>(kScale[static_cast<std::size_t>(dice.integer(0, 4))]);
      const float pitch = root * std::exp2(static_cast<float>(octave) + semitone / 12.0F);
      if (dice.chance(0.85F))
        instrument.play(out, std::max<std::int64_t>(0, count_of(at, rate)), pitch, seconds, rate, dice);
      at += seconds;
    }
  }
  return out;
}

}  // namespace

adjoint::Tensor made_sound(std::uint64_t number, std::int64_t samples, std::int64_t sample_rate) {
  Dice dice(number);
  const auto rate = static_cast<float>(sample_rate);
  const std::int64_t before = count_of(kBefore, rate);
  std::vector<float> sound =
      number % 2 == 0 ? voice(dice, before + samples, rate) : music(dice, before + samples, rate);
  sound.erase(sound.begin(), sound.begin() + before);
  float peak = 1e-3F;
  for (const float x : sound) peak = std::max(peak, std::abs(x));
  const float scale = dice.log_between(0.3F, 0.9F) / peak;
  const float room = dice.log_between(1e-4F, 1e-3F);  // every recording has noise
  for (float& x : sound) x = std::clamp(scale * x + room * noise(dice), -1.0F, 1.0F);
  return adjoint::Tensor::from_vector(sound, {samples});
}

}  // namespace vocoder
