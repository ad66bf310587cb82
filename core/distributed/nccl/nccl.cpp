// The engine between GPUs. A collective is given to NCCL at once, in the order of the current stream, and nothing waits
// for the other ranks: the headers that say what each rank does travel beside it, and a thread looks whether they
// agree, whether the GPU gets done, and what NCCL says. Where something is wrong, a rank may be inside a wait for its
// GPU that no exception can end, and what the GPU has written is worth nothing; so the thread tells what happened and
// ends the process. In a CUDA graph the headers travel once, when it is captured.
#include <adjoint/core/check.h>
#include <adjoint/core/cuda/runtime.h>
#include <adjoint/core/distributed/mpi/gpu.h>
#include <adjoint/core/stream.h>

#include <nccl.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <thread>
#include <utility>

namespace adjoint::distributed {
namespace {

constexpr std::chrono::milliseconds kLook{20};

void check_nccl(ncclResult_t status, const char* call, ncclComm_t comm = nullptr) {
  if (status == ncclSuccess || status == ncclInProgress) return;
  fail("{}: NCCL must succeed; got '{}' on rank {}: {}", call, ncclGetErrorString(status), rank(),
       ncclGetLastError(comm));
}

void check_runtime(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  fail("{}: CUDA must succeed; got '{}' on rank {}", call, cudaGetErrorString(status), rank());
}

ncclDataType_t nccl_type(DType dtype) {
  constexpr ncclDataType_t types[] = {ncclFloat16, ncclBfloat16, ncclFloat32, ncclFloat64,
                                      ncclInt32,   ncclInt64,    ncclUint8,   ncclUint8};
  return types[static_cast<std::size_t>(dtype)];
}

ncclRedOp_t nccl_op(ReduceOp op) {
  constexpr ncclRedOp_t ops[] = {ncclSum, ncclAvg, ncclProd, ncclMin, ncclMax};
  return ops[static_cast<std::size_t>(op)];
}

class NcclEngine final : public GpuEngine {
 public:
  explicit NcclEngine(const GpuStart& how) : how_(how) {
    check_runtime(cudaSetDevice(how.device), "cudaSetDevice");
    // In-switch sums have an order that nobody states.
    setenv("NCCL_NVLS_ENABLE", "0", 0);
    ncclUniqueId id = {};
    if (how.rank == 0) check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
    how.broadcast(&id, sizeof id);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    check_nccl(ncclCommInitRankConfig(&comm_, how.size, id, how.rank, &config), "ncclCommInitRankConfig");
    settle("ncclCommInitRankConfig");
    watcher_ = std::thread([this] { watch(); });
  }

  ~NcclEngine() override {
    while (has_pending()) std::this_thread::sleep_for(kLook);  // the last collectives may be wrong too
    ended_ = true;
    watcher_.join();
    cudaDeviceSynchronize();
    ncclCommFinalize(comm_);
    ncclResult_t state = ncclInProgress;
    const auto end = Clock::now() + how_.timeout;
    while (ncclCommGetAsyncError(comm_, &state) == ncclSuccess && state == ncclInProgress && Clock::now() < end) {
      std::this_thread::yield();
    }
    state == ncclSuccess ? ncclCommDestroy(comm_) : ncclCommAbort(comm_);
  }

  void run(const Call& call, const Header& header, const Tensor& in, Tensor& out) override {
    ADJOINT_CHECK(in.device().index == how_.device, "{}: a tensor must be on this rank's GPU, {}; got {} on rank {}",
                  name_of(call.kind), how_.device, in.device(), how_.rank);
    const auto stream = static_cast<cudaStream_t>(Stream::current(in.device()).handle());
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    check_runtime(cudaStreamIsCapturing(stream, &capture), "cudaStreamIsCapturing");
    auto exchange = std::make_shared<Exchange>(how_.comm, how_.rank, how_.size, header);
    const void* const from = in.raw_data();
    void* const to = out.raw_mutable_data();
    const auto count = static_cast<std::size_t>(in.numel());
    const ncclDataType_t type = nccl_type(in.dtype());
    const ncclRedOp_t op = nccl_op(call.op);
    {
      const std::lock_guard lock(comm_mutex_);
      switch (call.kind) {
        case Kind::kAllReduce:
          check_nccl(ncclAllReduce(from, to, count, type, op, comm_, stream), "ncclAllReduce", comm_);
          break;
        case Kind::kBroadcast:
          check_nccl(ncclBroadcast(from, to, count, type, call.root, comm_, stream), "ncclBroadcast", comm_);
          break;
        case Kind::kAllGather:
          check_nccl(ncclAllGather(from, to, count, type, comm_, stream), "ncclAllGather", comm_);
          break;
        case Kind::kReduceScatter:
          check_nccl(ncclReduceScatter(from, to, static_cast<std::size_t>(out.numel()), type, op, comm_, stream),
                     "ncclReduceScatter", comm_);
          break;
        default: break;
      }
    }
    settle(name_of(call.kind));
    Pending pending{std::move(exchange), nullptr, Clock::now()};
    if (capture == cudaStreamCaptureStatusNone) {
      pending.done = take_event();
      check_runtime(cudaEventRecord(pending.done, stream), "cudaEventRecord");
    }
    const std::lock_guard lock(pending_mutex_);
    pending_.push_back(std::move(pending));
  }

 private:
  struct Pending {
    std::shared_ptr<Exchange> exchange;
    cudaEvent_t done;  // null in a graph
    Clock::time_point begin;
  };

  // Until NCCL has taken what it was given: a communicator that does not block says so later.
  void settle(const char* call) {
    const auto end = Clock::now() + how_.timeout;
    for (;;) {
      ncclResult_t state = ncclSuccess;
      {
        const std::lock_guard lock(comm_mutex_);
        check_nccl(ncclCommGetAsyncError(comm_, &state), "ncclCommGetAsyncError", comm_);
      }
      check_nccl(state, call, comm_);
      if (state == ncclSuccess) return;
      ADJOINT_CHECK(Clock::now() < end, "{}: every rank must come within {} ms; rank {} waits for NCCL", call,
                    how_.timeout.count(), how_.rank);
      std::this_thread::yield();
    }
  }

  bool has_pending() {
    const std::lock_guard lock(pending_mutex_);
    return !pending_.empty();
  }

  cudaEvent_t take_event() {
    const std::lock_guard lock(pending_mutex_);
    cudaEvent_t event = nullptr;
    if (idle_.empty()) {
      check_runtime(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    } else {
      event = idle_.back();
      idle_.pop_back();
    }
    return event;
  }

  void watch() {
    // Otherwise a question about an event would break a capture on another thread.
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    cudaThreadExchangeStreamCaptureMode(&mode);
    try {
      while (!ended_) {
        look();
        std::this_thread::sleep_for(kLook);
      }
    } catch (const Error& error) {
      die(error.what());
    }
  }

  void look() {
    ncclResult_t state = ncclSuccess;
    {
      const std::lock_guard lock(comm_mutex_);
      check_nccl(ncclCommGetAsyncError(comm_, &state), "ncclCommGetAsyncError", comm_);
    }
    check_nccl(state, "NCCL", comm_);
    const std::lock_guard lock(pending_mutex_);
    for (auto at = pending_.begin(); at != pending_.end();) {
      const bool agreed = at->exchange->poll();
      const std::string mismatch = at->exchange->mismatch();
      if (!mismatch.empty()) fail("{}", mismatch);
      const cudaError_t status = at->done == nullptr ? cudaSuccess : cudaEventQuery(at->done);
      if (status != cudaErrorNotReady) check_runtime(status, "a collective");
      if (agreed && status == cudaSuccess) {
        if (at->done != nullptr) idle_.push_back(at->done);
        at = pending_.erase(at);
        continue;
      }
      if (Clock::now() - at->begin > how_.timeout) {
        const std::string missing = at->exchange->missing();
        fail(
            "every rank must come, and its GPU get done, within {} ms; rank {} waits for {} in {}; see whether it ended "
            "or hangs",
            how_.timeout.count(), how_.rank, missing.empty() ? "its GPU" : missing, describe(at->exchange->mine()));
      }
      ++at;
    }
  }

  [[noreturn]] void die(const std::string& message) const {
    std::fprintf(stderr, "rank %d ends: %s\n", how_.rank, message.c_str());
    std::fflush(nullptr);
    std::_Exit(EXIT_FAILURE);
  }

  GpuStart how_;
  ncclComm_t comm_ = nullptr;
  std::mutex comm_mutex_;  // of calls of NCCL with comm_
  std::mutex pending_mutex_;
  std::list<Pending> pending_;
  std::vector<cudaEvent_t> idle_;
  std::atomic<bool> ended_{false};
  std::thread watcher_;
};

}  // namespace

std::unique_ptr<GpuEngine> start_nccl(const GpuStart& how) { return std::make_unique<NcclEngine>(how); }

}  // namespace adjoint::distributed
