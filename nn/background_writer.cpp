#include <adjoint/nn/background_writer.h>

#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/base/forked.h>
#include <adjoint/core/base/stream.h>
#include <adjoint/core/memory/pinned.h>
#include <adjoint/core/tensor/factories.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

namespace adjoint::nn {

struct BackgroundWriter::Thread {
  std::thread running;
};

BackgroundWriter::BackgroundWriter() : thread_(new Thread) {}

BackgroundWriter::~BackgroundWriter() { join(); }

void BackgroundWriter::join() {
  std::thread& running = thread_->running;
  if (!running.joinable()) return;
  if (process_ == ::getpid()) {
    running.join();
  } else {
    leave_to_parent(std::move(running));  // the parent's thread writes the file
  }
}

void BackgroundWriter::wait() {
  join();
  if (const std::exception_ptr error = std::exchange(error_, nullptr)) std::rethrow_exception(error);
}

void BackgroundWriter::start(const char* op, const NamedTensors& state,
                             std::function<void(const NamedTensors&)> write) {
  wait();
  copy(state);
  process_ = ::getpid();
  try {
    thread_->running = std::thread([this, write = std::move(write)] {
      try {
        write(copies_);
      } catch (...) {
        error_ = std::current_exception();
      }
    });
  } catch (const std::system_error& error) {
    fail("{}: cannot start a thread to write: {}", op, error.what());
  }
}

// Starts all copies from GPUs before it waits for the first.
void BackgroundWriter::copy(const NamedTensors& state) {
  const PauseTape pause;
  NamedTensors copies;
  std::vector<Device> devices;
  for (std::size_t i = 0; i < state.size(); ++i) {
    const auto& [name, source] = state[i];
    const bool reusable = i < copies_.size() && copies_[i].second.shape() == source.shape() &&
                          copies_[i].second.dtype() == source.dtype();
    const bool on_cpu = source.device().is_cpu();
    Tensor host = reusable ? copies_[i].second
                  : on_cpu ? Tensor::empty(source.shape(), {.dtype = source.dtype()})
                           : empty_pinned(source.shape(), source.dtype());
    copy_async(source.detach(), host);
    if (!on_cpu && std::find(devices.begin(), devices.end(), source.device()) == devices.end()) {
      devices.push_back(source.device());
    }
    copies.emplace_back(name, std::move(host));
  }
  for (const Device device : devices) synchronize(device);
  copies_ = std::move(copies);
}

}  // namespace adjoint::nn
