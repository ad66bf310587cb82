// The engine over MPI. MPI starts the processes, connects them, and moves bytes between CPUs. The sums are computed
// here, so that their order is known: each rank gets its slice of every rank's elements, adds them in the order of
// ranks (combine.h), and all ranks gather the slices. Each rank moves 2 (n - 1) / n of the elements, the minimum.
//
// Waits poll, and fail after the timeout; MPI's start and end, which block, are watched. After an error the engine is
// unusable, and memory that MPI may still write to stays allocated.
#include <adjoint/core/base/check.h>
#include <adjoint/core/distributed/mpi/combine.h>
#include <adjoint/core/distributed/mpi/exchange.h>
#include <adjoint/core/distributed/mpi/gpu.h>
#include <adjoint/core/graph/step_capture.h>
#include <adjoint/core/tensor/copy.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace adjoint::distributed {
namespace {

// Elements that travel at a time: it bounds the memory of a sum, and MPI's counts, which are ints.
constexpr std::int64_t kPiece = std::int64_t{1} << 22;

MPI_Datatype mpi_type(DType dtype) {
  switch (element_size(dtype)) {
    case 1: return MPI_UINT8_T;
    case 2: return MPI_UINT16_T;
    case 4: return MPI_UINT32_T;
    default: return MPI_UINT64_T;
  }
}

char* bytes_at(const Tensor& tensor, std::int64_t element) {
  return static_cast<char*>(const_cast<void*>(tensor.raw_data())) + element * element_size(tensor.dtype());
}

// Polls soon at first, because peers usually arrive together, and less often later, because they may share this core.
void pause(int turn) {
  if (turn < 2000) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

// Ends the process if it lives longer than the timeout: around MPI calls that wait for every rank and that nothing else
// can end.
class Watch {
 public:
  Watch(const char* call, std::chrono::milliseconds timeout)
      : thread_([this, call, timeout] {
          std::unique_lock lock(mutex_);
          if (end_.wait_for(lock, timeout, [this] { return ended_; })) return;
          const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
          if (rank == nullptr) rank = std::getenv("PMIX_RANK");
          std::fprintf(stderr, "rank %s: %s: every rank must arrive within %lld ms; check if one ended or hangs\n",
                       rank == nullptr ? "?" : rank, call, static_cast<long long>(timeout.count()));
          std::fflush(nullptr);
          std::_Exit(EXIT_FAILURE);
        }) {}
  ~Watch() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    end_.notify_one();
    thread_.join();
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable end_;
  bool ended_ = false;
  std::thread thread_;  // reads the members above
};

class MpiEngine final : public Engine {
 public:
  MpiEngine(std::chrono::milliseconds timeout, bool owns_mpi) : timeout_(timeout), owns_mpi_(owns_mpi) {
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup");
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &headers_), "MPI_Comm_dup");
    check_mpi(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check_mpi(MPI_Comm_set_errhandler(headers_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check_mpi(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
    MPI_Comm host = MPI_COMM_NULL;
    check_mpi(MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &host), "MPI_Comm_split_type");
    check_mpi(MPI_Comm_rank(host, &local_rank_), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(host, &local_size_), "MPI_Comm_size");
    check_mpi(MPI_Comm_free(&host), "MPI_Comm_free");
  }

  ~MpiEngine() override {
    std::fflush(nullptr);  // a launcher that ends its ranks may kill one that still waits for it in MPI_Finalize
    if (failed_.empty()) {
      if (gpu_ != nullptr) gpu_->finish();  // the last collectives may be wrong, and explain more than the end does
      try {
        agree({.kind = Kind::kFinalize}, {});
      } catch (const Error& error) {
        std::fprintf(stderr, "rank %d, at its end: %s\n", rank_, error.what());
        std::_Exit(EXIT_FAILURE);
      }
    }
    if (!failed_.empty()) {  // NCCL's and MPI's shutdown would wait for missing ranks
      static_cast<void>(gpu_.release());
      return;
    }
    gpu_.reset();
    if (!owns_mpi_) return;
    const Watch watch("MPI_Finalize", timeout_);
    MPI_Finalize();
  }

  int rank() const override { return rank_; }
  int world_size() const override { return size_; }
  int local_rank() const override { return local_rank_; }
  int local_size() const { return local_size_; }

  void start_gpu([[maybe_unused]] int device) {
#if defined(ADJOINT_WITH_NCCL)
    gpu_ = start_nccl({headers_, rank_, size_, device, timeout_, [this](void* bytes, std::size_t size) {
                         Tensor tensor = Tensor::from_blob(bytes, {static_cast<std::int64_t>(size)}, {.dtype = kUInt8});
                         run({.kind = Kind::kBroadcast, .caller = "NCCL's start"}, tensor, tensor);
                       }});
#endif
  }

  void run(const Call& call, const Tensor& in, Tensor& out) override {
    if (on_gpu(in)) return gpu_->run(call, next_header(call, in), in, out);
    check_open(call);
    ADJOINT_CHECK(
        adjoint::detail::StepCapture::current() == nullptr,
        "{}: a captured step (GraphedStep) can hold collectives of tensors on GPUs, over NCCL, and no others; "
        "got {}{}; call it before or behind the step",
        name_of(call.kind), in.defined() ? fmt::format("{} on {}", in.shape(), in.device()) : "no tensor",
        call.caller.empty() ? "" : " for " + call.caller);
    try {
      agree(call, in);
      if (!in.defined() || in.device().is_cpu()) return on_cpu(call, in, out);
      const Tensor host_in = in.to(kCPU);
      Tensor host_out = Tensor::empty(out.shape(), {.dtype = out.dtype()});
      on_cpu(call, host_in, host_out);
      copy_into(host_out, out);
    } catch (const Error& error) {
      failed_ = error.what();
      throw;
    }
  }

  void run_together(std::span<Part> parts) override { run_parts(parts, false); }
  void run_beside(Part part) override { run_parts({&part, 1}, true); }

  void join(Device device) override {
    if (gpu_ != nullptr && device.is_cuda()) gpu_->join();
  }

  void prepare(int max_ctas) override {
    if (gpu_ != nullptr) gpu_->prepare(max_ctas);
  }

  void tell_failure(const std::string& reason) noexcept override {
    try {
      if (!failed_.empty()) return;
      failed_ = reason;
      const Header header(++number_, {.kind = Kind::kFailure, .caller = reason}, {});
      Exchange exchange(headers_, rank_, size_, header);
      // The others' messages must be received, or their sends would not complete; their own errors follow.
      const auto end = Clock::now() + std::min<std::chrono::milliseconds>(timeout_, std::chrono::seconds(2));
      for (int turn = 0; !exchange.poll() && Clock::now() < end; ++turn) pause(turn);
    } catch (...) {  // sent as far as possible
    }
  }

 private:
  bool on_gpu(const Tensor& tensor) const { return gpu_ != nullptr && tensor.defined() && tensor.device().is_cuda(); }

  void run_parts(std::span<Part> parts, bool beside) {
    if (parts.empty()) return;
    if (!on_gpu(parts[0].tensor)) {
      for (Part& part : parts) run(part.call, part.tensor, part.tensor);
      return;
    }
    Call call = parts[0].call;
    if (parts.size() > 1) call.caller += fmt::format(" and {} more", parts.size() - 1);
    gpu_->run_together(next_header(call, parts[0].tensor), parts, beside);
  }

  void check_open(const Call& call) const {
    ADJOINT_CHECK(failed_.empty(), "{}: no operation can follow one that failed; got, on rank {}: {}",
                  name_of(call.kind), rank_, failed_);
  }

  // For a call on GPUs. Ranks agree on a captured call at its capture, and then on each replay of its graph.
  Header next_header(const Call& call, const Tensor& tensor) {
    check_open(call);
    const Header header(++number_, call, tensor);
    adjoint::detail::StepCapture* const capture = adjoint::detail::StepCapture::current();
    if (capture == nullptr) return header;
    if (const std::uint64_t id = gpu_->capture_id(); id != captured_) {
      captured_ = id;
      capture->on_replay([this, first = describe(header)] {
        const Call replayed{.kind = Kind::kReplay, .caller = "the one with " + first};
        check_open(replayed);
        gpu_->replay(Header(++number_, replayed, {}));
      });
    }
    return header;
  }

  // Waits until every rank has announced the same call.
  void agree(const Call& call, const Tensor& tensor) {
    Exchange exchange(headers_, rank_, size_, Header(++number_, call, tensor));
    const auto end = Clock::now() + timeout_;
    for (int turn = 0;; ++turn) {
      const bool all = exchange.poll();
      const std::string mismatch = exchange.mismatch();
      ADJOINT_CHECK(mismatch.empty(), "{}: {}", name_of(call.kind), mismatch);
      if (all) return;
      ADJOINT_CHECK(Clock::now() <= end,
                    "{}: every rank must arrive within {} ms; rank {} waits for {} in {}; check if it ended or hangs",
                    name_of(call.kind), timeout_.count(), rank_, exchange.missing(), describe(exchange.mine()));
      pause(turn);
    }
  }

  // Waits until MPI has completed `request`. `held` stays allocated if that never happens.
  void wait(const Call& call, MPI_Request request, const std::vector<Tensor>& held) {
    const auto end = Clock::now() + timeout_;
    for (int turn = 0;; ++turn) {
      int done = 0;
      {
        const std::lock_guard lock(mpi_mutex());
        check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), name_of(call.kind));
      }
      if (done != 0) return;
      if (Clock::now() > end) break;
      pause(turn);
    }
    for (const Tensor& tensor : held) new Tensor(tensor);
    std::string message = fmt::format("{}: the elements must arrive within {} ms; rank {} waits in call {}",
                                      name_of(call.kind), timeout_.count(), rank_, number_);
    // Live ranks have reached this point too, and report it; the others are missing.
    Exchange exchange(headers_, rank_, size_, Header(++number_, {.kind = Kind::kFailure, .caller = message}, {}));
    const auto last = Clock::now() + std::chrono::seconds(2);
    for (int turn = 0; !exchange.poll() && Clock::now() < last; ++turn) pause(turn);
    const std::string missing = exchange.missing();
    if (!missing.empty()) message += fmt::format("; {} no longer answers", missing);
    throw_error(message);
  }

  template <class Start>
  void transfer(const Call& call, const std::vector<Tensor>& held, const Start& start) {
    MPI_Request request = MPI_REQUEST_NULL;
    {
      const std::lock_guard lock(mpi_mutex());
      check_mpi(start(&request), name_of(call.kind));
    }
    wait(call, request, held);
  }

  void on_cpu(const Call& call, const Tensor& in, Tensor& out) {
    if (!in.defined()) return;
    out.raw_mutable_data();  // counts the write
    switch (call.kind) {
      case Kind::kAllReduce: return all_reduce(call, in, out);
      case Kind::kBroadcast: return broadcast(call, in, out);
      case Kind::kAllGather: return all_gather(call, in, out);
      case Kind::kReduceScatter: return reduce_scatter(call, in, out);
      default: return;
    }
  }

  void all_reduce(const Call& call, const Tensor& in, Tensor& out) {
    const MPI_Datatype type = mpi_type(in.dtype());
    const auto ranks = static_cast<std::size_t>(size_);
    std::vector<int> counts(ranks), begins(ranks);
    for (std::int64_t at = 0; at < in.numel(); at += kPiece) {
      const std::int64_t length = std::min(kPiece, in.numel() - at);
      for (int r = 0; r < size_; ++r) {
        const auto i = static_cast<std::size_t>(r);
        begins[i] = static_cast<int>(length * r / size_);
        counts[i] = static_cast<int>(length * (r + 1) / size_) - begins[i];
      }
      const int own = counts[static_cast<std::size_t>(rank_)];
      const int own_begin = begins[static_cast<std::size_t>(rank_)];
      const Tensor parts = Tensor::empty({size_, own}, {.dtype = in.dtype()});
      std::vector<int> part_counts(ranks, own), part_begins(ranks);
      for (int r = 0; r < size_; ++r) part_begins[static_cast<std::size_t>(r)] = r * own;
      transfer(call, {in, parts}, [&](MPI_Request* request) {
        return MPI_Ialltoallv(bytes_at(in, at), counts.data(), begins.data(), type, bytes_at(parts, 0),
                              part_counts.data(), part_begins.data(), type, comm_, request);
      });
      combine(in.dtype(), call.op, parts.raw_data(), static_cast<std::size_t>(own), size_,
              bytes_at(out, at + own_begin), static_cast<std::size_t>(own));
      transfer(call, {out}, [&](MPI_Request* request) {
        return MPI_Iallgatherv(MPI_IN_PLACE, 0, type, bytes_at(out, at), counts.data(), begins.data(), type, comm_,
                               request);
      });
    }
  }

  void broadcast(const Call& call, const Tensor& in, Tensor& out) {
    if (rank_ == call.root && in.impl() != out.impl()) copy_into(in, out);
    for (std::int64_t at = 0; at < out.numel(); at += kPiece) {
      const auto length = static_cast<int>(std::min(kPiece, out.numel() - at));
      transfer(call, {out}, [&](MPI_Request* request) {
        return MPI_Ibcast(bytes_at(out, at), length, mpi_type(out.dtype()), call.root, comm_, request);
      });
    }
  }

  void all_gather(const Call& call, const Tensor& in, Tensor& out) {
    const MPI_Datatype type = mpi_type(in.dtype());
    const std::int64_t size = element_size(in.dtype());
    for (std::int64_t at = 0; at < in.numel(); at += kPiece) {
      const std::int64_t length = std::min(kPiece, in.numel() - at);
      const Tensor all = Tensor::empty({size_, length}, {.dtype = in.dtype()});
      transfer(call, {in, all}, [&](MPI_Request* request) {
        return MPI_Iallgather(bytes_at(in, at), static_cast<int>(length), type, bytes_at(all, 0),
                              static_cast<int>(length), type, comm_, request);
      });
      for (int r = 0; r < size_; ++r) {
        std::memcpy(bytes_at(out, r * in.numel() + at), bytes_at(all, r * length),
                    static_cast<std::size_t>(length * size));
      }
    }
  }

  void reduce_scatter(const Call& call, const Tensor& in, Tensor& out) {
    const MPI_Datatype type = mpi_type(in.dtype());
    const std::int64_t size = element_size(in.dtype());
    for (std::int64_t at = 0; at < out.numel(); at += kPiece) {
      const std::int64_t length = std::min(kPiece, out.numel() - at);
      const Tensor own = Tensor::empty({size_, length}, {.dtype = in.dtype()}), parts = empty_like(own);
      for (int r = 0; r < size_; ++r) {
        std::memcpy(bytes_at(own, r * length), bytes_at(in, r * out.numel() + at),
                    static_cast<std::size_t>(length * size));
      }
      transfer(call, {own, parts}, [&](MPI_Request* request) {
        return MPI_Ialltoall(bytes_at(own, 0), static_cast<int>(length), type, bytes_at(parts, 0),
                             static_cast<int>(length), type, comm_, request);
      });
      combine(in.dtype(), call.op, parts.raw_data(), static_cast<std::size_t>(length), size_, bytes_at(out, at),
              static_cast<std::size_t>(length));
    }
  }

  std::chrono::milliseconds timeout_;
  bool owns_mpi_;
  MPI_Comm comm_ = MPI_COMM_NULL, headers_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1, local_rank_ = 0, local_size_ = 1;
  std::uint64_t number_ = 0;    // of calls so far
  std::uint64_t captured_ = 0;  // the latest captured graph
  std::string failed_;          // the reason why no call can follow
  std::unique_ptr<GpuEngine> gpu_;
};

// mpirun, and srun with PMIx or PMI2, set them; MPI_Init of a program without a launcher would start helpers.
bool was_launched() {
  const char* const names[] = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"};
  return std::any_of(std::begin(names), std::end(names), [](const char* name) { return std::getenv(name) != nullptr; });
}

}  // namespace

void detail::start(const InitOptions& options) {
  const std::chrono::milliseconds timeout = resolve_timeout(options);
  ADJOINT_CHECK(!is_initialized(), "distributed::init: must be called once; got a second call");
  if (!was_launched()) return install_engine(nullptr);
  std::unique_ptr<MpiEngine> made;
  {
    const Watch watch("distributed::init", timeout);
    int running = 0;
    MPI_Initialized(&running);
    if (running == 0) {
      int provided = 0;
      check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
      ADJOINT_CHECK(provided >= MPI_THREAD_SERIALIZED,
                    "distributed::init: MPI must be callable from several threads; got level {}", provided);
    }
    made = std::make_unique<MpiEngine>(timeout, running == 0);
  }
  if (made->world_size() == 1) {  // like a program started alone: there is nothing to carry
    made.reset();
    return install_engine(nullptr);
  }
  MpiEngine& mpi = *made;
  if (const int gpus = cuda_device_count(); gpus > 0) {
    ADJOINT_CHECK(mpi.local_size() <= gpus,
                  "distributed::init: each process of a host must have its own GPU; got {} processes and {} GPUs; "
                  "start fewer, or hide the GPUs with CUDA_VISIBLE_DEVICES=",
                  mpi.local_size(), gpus);
    set_default_gpu(mpi.local_rank());
  }
  install_engine(std::move(made));
  std::atexit(remove_engine);
  if (cuda_device_count() > 0) mpi.start_gpu(mpi.local_rank());
}

}  // namespace adjoint::distributed
