// The thread that writes a training's state to the disk while the training goes on. Internal.
#pragma once

#include <adjoint/core/export.h>
#include <adjoint/core/named_tensors.h>

#include <exception>
#include <functional>
#include <thread>

namespace adjoint::nn {

/// Used by one thread at a time.
class ADJOINT_API BackgroundWriter {
 public:
  BackgroundWriter() = default;
  /// Waits for the thread; what it failed at is lost unless wait() was asked before.
  ~BackgroundWriter();
  BackgroundWriter(const BackgroundWriter&) = delete;
  BackgroundWriter& operator=(const BackgroundWriter&) = delete;

  /// Has a thread call `write` with a copy of the state on the CPU, having waited for the one before. Returns as soon
  /// as everything is copied, into memory that is used anew and on GPUs page-locked. Throws what the one before failed
  /// at, and Error, which names `op`, where there is no thread; nothing is under way then.
  void start(const char* op, const NamedTensors& state, std::function<void(const NamedTensors& copies)> write);
  /// Returns when the thread is done. Throws what it failed at, once.
  void wait();

 private:
  void copy(const NamedTensors& state);

  NamedTensors copies_;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace adjoint::nn
