// The thread that writes a training's state to the disk while the training continues.
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/core/base/owned.h>
#include <adjoint/core/tensor/named_tensors.h>

#include <exception>
#include <functional>

#include <sys/types.h>

namespace adjoint::nn {

/// Used by one thread at a time.
class ADJOINT_API BackgroundWriter {
 public:
  BackgroundWriter();
  /// Waits for the thread; its error is lost unless wait() was called before.
  ~BackgroundWriter();
  BackgroundWriter(const BackgroundWriter&) = delete;
  BackgroundWriter& operator=(const BackgroundWriter&) = delete;

  /// Makes a thread call `write` with a copy of the state on the CPU, after waiting for the previous call. Returns as
  /// soon as everything is copied, into memory that is reused, and is page-locked for GPUs. Throws the previous call's
  /// error, and an Error that names `op` if no thread can be started; then nothing is running.
  void start(const char* op, const NamedTensors& state, std::function<void(const NamedTensors& copies)> write);
  /// Returns when the thread is done, or immediately in a process that was forked meanwhile. Throws the thread's error,
  /// once.
  void wait();

 private:
  void copy(const NamedTensors& state);
  void join();

  NamedTensors copies_;
  std::exception_ptr error_;
  struct Thread;  // std::thread, whose header would need a tenth of the compile time of adjoint.h
  Owned<Thread> thread_;
  pid_t process_ = 0;  // the process that has the thread
};

}  // namespace adjoint::nn
