#include <adjoint/core/base/stream.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/graph/step_capture.h>

#include <utility>

#if defined(ADJOINT_WITH_CUDA)

#include <adjoint/core/cuda/backend.h>
#include <adjoint/core/cuda/runtime.h>

#include <map>
#include <mutex>
#include <vector>

namespace adjoint {
namespace {

// Released streams wait here for the next create(). Streams are never destroyed: tensors made on one may outlive its
// last handle, and their memory is still released in its order.
class IdleStreams {
 public:
  cudaStream_t take(int device) {
    {
      const std::lock_guard lock(mutex_);
      std::vector<cudaStream_t>& idle = idle_[device];
      if (!idle.empty()) {
        const cudaStream_t stream = idle.back();
        idle.pop_back();
        return stream;
      }
    }
    const cuda::DeviceGuard guard(device);
    cudaStream_t stream = nullptr;
    ADJOINT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
  }

  void give_back(int device, cudaStream_t stream) {
    const std::lock_guard lock(mutex_);
    idle_[device].push_back(stream);
  }

 private:
  std::mutex mutex_;
  std::map<int, std::vector<cudaStream_t>> idle_;
};

IdleStreams& idle_streams() {
  static auto* streams = new IdleStreams;
  return *streams;
}

}  // namespace

Stream Stream::create(Device device) {
  cuda::check_device("Stream::create", device);
  const cudaStream_t handle = idle_streams().take(device.index);
  const int index = device.index;
  return {handle, device, std::shared_ptr<void>(handle, [index](void* stream) {
            idle_streams().give_back(index, static_cast<cudaStream_t>(stream));
          })};
}

Stream Stream::wrap(CUstream_st* handle, Device device) {
  cuda::check_device("Stream::wrap", device);
  return {handle, device, nullptr};
}

Stream Stream::current(Device device) {
  cuda::check_device("Stream::current", device);
  return {cuda::current_stream(device.index), device, nullptr};
}

void Stream::synchronize() const {
  detail::StepCapture::refuse_waiting("Stream::synchronize");
  const cuda::DeviceGuard guard(device_.index);
  ADJOINT_CUDA(cudaStreamSynchronize(handle_));
}

void Stream::wait(const Stream& other) const {
  detail::StepCapture::refuse_waiting("Stream::wait");
  cuda::order_streams(other.device_.index, other.handle_, device_.index, handle_);
}

StreamGuard::StreamGuard(const Stream& stream) : stream_(stream), before_(nullptr) {
  detail::StepCapture::refuse_waiting("StreamGuard");
  before_ = cuda::set_current_stream(stream.device().index, stream.handle());
}

StreamGuard::~StreamGuard() { cuda::set_current_stream(stream_.device().index, before_); }

void synchronize(Device device) {
  if (device.is_cpu()) return;
  detail::StepCapture::refuse_waiting("synchronize");
  cuda::synchronize(device);
}

}  // namespace adjoint

#else

namespace adjoint {
namespace {

[[noreturn]] void no_cuda(const char* op, Device device) {
  fail("{}: needs a build with CUDA; got device {} in a build without; configure with ADJOINT_CUDA=ON", op, device);
}

}  // namespace

Stream Stream::create(Device device) { no_cuda("Stream::create", device); }
Stream Stream::wrap(CUstream_st*, Device device) { no_cuda("Stream::wrap", device); }
Stream Stream::current(Device device) { no_cuda("Stream::current", device); }
void Stream::synchronize() const { no_cuda("Stream::synchronize", device_); }
void Stream::wait(const Stream&) const { no_cuda("Stream::wait", device_); }
StreamGuard::StreamGuard(const Stream& stream) : stream_(stream), before_(nullptr) {
  no_cuda("StreamGuard", stream.device());
}
StreamGuard::~StreamGuard() = default;

void synchronize(Device device) {
  if (device.is_cuda()) no_cuda("synchronize", device);
}

}  // namespace adjoint

#endif
