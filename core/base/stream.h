// CUDA streams, without CUDA's headers. Each thread has a current stream for each device, initially the device's
// default stream; every operator, copy and allocation of that thread follows its order.
#pragma once

#include <adjoint/core/base/device.h>
#include <adjoint/core/base/export.h>

#include <memory>
#include <utility>

struct CUstream_st;  // cudaStream_t is CUstream_st*

namespace adjoint {

/// One stream of one CUDA device. A tensor's memory is released in the order of the stream that was current at its
/// creation: before the last handle on a tensor is destroyed while another stream still uses it, make its own stream
/// wait for that one.
class ADJOINT_API Stream {
 public:
  /// A new stream, which does not synchronise with the default one. Throws Error unless `device` is an existing CUDA
  /// device.
  static Stream create(Device device = kCUDA);
  /// Another library's stream (null: the default one), which must outlive every tensor made while it is current.
  static Stream wrap(CUstream_st* handle, Device device = kCUDA);
  /// The calling thread's current stream.
  static Stream current(Device device = kCUDA);

  CUstream_st* handle() const { return handle_; }
  Device device() const { return device_; }

  /// Blocks this thread until all work submitted to the stream is done.
  void synchronize() const;
  /// Work submitted to this stream from now on starts after all work submitted to `other` so far. Does not block.
  void wait(const Stream& other) const;

 private:
  Stream(CUstream_st* handle, Device device, std::shared_ptr<void> owner)
      : handle_(handle), device_(device), owner_(std::move(owner)) {}

  CUstream_st* handle_;
  Device device_;
  std::shared_ptr<void> owner_;  // releases a created stream
};

/// Makes `stream` this thread's current one on its device while the guard lives.
class ADJOINT_API StreamGuard {
 public:
  explicit StreamGuard(const Stream& stream);
  ~StreamGuard();
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  Stream stream_;
  CUstream_st* before_;
};

/// Blocks this thread until its current stream on `device` has finished all submitted work; returns immediately for the
/// CPU.
ADJOINT_API void synchronize(Device device);

}  // namespace adjoint
