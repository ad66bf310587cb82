#include "recordings.h"

#include "made.h"

#include "common/sounds.h"
#include "common/tested.h"

#include <adjoint/core/base/error.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/reduce/reduce.h>

#include <fmt/format.h>

#include <algorithm>

namespace amp {
namespace {

using adjoint::Tensor;

constexpr std::int64_t kHeldOut = 10;               // the last tenth of a user's recording
constexpr std::int64_t kTestSeconds = 10;           // of made sound
constexpr double kSilence = 1e-4;                   // the largest sample of a silent sound
constexpr std::uint64_t kTrained = 1, kTested = 2;  // numbers of made sounds

Recording made_recording(std::uint64_t number, std::int64_t samples, std::int64_t sample_rate) {
  const Tensor input = plucked(number, samples, sample_rate);
  return {input, amplified(input, sample_rate)};
}

Tensor mixed(const std::string& path, std::int64_t sample_rate) {
  return examples::read_sound(path, sample_rate).samples.mean({0});
}

Recording part_of(const Recording& whole, std::int64_t from, std::int64_t count) {
  return {whole.input.narrow(0, from, count).contiguous(), whole.target.narrow(0, from, count).contiguous()};
}

}  // namespace

Recordings Recordings::made(std::int64_t seconds, std::int64_t sample_rate, std::int64_t least) {
  const std::int64_t samples = seconds * sample_rate;
  if (samples < least) {
    throw adjoint::Error(
        fmt::format("amp: --seconds must give {} samples, one of --segment and those that it depends on; got {}; raise "
                    "--seconds, or lower --segment or --layers",
                    least, samples));
  }
  return {made_recording(kTrained, samples, sample_rate),
          made_recording(kTested, examples::tested(kTestSeconds * sample_rate), sample_rate)};
}

Recordings Recordings::of(const std::string& input, const std::string& target, std::int64_t sample_rate,
                          std::int64_t least, std::int64_t most) {
  const Recording whole{mixed(input, sample_rate), mixed(target, sample_rate)};
  const std::int64_t length = whole.input.numel();
  if (whole.target.numel() != length) {
    throw adjoint::Error(
        fmt::format("amp: --input and --target must be equally long; got {} samples in '{}' and {} in '{}'; cut the "
                    "longer file",
                    length, input, whole.target.numel(), target));
  }
  const std::int64_t held_out = length / kHeldOut;
  if (held_out < least) {
    throw adjoint::Error(
        fmt::format("amp: a tenth of '{}' must have {} samples, one of --segment and those that it depends on; got {}; "
                    "record more, or lower --segment or --layers",
                    input, least, held_out));
  }
  const Recordings parts{part_of(whole, 0, length - held_out),
                         part_of(whole, length - held_out, std::min(held_out, most))};
  for (const Recording& part : {parts.training, parts.tests}) {
    if (adjoint::abs(part.target).max().item<double>() < kSilence)
      throw adjoint::Error(
          fmt::format("amp: '{}' must not be silent, neither before its last tenth nor in it", target));
  }
  return parts;
}

std::uint64_t Recordings::fingerprint() const {
  return examples::fingerprint({{"", training.input}, {"", training.target}, {"", tests.input}, {"", tests.target}});
}

adjoint::data::Example Pieces::get(std::int64_t, adjoint::Generator& generator) const {
  const auto places = static_cast<std::uint64_t>(recording_.input.numel() - samples_ + 1);
  const auto from = static_cast<std::int64_t>(generator.below(places));
  const Recording piece = part_of(recording_, from, samples_);
  return {piece.input.unsqueeze(0), piece.target.unsqueeze(0)};
}

}  // namespace amp
