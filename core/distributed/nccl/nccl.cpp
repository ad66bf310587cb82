// The engine between GPUs. A collective is submitted to NCCL immediately, in the order of the current stream, without
// waiting for the other ranks. The headers that describe each rank's call travel in parallel, and a thread checks that
// they agree, that the GPU makes progress, and NCCL's status. If something is wrong, a rank may be waiting for its GPU,
// which no exception can end, and the GPU's results are worthless; so the thread reports the problem and ends the
// process. Ranks agree on the collectives in a CUDA graph at its capture, and on each replay as a whole.
#include <adjoint/core/base/check.h>
#include <adjoint/core/base/stream.h>
#include <adjoint/core/cuda/multiprocessors.h>
#include <adjoint/core/cuda/runtime.h>
#include <adjoint/core/distributed/mpi/gpu.h>

#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <map>
#include <mutex>
#include <optional>
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
    check_runtime(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, how.device),
                  "cudaDeviceGetAttribute");
    // Sums in switches have an undocumented order.
    setenv("NCCL_NVLS_ENABLE", "0", 0);
    // Its blocks take priority over those of the concurrent sweep; otherwise sums would wait for the sweep's largest
    // kernels.
    int least = 0, greatest = 0;
    check_runtime(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
    check_runtime(cudaStreamCreateWithPriority(&beside_, cudaStreamNonBlocking, greatest), "cudaStreamCreate");
    for (cudaEvent_t* event : {&begun_, &done_}) {
      check_runtime(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    }
    watcher_ = std::thread([this] { watch(); });
    try {
      prepare(0);
    } catch (...) {
      end_watching();
      throw;
    }
  }

  ~NcclEngine() override {
    finish();
    cudaDeviceSynchronize();
    std::map<int, ncclComm_t> comms;
    {
      const std::lock_guard lock(comms_mutex_);
      comms.swap(comms_);  // the watcher must not query destroyed communicators
    }
    for (const auto& [max_ctas, comm] : comms) {
      const Inside inside(*this, "ncclCommDestroy");
      ncclCommFinalize(comm);
      ncclCommDestroy(comm);
    }
    end_watching();
  }

  void finish() override {
    while (has_pending()) std::this_thread::sleep_for(kLook);
  }

  void run(const Call& call, const Header& header, const Tensor& in, Tensor& out) override {
    give(call, header, in, false,
         [&](ncclComm_t comm, cudaStream_t stream) { return start(call, in, out, comm, stream); });
  }

  // In one kernel, as far as NCCL allows.
  void run_together(const Header& header, std::span<Part> parts, bool beside) override {
    give(parts[0].call, header, parts[0].tensor, beside, [&](ncclComm_t comm, cudaStream_t stream) {
      ncclResult_t status = ncclGroupStart();
      for (Part& part : parts) {
        const ncclResult_t added = start(part.call, part.tensor, part.tensor, comm, stream);
        if (status == ncclSuccess) status = added;
      }
      const ncclResult_t ended = ncclGroupEnd();
      return status == ncclSuccess ? ended : status;
    });
  }

  void join() override {
    leaving_.reset();
    if (std::exchange(forked_, false)) order(beside_, current(), done_);
  }

  void prepare(int max_ctas) override {
    if (comms_.count(max_ctas) != 0) return;
    ADJOINT_CHECK(capture_id() == 0,
                  "NCCL's start: a communicator cannot be made while a step (GraphedStep) is captured; got one with at "
                  "most {} thread blocks; let a call run uncaptured (warmup)",
                  max_ctas);
    ncclUniqueId id = {};
    if (how_.rank == 0) check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
    how_.broadcast(&id, sizeof id);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    if (max_ctas > 0) config.maxCTAs = max_ctas;
    ncclComm_t comm = nullptr;
    {
      const Inside inside(*this, "ncclCommInitRankConfig");
      check_nccl(ncclCommInitRankConfig(&comm, how_.size, id, how_.rank, &config), "ncclCommInitRankConfig");
    }
    const std::lock_guard lock(comms_mutex_);
    comms_[max_ctas] = comm;
  }

  std::uint64_t capture_id() const override {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    unsigned long long id = 0;
    check_runtime(cudaStreamGetCaptureInfo(current(), &status, &id), "cudaStreamGetCaptureInfo");
    return status == cudaStreamCaptureStatusNone ? 0 : id;
  }

  void replay(const Header& header) override {
    const std::lock_guard lock(pending_mutex_);
    pending_.emplace_back(std::make_unique<Exchange>(how_.comm, how_.rank, how_.size, header)).replays = current();
  }

 private:
  struct Pending {
    explicit Pending(std::unique_ptr<Exchange> exchange_) : exchange(std::move(exchange_)) {}
    std::unique_ptr<Exchange> exchange;
    Clock::time_point begin = Clock::now();
    bool given = true;                      // submitted to the GPU
    cudaEvent_t done = nullptr;             // null in a graph
    std::optional<cudaStream_t> replays{};  // the stream on which a graph with it will run
  };

  // While it lives this thread is in an NCCL call that may wait for the other ranks.
  class Inside {
   public:
    Inside(NcclEngine& engine, const char* call) : engine_(engine) {
      const std::lock_guard lock(engine_.pending_mutex_);
      engine_.inside_ = call;
      engine_.inside_since_ = Clock::now();
    }
    ~Inside() {
      const std::lock_guard lock(engine_.pending_mutex_);
      engine_.inside_ = nullptr;
    }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    NcclEngine& engine_;
  };

  cudaStream_t current() const { return Stream::current(Device(DeviceType::kCUDA, how_.device)).handle(); }

  static ncclResult_t start(const Call& call, const Tensor& in, Tensor& out, ncclComm_t comm, cudaStream_t stream) {
    const void* const from = in.raw_data();
    void* const to = out.raw_mutable_data();
    const auto count = static_cast<std::size_t>(in.numel());
    const ncclDataType_t type = nccl_type(in.dtype());
    const ncclRedOp_t op = nccl_op(call.op);
    switch (call.kind) {
      case Kind::kAllReduce: return ncclAllReduce(from, to, count, type, op, comm, stream);
      case Kind::kBroadcast: return ncclBroadcast(from, to, count, type, call.root, comm, stream);
      case Kind::kAllGather: return ncclAllGather(from, to, count, type, comm, stream);
      case Kind::kReduceScatter:
        return ncclReduceScatter(from, to, static_cast<std::size_t>(out.numel()), type, op, comm, stream);
      default: return ncclSuccess;
    }
  }

  static void order(cudaStream_t earlier, cudaStream_t later, cudaEvent_t event) {
    check_runtime(cudaEventRecord(event, earlier), "cudaEventRecord");
    check_runtime(cudaStreamWaitEvent(later, event, 0), "cudaStreamWaitEvent");
  }

  // Submits ask(communicator, stream) to NCCL. The watcher is informed before NCCL, because NCCL may wait in the call
  // for ranks that never arrive.
  template <class Ask>
  void give(const Call& call, const Header& header, const Tensor& tensor, bool beside, const Ask& ask) {
    ADJOINT_CHECK(tensor.device().index == how_.device,
                  "{}: a tensor must be on this rank's GPU, {}; got {} on rank {}", name_of(call.kind), how_.device,
                  tensor.device(), how_.rank);
    if (comms_.count(call.max_ctas) == 0) prepare(call.max_ctas);
    const ncclComm_t comm = comms_.at(call.max_ctas);
    const bool captured = capture_id() != 0;
    const cudaStream_t stream = beside ? beside_ : current();
    if (beside) {
      order(current(), beside_, begun_);
      forked_ = true;
      leaving_.reset();
      if (call.max_ctas > 0) {
        leaving_.emplace(std::max(multiprocessors_ - call.max_ctas, 1));
      }
    }
    auto exchange = std::make_unique<Exchange>(how_.comm, how_.rank, how_.size, header);
    std::list<Pending> one;
    one.emplace_back(std::move(exchange)).given = false;
    const auto pending = one.begin();
    {
      const std::lock_guard lock(pending_mutex_);
      pending_.splice(pending_.end(), one);
    }
    check_nccl(ask(comm, stream), name_of(call.kind), comm);
    const std::lock_guard lock(pending_mutex_);
    if (!captured) pending->done = record(stream);
    pending->given = true;
  }

  // An event after the stream's current work. The caller holds pending_mutex_.
  cudaEvent_t record(cudaStream_t stream) {
    cudaEvent_t event = nullptr;
    if (idle_.empty()) {
      check_runtime(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    } else {
      event = idle_.back();
      idle_.pop_back();
    }
    check_runtime(cudaEventRecord(event, stream), "cudaEventRecord");
    return event;
  }

  bool has_pending() {
    const std::lock_guard lock(pending_mutex_);
    return !pending_.empty();
  }

  void watch() {
    // Otherwise querying an event would break a capture on another thread.
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    cudaThreadExchangeStreamCaptureMode(&mode);
    try {
      check_runtime(cudaSetDevice(how_.device), "cudaSetDevice");
      while (!ended_) {
        look();
        std::this_thread::sleep_for(kLook);
      }
    } catch (const Error& error) {
      die(error.what());
    }
  }

  void end_watching() {
    ended_ = true;
    watcher_.join();
  }

  void look() {
    {
      const std::lock_guard lock(comms_mutex_);
      for (const auto& [max_ctas, comm] : comms_) {
        ncclResult_t state = ncclSuccess;
        check_nccl(ncclCommGetAsyncError(comm, &state), "ncclCommGetAsyncError", comm);
        check_nccl(state, "NCCL", comm);
      }
    }
    const std::lock_guard lock(pending_mutex_);
    const auto now = Clock::now();
    for (auto at = pending_.begin(); at != pending_.end();) {
      const bool agreed = at->exchange->poll();
      const std::string mismatch = at->exchange->mismatch();
      if (!mismatch.empty()) fail("{}", mismatch);
      // The replay was launched soon after the header was sent; an event recorded now comes after it.
      if (at->replays && agreed && now - at->begin > kLook) at->done = record(*std::exchange(at->replays, {}));
      const cudaError_t status = at->done == nullptr ? cudaSuccess : cudaEventQuery(at->done);
      if (status != cudaErrorNotReady) check_runtime(status, "a collective");
      if (at->given && !at->replays && agreed && status == cudaSuccess) {
        if (at->done != nullptr) idle_.push_back(at->done);
        at = pending_.erase(at);
        continue;
      }
      if (now - at->begin > how_.timeout) {
        std::string missing = at->exchange->missing();
        if (missing.empty()) missing = pending_.back().exchange->missing();
        if (missing.empty()) missing = silent();
        fail(
            "every rank must arrive, and its GPU finish, within {} ms; rank {} waits for {} in {}; check if it ended "
            "or hangs",
            how_.timeout.count(), how_.rank, missing.empty() ? "its GPU" : missing, describe(at->exchange->mine()));
      }
      ++at;
    }
    ADJOINT_CHECK(inside_ == nullptr || now - inside_since_ < how_.timeout,
                  "{}: every rank must arrive within {} ms; rank {} waits for NCCL", inside_, how_.timeout.count(),
                  how_.rank);
  }

  // Ranks that no longer report: live ranks wait for the same collective, and fail as this one does.
  std::string silent() const {
    const std::string reason = fmt::format("rank {} waits for its GPU", how_.rank);
    Exchange last(how_.comm, how_.rank, how_.size, Header(0, {.kind = Kind::kFailure, .caller = reason}, {}));
    const auto end = Clock::now() + std::chrono::seconds(2);
    while (!last.poll() && Clock::now() < end) std::this_thread::sleep_for(kLook);
    return last.missing();
  }

  [[noreturn]] void die(const std::string& message) const {
    std::fprintf(stderr, "rank %d ends: %s\n", how_.rank, message.c_str());
    std::fflush(nullptr);
    std::_Exit(EXIT_FAILURE);
  }

  GpuStart how_;
  std::map<int, ncclComm_t> comms_;  // by max_ctas; only the program's thread changes it
  std::mutex comms_mutex_;           // for changes, and for the watcher's reads
  cudaStream_t beside_ = nullptr;
  bool forked_ = false;  // concurrent work that was not joined
  int multiprocessors_ = 0;
  std::optional<cuda::LimitMultiprocessors> leaving_;  // for concurrent work, until join()
  cudaEvent_t begun_ = nullptr, done_ = nullptr;
  std::mutex pending_mutex_;  // guards the members below
  std::list<Pending> pending_;
  std::vector<cudaEvent_t> idle_;
  const char* inside_ = nullptr;  // the NCCL call that waits for the other ranks
  Clock::time_point inside_since_;
  std::atomic<bool> ended_{false};
  std::thread watcher_;
};

}  // namespace

std::unique_ptr<GpuEngine> start_nccl(const GpuStart& how) { return std::make_unique<NcclEngine>(how); }

}  // namespace adjoint::distributed
