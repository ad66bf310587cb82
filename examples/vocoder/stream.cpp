#include "stream.h"

#include "mel.h"

#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/join/join.h>
#include <adjoint/ops/pad/pad.h>

#include <algorithm>
#include <limits>

namespace vocoder {
namespace {

namespace nn = adjoint::nn;
using adjoint::Tensor;

Tensor joined(const Tensor& a, const Tensor& b) {
  return a.size(-1) == 0 ? b : b.size(-1) == 0 ? a : adjoint::cat({a, b}, -1);
}

template <class Layer>
Tensor run(Layer& layer, const Tensor& chunk, bool last) {
  const Tensor out = layer(chunk);
  return last ? joined(out, layer.flush()) : out;
}

Tensor leaky(const Tensor& x) { return x.size(-1) == 0 ? x : adjoint::leaky_relu(x, Generator::kSlope); }

}  // namespace

void Delay::push(const Tensor& chunk) { kept_ = kept_.defined() ? joined(kept_, chunk) : chunk; }

Tensor Delay::take(std::int64_t length) {
  const Tensor taken = kept_.narrow(-1, 0, length);
  kept_ = kept_.narrow(-1, length, kept_.size(-1) - length);
  return taken;
}

StreamingResBlock::StreamingResBlock(const ResBlock& block) {
  const bool paired = block.convs2.size() > 0;
  for (std::size_t i = 0; i < block.convs1.size(); ++i) {
    if (paired) {
      steps_.push_back({nn::StreamingConv1d(block.convs1[i], adjoint::Activation::leaky_relu(Generator::kSlope)),
                        nn::StreamingConv1d(block.convs2[i])});
    } else {
      steps_.push_back({nn::StreamingConv1d(block.convs1[i]), std::nullopt});
    }
  }
}

Tensor StreamingResBlock::operator()(const Tensor& chunk, bool last) {
  Tensor x = chunk;
  for (Step& step : steps_) {
    step.inputs.push(x);
    Tensor out = run(step.first, leaky(x), last);
    if (step.second) out = run(*step.second, out, last);
    x = step.inputs.take(out.size(-1));
    if (out.size(-1) > 0) x = x + out;
  }
  return x;
}

std::int64_t StreamingResBlock::latency() const {
  std::int64_t sum = 0;
  for (const Step& step : steps_) sum += step.first.latency() + (step.second ? step.second->latency() : 0);
  return sum;
}

StreamingGenerator::StreamingGenerator(const Generator& model)
    : model_(model), conv_pre_(model.conv_pre), conv_post_(model.conv_post, adjoint::Activation::tanh()) {
  const std::size_t blocks = model.network().kernel_sizes.size();
  for (std::size_t i = 0; i < model.ups.size(); ++i) {
    stages_.push_back({nn::StreamingConvTranspose1d(model.ups[i]), model.network().rates[i], {}});
    for (std::size_t j = 0; j < blocks; ++j) stages_.back().blocks.emplace_back(model.resblocks[i * blocks + j]);
    stages_.back().outputs.resize(blocks);
  }
}

Tensor StreamingGenerator::operator()(const Tensor& mel, bool last) {
  Tensor x = run(conv_pre_, model_.inputs(mel, frames_), last);
  frames_ = last ? 0 : frames_ + mel.size(-1);
  for (Stage& stage : stages_) {
    x = run(stage.up, leaky(x), last);
    std::int64_t ready = std::numeric_limits<std::int64_t>::max();
    for (std::size_t j = 0; j < stage.blocks.size(); ++j) {
      stage.outputs[j].push(stage.blocks[j](x, last));
      ready = std::min(ready, stage.outputs[j].held());
    }
    Tensor sum = stage.outputs[0].take(ready);
    for (std::size_t j = 1; j < stage.blocks.size(); ++j) {
      const Tensor next = stage.outputs[j].take(ready);
      if (ready > 0) sum = sum + next;
    }
    x = ready == 0 ? sum : sum / static_cast<double>(stage.blocks.size());
  }
  return run(conv_post_, leaky(x), last);
}

std::int64_t StreamingGenerator::latency() const {
  std::int64_t samples = kHop, sum = conv_pre_.latency() * samples;  // of the sound, for one element
  for (const Stage& stage : stages_) {
    samples /= stage.rate;
    std::int64_t slowest = 0;
    for (const StreamingResBlock& block : stage.blocks) slowest = std::max(slowest, block.latency());
    sum += (stage.up.latency() + slowest) * samples;
  }
  return sum + conv_post_.latency();
}

Tensor StreamingMel::operator()(const Tensor& chunk, bool last) {
  if (seen_ == 0 && sound_.held() == 0) sound_.push(Tensor::zeros({chunk.size(0), kMargin}, chunk.options()));
  sound_.push(chunk);
  seen_ += chunk.size(-1);
  if (last) {
    const std::int64_t behind = frames_of(seen_) * kHop - seen_ + kMargin;
    sound_.push(Tensor::zeros({chunk.size(0), behind}, chunk.options()));
  }
  const std::int64_t frames = std::max<std::int64_t>(0, (sound_.held() - 2 * kMargin) / kHop);
  Tensor mel = Tensor::zeros({chunk.size(0), kMels, 0}, chunk.options());
  if (frames > 0) {
    // Frames overlap: the samples that the next frames read are kept.
    const Tensor window = sound_.take(frames * kHop);
    const Tensor more = sound_.take(2 * kMargin), rest = sound_.take(sound_.held());
    sound_.push(joined(more, rest));
    mel = log_mel_inside(joined(window, more), sample_rate_);
  }
  if (last) {
    sound_ = {};
    seen_ = 0;
  }
  return mel;
}

std::int64_t StreamingMel::latency() { return kMargin + kHop - 1; }

Tensor StreamingVocoder::operator()(const Tensor& chunk, bool last) {
  seen_ += chunk.size(-1);
  Tensor sound = generator_(mel_(chunk, last), last).squeeze(1);
  sound = sound.narrow(-1, 0, std::min(sound.size(-1), seen_ - made_));  // the last frame stands for zeros behind too
  made_ = last ? 0 : made_ + sound.size(-1);
  if (last) seen_ = 0;
  return sound;
}

Tensor synthesize(const Generator& model, const Tensor& sound, adjoint::Device device, std::int64_t chunk) {
  StreamingVocoder vocoder(model);
  const std::int64_t length = sound.size(-1);
  std::vector<Tensor> parts;
  for (std::int64_t at = 0; at < length; at += chunk) {
    const std::int64_t count = std::min(chunk, length - at);
    parts.push_back(
        vocoder(sound.narrow(-1, at, count).contiguous().to(device), at + count == length).to(adjoint::kCPU));
  }
  return parts.empty() ? sound : adjoint::cat(parts, -1);
}

}  // namespace vocoder
