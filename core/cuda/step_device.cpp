// Captured steps on CUDA: a graph is captured on its own stream, in memory of the arena, and runs on the current
// stream.
#include <adjoint/core/base/check.h>
#include <adjoint/core/base/stream.h>
#include <adjoint/core/cuda/backend.h>
#include <adjoint/core/cuda/runtime.h>
#include <adjoint/core/cuda/step_moves.h>
#include <adjoint/core/graph/step_graphs.h>

#include <memory>
#include <optional>

namespace adjoint {
namespace cuda {
namespace {

struct DestroyGraph {
  void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
};

class StepDevice final : public adjoint::detail::StepDevice {
 public:
  explicit StepDevice(Device device)
      : device_(device), captures_(Stream::create(device)), memory_(Stream::create(device)) {}

  void begin() override {
    const DeviceGuard guard(device_.index);
    // Relaxed: first calls in the step may load code and create handles, which are not part of the graph.
    ADJOINT_CUDA(cudaStreamBeginCapture(captures_.handle(), cudaStreamCaptureModeRelaxed));
    before_ = set_current_stream(device_.index, captures_.handle());
    captures_now_ = true;
  }

  std::shared_ptr<void> end() override {
    const std::unique_ptr<CUgraph_st, DestroyGraph> graph(end_capture());
    const DeviceGuard guard(device_.index);
    cudaGraphExec_t executable = nullptr;
    ADJOINT_CUDA(cudaGraphInstantiate(&executable, graph.get(), 0));
    return {executable, [](cudaGraphExec_t e) { cudaGraphExecDestroy(e); }};
  }

  void abandon() noexcept override {
    if (!captures_now_) return;
    stop();
    cudaGraph_t graph = nullptr;
    cudaStreamEndCapture(captures_.handle(), &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();  // the step's own error is reported
  }

  void deliver(const void* from, void* const* to, std::size_t nbytes) override {
    deliver_step_output(from, to, nbytes, device_.index);
  }

  void follow() override {
    const cudaStream_t now = current_stream(device_.index);
    if (last_ && *last_ != now) order_streams(device_.index, *last_, device_.index, now);
    last_ = now;
  }

  void feed(std::span<const detail::StepMove> moves, void* to, const std::byte* from, std::size_t nbytes) override {
    feed_step(moves, to, from, nbytes, device_.index);
  }

  void launch(void* graph) override {
    const DeviceGuard guard(device_.index);
    ADJOINT_CUDA(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), current_stream(device_.index)));
  }

  void wait() override {
    if (!last_) return;
    const DeviceGuard guard(device_.index);
    ADJOINT_CUDA(cudaStreamSynchronize(*last_));
  }

  // On a stream that is never captured; the memory may be used on any other.
  void* take(std::size_t nbytes) override {
    const DeviceGuard guard(device_.index);
    const cudaStream_t current = set_current_stream(device_.index, memory_.handle());
    void* data = nullptr;
    try {
      void* stream = nullptr;
      data = allocate(nbytes, device_.index, &stream);
    } catch (const OutOfMemoryError&) {
    } catch (...) {
      set_current_stream(device_.index, current);
      throw;
    }
    set_current_stream(device_.index, current);
    if (data != nullptr) ADJOINT_CUDA(cudaStreamSynchronize(memory_.handle()));
    return data;
  }

  // After every launch, and after the thread's other uses of a tensor in that memory.
  void give_back(void* data, std::size_t) noexcept override {
    try {
      if (last_) order_streams(device_.index, *last_, device_.index, memory_.handle());
      if (!captures_now_) order_streams(device_.index, current_stream(device_.index), device_.index, memory_.handle());
    } catch (const Error&) {  // the device is lost, or CUDA is gone at exit
    }
    release(data, device_.index, memory_.handle());
  }

 private:
  void stop() {
    set_current_stream(device_.index, before_);
    captures_now_ = false;
  }

  cudaGraph_t end_capture() {
    stop();
    cudaGraph_t graph = nullptr;
    const cudaError_t status = cudaStreamEndCapture(captures_.handle(), &graph);
    if (status != cudaSuccess || graph == nullptr) {
      cudaGetLastError();
      fail(
          "GraphedStep: a captured step must only make calls that a CUDA graph can hold; got {} ({}) at its end; look "
          "for its own calls of CUDA, such as a synchronisation or an event",
          cudaGetErrorName(status), cudaGetErrorString(status));
    }
    return graph;
  }

  Device device_;
  Stream captures_, memory_;
  cudaStream_t before_ = nullptr;
  bool captures_now_ = false;
  std::optional<cudaStream_t> last_;  // of the last launch
};

}  // namespace
}  // namespace cuda

std::shared_ptr<detail::StepDevice> detail::make_step_device(Device device) {
  if (device.is_cpu()) return nullptr;
  cuda::check_device("GraphedStep", device);
  return std::make_shared<cuda::StepDevice>(device);
}

}  // namespace adjoint
