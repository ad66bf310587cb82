#include "stream.h"

#include "mel.h"

#include <adjoint/ops/join/join.h>
#include <adjoint/ops/pad/pad.h>

#include <algorithm>
#include <vector>

namespace vocoder {

using adjoint::Tensor;

Tensor StreamingMel::operator()(const Tensor& chunk, bool last) {
  const std::int64_t channels = chunk.size(0);
  const auto silence = [&](std::int64_t samples) { return Tensor::zeros({channels, samples}, chunk.options()); };
  std::vector<Tensor> parts{kept_.defined() ? kept_ : silence(kMargin), chunk};
  seen_ += chunk.size(-1);
  if (last) parts.push_back(silence(frames_of(seen_) * kHop - seen_ + kMargin));
  const Tensor sound = adjoint::cat(parts, -1);
  const std::int64_t frames = std::max<std::int64_t>(0, (sound.size(-1) - 2 * kMargin) / kHop);
  kept_ = last ? Tensor() : sound.narrow(-1, frames * kHop, sound.size(-1) - frames * kHop);
  if (last) seen_ = 0;
  if (frames == 0) return Tensor::zeros({channels, kMels, 0}, chunk.options());
  return log_mel_inside(sound.narrow(-1, 0, frames * kHop + 2 * kMargin), sample_rate_);
}

std::int64_t StreamingMel::latency() { return kMargin + kHop - 1; }

StreamingVocoder::StreamingVocoder(const Generator& model, std::int64_t channels, std::int64_t frames)
    : model_(model),
      mel_(model.options().sample_rate),
      block_(frames),
      stream_([model](const Tensor& inputs) { return model.sound_of(inputs); },
              {.block = frames, .channels = kMels + model.options().clock, .batch = channels}),
      early_(stream_.latency()) {}

Tensor StreamingVocoder::operator()(const Tensor& chunk, bool last) {
  seen_ += chunk.size(-1);
  const Tensor inputs = model_.inputs(mel_(chunk, last), frames_);
  const std::int64_t frames = inputs.size(-1);
  frames_ += frames;
  std::vector<Tensor> parts{Tensor::zeros({chunk.size(0), 1, 0})};
  for (std::int64_t at = 0; at < frames; at += block_)
    parts.push_back(stream_(inputs.narrow(-1, at, std::min(block_, frames - at))));
  if (last) parts.push_back(stream_.flush());
  const Tensor sound = adjoint::cat(parts, -1).squeeze(1);
  const std::int64_t skipped = std::min(early_, sound.size(-1));
  // The last frame also stands for zeros behind the sound.
  const std::int64_t count = std::min(sound.size(-1) - skipped, seen_ - made_);
  early_ -= skipped;
  made_ += count;
  if (last) {
    seen_ = made_ = frames_ = 0;
    early_ = stream_.latency();
  }
  return sound.narrow(-1, skipped, count);
}

Tensor synthesize(const Generator& model, const Tensor& sound, adjoint::Device device, std::int64_t chunk) {
  const std::int64_t length = sound.size(-1), frames = frames_of(length), step = frames_of(chunk),
                     around = model.frames_around();
  std::vector<Tensor> parts;
  for (std::int64_t at = 0; at < frames; at += step) {
    const std::int64_t count = std::min(step, frames - at), begin = std::max<std::int64_t>(at - around, 0),
                       end = std::min(at + count + around, frames);
    const std::int64_t from = begin * kHop - kMargin, to = end * kHop + kMargin,
                       first = std::max<std::int64_t>(from, 0), behind = std::min(to, length);
    const Tensor piece = adjoint::pad(sound.narrow(-1, first, behind - first).to(device), {first - from, to - behind});
    const Tensor mel = log_mel_inside(piece, model.options().sample_rate);
    const Tensor made = model.sound_of(model.inputs(mel, begin)).squeeze(1);
    parts.push_back(made.narrow(-1, (at - begin) * kHop, count * kHop).to(adjoint::kCPU));
  }
  return parts.empty() ? sound : adjoint::cat(parts, -1).narrow(-1, 0, length);
}

}  // namespace vocoder
