// Convolutions in chunks: what comes out, one chunk after the other, is the convolution of the whole sequence.
//
//   nn::StreamingConvTranspose1d up(layer);
//   for (const Tensor& chunk : chunks) play(up(chunk));
//   play(up.flush());
//
// Chunks are (N, C, L) or (C, L), of any length, 0 too; so are results. What is carried from chunk to chunk is the last
// inputs, so that every element of the result is one sum in the order of the whole convolution, bias and activation
// included: exact on small integers, else within rounding of the whole, and the same bits for the same chunks. The
// layer is shared, not copied: parameters that change do so for the chunks that follow. Its hooks do not run.
//
// Any stride, dilation, groups and output_padding. What stands around the sequence must not depend on its other end:
// constructors throw Error for a layer with a padding_mode other than kConstant, or with a padding of kSame.
//
// For inference: nothing is recorded. Under a tape results are constants, as under PauseTape.
#pragma once

#include <adjoint/nn/conv.h>

#include <cstdint>

namespace adjoint::nn {

namespace detail {

/// The inputs that are still needed, and how far the outputs have come. What throws changes nothing.
class ADJOINT_API StreamState {
 public:
  /// `padding` zeros stand in front of the sequence, at places below 0.
  explicit StreamState(std::int64_t padding) : first_(-padding) {}

  /// The kept inputs and `chunk` behind them. Throws Error, naming `op`, for a chunk that does not fit `weight` or the
  /// chunks before it.
  Tensor append(const char* op, const Tensor& chunk, const Tensor& weight, std::int64_t channels) const;
  /// After `outputs` more: keeps of `window`, which append gave, what stands at `from` and behind it.
  void advance(std::int64_t outputs, const Tensor& window, std::int64_t from);
  /// Throws Error, naming `op`, where no chunk has come; else a chunk of `length` zeros, like the chunks that have.
  Tensor zeros(const char* op, std::int64_t length) const;

  std::int64_t made() const { return made_; }
  /// The place of the first input that is kept.
  std::int64_t first() const { return first_; }

 private:
  Tensor kept_;
  std::int64_t first_, made_ = 0;
};

}  // namespace detail

/// A Conv1d, and what follows it elementwise, in chunks.
class ADJOINT_API StreamingConv1d {
 public:
  explicit StreamingConv1d(const Conv1d& layer, const Activation& activation = {});

  /// The next outputs: all that no later input can change. Throws Error for a chunk that is undefined, has neither two
  /// axes nor three, or not the layer's in_channels, dtype and device, and for one that differs from those before it in
  /// more than its length; the sequence goes on as if it had not come.
  Tensor operator()(const Tensor& chunk);
  /// The outputs that are left, for which the layer's padding ends the sequence; a new sequence may begin then. None
  /// where the whole is shorter than the kernel. Throws Error where no chunk has come.
  Tensor flush();
  /// Forgets the sequence.
  void reset() { state_ = detail::StreamState(layer_.options().padding); }
  /// In inputs: when n inputs have come, floor((n - latency()) / stride) outputs have, if that is positive. It is
  /// dilation (kernel_size - 1) + 1 - padding - stride, and below 0 where padding outweighs the rest.
  std::int64_t latency() const;

 private:
  Conv1d layer_;
  Activation activation_;
  detail::StreamState state_;
};

/// A ConvTranspose1d, and what follows it elementwise, in chunks.
class ADJOINT_API StreamingConvTranspose1d {
 public:
  explicit StreamingConvTranspose1d(const ConvTranspose1d& layer, const Activation& activation = {});

  /// The next outputs: all that no later input, nor the end of the sequence, can change. Throws Error as
  /// StreamingConv1d's does.
  Tensor operator()(const Tensor& chunk);
  /// The outputs that are left, output_padding included; a new sequence may begin then. Throws Error where no chunk
  /// has come.
  Tensor flush();
  /// Forgets the sequence.
  void reset() { state_ = detail::StreamState(0); }
  /// In outputs: when n inputs have come, n stride - latency() outputs have, if that is positive. It is padding, and
  /// more where the end of the sequence would cut what the last input reaches: stride - (dilation (kernel_size - 1) + 1
  /// - padding + output_padding), if that is positive, is added.
  std::int64_t latency() const;

 private:
  Tensor window(const Tensor& chunk);
  Tensor outputs_until(std::int64_t end, const Tensor& window) const;

  ConvTranspose1d layer_;
  Activation activation_;
  detail::StreamState state_;
};

}  // namespace adjoint::nn
