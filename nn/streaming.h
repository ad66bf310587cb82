// Networks over signals that arrive in blocks.
//
//   nn::Streaming stream(net, {.block = 64});
//   while (read(in)) {  // (1, 1, 64)
//     stream.process(in, out);
//     play(out);
//   }
//   play(stream.flush());
//
// Streaming runs a whole network of local layers with a fixed latency. StreamingConv1d and StreamingConvTranspose1d run
// single layers over chunks of any length, on a GPU too:
//
//   nn::StreamingConvTranspose1d up(layer);
//   for (const Tensor& chunk : chunks) play(up(chunk));
//   play(up.flush());
//
// Chunks and results are (N, C, L) or (C, L), of any length, including 0. The last inputs are carried from chunk to
// chunk, so every element of the result is one sum in the order of the whole convolution, bias and activation included.
// It is exact on small integers, otherwise within rounding of the whole, with the same bits for the same chunks. The
// layer is shared, not copied: changed parameters apply to the chunks that follow. Its hooks do not run. Stride,
// dilation, groups and output_padding are free. The values around the sequence must not depend on its other end:
// constructors throw Error for a padding_mode other than kConstant and for a padding of kSame.
//
// They record nothing: under a tape results are constants, as under PauseTape.
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/core/base/owned.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/nn/conv.h>
#include <adjoint/nn/module.h>
#include <adjoint/nn/tensor_function.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace adjoint::nn {

struct StreamingOptions {
  /// The largest number of samples of a call.
  std::int64_t block = 64;
  std::int64_t channels = 1, batch = 1;
  /// The signal's dtype; by default that of a module's first parameter, and float32 for other functions.
  std::optional<DType> dtype = {};
  /// As in PlanOptions: with 1, calls neither allocate nor lock.
  int threads = 1;
};

/// A network (batch, channels, L) -> (..., L'), on the CPU, in blocks. Streamed output t + latency() is output t of the
/// network's call on the whole signal: exactly on small integers, otherwise within rounding. The first latency()
/// outputs are zeros. A network that shortens the signal gives outputs behind its end, too. Every division into blocks
/// gives the same bits.
///
/// The network is recorded as operators, so it may be a module or a function. It may contain convolutions and their
/// transposes, pooling, padding with constants, slices, elementwise functions, normalisation with running statistics or
/// over other axes than time, linear and matmul, reductions and softmax over other axes, cat, views that keep time
/// apart or fold it (pixel shuffle), nearest-neighbour upsampling, and RNN, LSTM and GRU in one direction. Padding may
/// look ahead: the outputs wait for it. Branches that meet are aligned. Each layer pads its own input, as in the call
/// on the whole signal.
///
/// The network's tensors are frozen (nn/freeze.h) while the Streaming lives. All functions of a moved-from Streaming
/// throw Error. A Streaming runs on one thread at a time.
class ADJOINT_API Streaming {
 public:
  /// Calls f on silence of several lengths, to record it. Throws Error for an operator that reads the whole signal or
  /// that has no rule, naming it and its module; for networks that Plan refuses; and if the block is not a multiple of
  /// the network's strides.
  explicit Streaming(std::function<Tensor(const Tensor&)> f, const StreamingOptions& options = {});
  /// The same for a module with one input and one output. Throws Error in training mode. The module may be destroyed
  /// before the Streaming.
  template <std::derived_from<Module> M>
  explicit Streaming(const M& module, const StreamingOptions& options = {})
      : Streaming(
            [&](const std::vector<Tensor>& x) {
              detail::check_evaluated("Streaming", module);
              return detail::call_with("Streaming", module, x);
            },
            options, dtype_of(module)) {}
  Streaming(Streaming&&) noexcept;
  Streaming& operator=(Streaming&&) noexcept;
  ~Streaming();

  /// Processes the next n samples: `in` is (batch, channels, n), `out` (..., outputs(n)) with the shape of the
  /// network's output. n is at most the block, and divisible by multiple(). Throws Error for other shapes, dtypes and
  /// devices; the signal then continues as if the call had not been made. With one thread and a contiguous `in` it does
  /// not allocate, lock or make a system call.
  void process(const Tensor& in, Tensor& out);
  /// The same for elements in memory, of a network in float32 or float64, for callbacks whose n changes. Each channel
  /// of each sample of the batch is one row of n.
  void process(std::span<const float> in, std::span<float> out);
  void process(std::span<const double> in, std::span<double> out);
  /// The same; returns a new tensor.
  Tensor operator()(const Tensor& in);
  /// Ends the signal, and returns its remaining outputs, which may be empty. A new signal may follow. Throws Error if
  /// the network refuses a signal of this length.
  Tensor flush();
  /// Drops the signal.
  void reset();

  /// The number of outputs before the network's output 0.
  std::int64_t latency() const;
  /// Each call's number of samples must be divisible by it.
  std::int64_t multiple() const;
  /// The number of outputs of a call with n samples.
  std::int64_t outputs(std::int64_t n) const;
  /// Bytes of the block that holds the state, intermediate results and the operators' temporary memory.
  std::size_t nbytes() const;

 private:
  Streaming(const detail::TensorFunction& f, const StreamingOptions& options, DType dtype);
  static DType dtype_of(const Module& module);
  void process_elements(DType dtype, const void* in, std::size_t read, void* out, std::size_t written);
  struct Impl;
  Impl& impl() const;
  Owned<Impl> impl_;
};

namespace detail {

/// The inputs that are still needed, and the number of outputs so far. A call that throws changes nothing.
class ADJOINT_API StreamState {
 public:
  /// `padding` zeros precede the sequence, at positions below 0.
  explicit StreamState(std::int64_t padding) : first_(-padding) {}

  /// The kept inputs followed by `chunk`. Throws Error, naming `op`, for a chunk that does not fit `weight` or the
  /// chunks before it.
  Tensor append(const char* op, const Tensor& chunk, const Tensor& weight, std::int64_t channels) const;
  /// Counts `outputs` more, and keeps the part of `window`, which append returned, from `from` on.
  void advance(std::int64_t outputs, const Tensor& window, std::int64_t from);
  /// Throws Error, naming `op`, if no chunk has come; otherwise returns a chunk of `length` zeros, like the previous
  /// chunks.
  Tensor zeros(const char* op, std::int64_t length) const;

  std::int64_t made() const { return made_; }
  /// The position of the first kept input.
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

  /// Returns the next outputs: all that no later input can change. Throws Error for a chunk that is undefined, has
  /// neither two nor three axes, lacks the layer's in_channels, dtype or device, or differs from earlier chunks in more
  /// than its length; the sequence then continues without that chunk.
  Tensor operator()(const Tensor& chunk);
  /// Ends the sequence, and returns its remaining outputs, with the layer's padding at the end. A new sequence may
  /// follow. Empty if the whole is shorter than the kernel. Throws Error before the first chunk.
  Tensor flush();
  /// Drops the sequence.
  void reset() { state_ = detail::StreamState(layer_.options().padding); }
  /// Counted in inputs: after n inputs there are floor((n - latency()) / stride) outputs, if that is positive. It is
  /// dilation (kernel_size - 1) + 1 - padding - stride, and negative if padding outweighs the rest.
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

  /// Returns the next outputs: all that neither later inputs nor the end of the sequence can change. Throws Error as
  /// StreamingConv1d's does.
  Tensor operator()(const Tensor& chunk);
  /// Ends the sequence, and returns its remaining outputs, including output_padding. A new sequence may follow. Throws
  /// Error before the first chunk.
  Tensor flush();
  /// Drops the sequence.
  void reset() { state_ = detail::StreamState(0); }
  /// Counted in outputs: after n inputs there are n stride - latency() outputs, if that is positive. It is padding, and
  /// more if the end of the sequence would cut the last input's outputs: stride - (dilation (kernel_size - 1) + 1 -
  /// padding + output_padding) is added if it is positive.
  std::int64_t latency() const;

 private:
  Tensor window(const Tensor& chunk);
  Tensor outputs_until(std::int64_t end, const Tensor& window) const;

  ConvTranspose1d layer_;
  Activation activation_;
  detail::StreamState state_;
};

}  // namespace adjoint::nn
