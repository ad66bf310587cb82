// Convolutions in chunks: the results, one chunk after the other, are the convolution of the whole sequence.
//
//   nn::StreamingConvTranspose1d up(layer);
//   for (const Tensor& chunk : chunks) play(up(chunk));
//   play(up.flush());
//
// Chunks are (N, C, L) or (C, L), of any length, also 0; so are results. The last inputs are carried from chunk to
// chunk, so that every element of the result is one sum in the order of the whole convolution, bias and activation
// included: exact on small integers, otherwise within rounding of the whole, and the same bits for the same chunks. The
// layer is shared, not copied: changed parameters apply to the chunks that follow. Its hooks do not run.
//
// Any stride, dilation, groups and output_padding. The values around the sequence must not depend on its other end:
// constructors throw Error for a layer with a padding_mode other than kConstant, or with a padding of kSame.
//
// For inference: nothing is recorded. Under a tape results are constants, as under PauseTape.
#pragma once

#include <adjoint/nn/conv.h>

#include <cstdint>

namespace adjoint::nn {

namespace detail {

/// The inputs that are still needed, and the number of outputs so far. A call that throws changes nothing.
class ADJOINT_API StreamState {
 public:
  /// `padding` zeros precede the sequence, at places below 0.
  explicit StreamState(std::int64_t padding) : first_(-padding) {}

  /// The kept inputs followed by `chunk`. Throws Error, naming `op`, for a chunk that does not fit `weight` or the
  /// chunks before it.
  Tensor append(const char* op, const Tensor& chunk, const Tensor& weight, std::int64_t channels) const;
  /// After `outputs` more: keeps the part of `window`, which append returned, from `from` on.
  void advance(std::int64_t outputs, const Tensor& window, std::int64_t from);
  /// Throws Error, naming `op`, if no chunk has come; otherwise returns a chunk of `length` zeros, like the previous
  /// chunks.
  Tensor zeros(const char* op, std::int64_t length) const;

  std::int64_t made() const { return made_; }
  /// The place of the first kept input.
  std::int64_t first() const { return first_; }

 private:
  Tensor kept_;
  std::int64_t first_, made_ = 0;
};

}  // namespace detail

/// A Conv1d, and its elementwise continuation, in chunks.
class ADJOINT_API StreamingConv1d {
 public:
  explicit StreamingConv1d(const Conv1d& layer, const Activation& activation = {});

  /// The next outputs: all that no later input can change. Throws Error for a chunk that is undefined, has neither two
  /// nor three axes, or does not have the layer's in_channels, dtype and device, and for one that differs from those
  /// before it in more than its length; the sequence then continues as if the chunk had not come.
  Tensor operator()(const Tensor& chunk);
  /// The remaining outputs, with the layer's padding at the end of the sequence; a new sequence may begin then. Empty
  /// if the whole is shorter than the kernel. Throws Error if no chunk has come.
  Tensor flush();
  /// Drops the sequence.
  void reset() { state_ = detail::StreamState(layer_.options().padding); }
  /// In inputs: after n inputs there are floor((n - latency()) / stride) outputs, if that is positive. It is dilation
  /// (kernel_size - 1) + 1 - padding - stride, and negative if padding outweighs the rest.
  std::int64_t latency() const;

 private:
  Conv1d layer_;
  Activation activation_;
  detail::StreamState state_;
};

/// A ConvTranspose1d, and its elementwise continuation, in chunks.
class ADJOINT_API StreamingConvTranspose1d {
 public:
  explicit StreamingConvTranspose1d(const ConvTranspose1d& layer, const Activation& activation = {});

  /// The next outputs: all that no later input, nor the end of the sequence, can change. Throws Error as
  /// StreamingConv1d's does.
  Tensor operator()(const Tensor& chunk);
  /// The remaining outputs, including output_padding; a new sequence may begin then. Throws Error if no chunk has come.
  Tensor flush();
  /// Drops the sequence.
  void reset() { state_ = detail::StreamState(0); }
  /// In outputs: after n inputs there are n stride - latency() outputs, if that is positive. It is padding, and more if
  /// the end of the sequence would cut the last input's outputs: stride - (dilation (kernel_size - 1) + 1 - padding +
  /// output_padding) is added if it is positive.
  std::int64_t latency() const;

 private:
  Tensor window(const Tensor& chunk);
  Tensor outputs_until(std::int64_t end, const Tensor& window) const;

  ConvTranspose1d layer_;
  Activation activation_;
  detail::StreamState state_;
};

}  // namespace adjoint::nn
