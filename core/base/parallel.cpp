#include <adjoint/core/base/parallel.h>

#include <adjoint/core/autograd/node.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/base/context.h>
#include <adjoint/core/profile/profiled_call.h>

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

namespace adjoint {
namespace {

int default_num_threads() {
  const char* text = std::getenv("ADJOINT_NUM_THREADS");
  if (text != nullptr && *text != '\0') {
    const char* end = text + std::strlen(text);
    int count = 0;
    const auto parsed = std::from_chars(text, end, count);
    ADJOINT_CHECK(parsed.ec == std::errc{} && parsed.ptr == end && count >= 1 && count <= kMaxThreads,
                  "num_threads: ADJOINT_NUM_THREADS must be a whole number from 1 to {}; got '{}'; change or unset it",
                  kMaxThreads, text);
    return count;
  }
  cpu_set_t cpus;
  const bool known = sched_getaffinity(0, sizeof cpus, &cpus) == 0;
  const auto count = static_cast<int>(known ? CPU_COUNT(&cpus) : std::thread::hardware_concurrency());
  return std::clamp(count, 1, kMaxThreads);
}

// One parallel_for: threads run the next task until all are done.
struct Job {
  Job(std::int64_t n, const std::function<void(std::int64_t)>& f) : count(n), task(f) {}

  void work() {
    const auto end = static_cast<std::uint64_t>(count);
    for (std::uint64_t i = next.fetch_add(1); i < end; i = next.fetch_add(1)) {
      try {
        task(static_cast<std::int64_t>(i));
      } catch (...) {
        next = end;
        const std::lock_guard lock(error_mutex);
        if (!error) error = std::current_exception();
      }
    }
  }

  const std::int64_t count;
  const std::function<void(std::int64_t)>& task;
  Tape* const tape = Tape::current();    // of the caller
  const char* const op = OpScope::op();  // errors on every thread are reported under its name
  const detail::ProfilePlace place = detail::Profiling::place();
  std::atomic<std::uint64_t> next{0};  // exceeds count by up to one per thread
  int helpers = 0;                     // pool threads inside work(); guarded by the pool's mutex
  std::mutex error_mutex;
  std::exception_ptr error;
};

class TaskScope {
 public:
  explicit TaskScope(const std::function<void(std::int64_t)>& task)
      : outer_(std::exchange(detail::context().task, &task)) {}
  ~TaskScope() { detail::context().task = outer_; }
  TaskScope(const TaskScope&) = delete;
  TaskScope& operator=(const TaskScope&) = delete;

 private:
  const void* outer_;
};

class Pool {
 public:
  explicit Pool(int threads) {
    try {
      threads_.reserve(static_cast<std::size_t>(threads));
      for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { loop(); });
    } catch (const std::exception& error) {
      const std::size_t started = threads_.size();
      stop();
      fail(
          "parallel_for: the system must start {} threads besides the caller's; got {}, then: {}; ask for fewer with "
          "set_num_threads() or ADJOINT_NUM_THREADS, or raise the process's limits",
          threads, started, error.what());
    }
  }
  ~Pool() { stop(); }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // One job at a time uses the pool; if it is busy with another thread's job, this one runs on its own thread alone.
  void run(Job& job) {
    const std::unique_lock owner(owner_, std::try_to_lock);
    if (!owner) return job.work();
    {
      const std::lock_guard lock(mutex_);
      job_ = &job;
      ++generation_;
    }
    // No more threads than tasks: an idle thread that wakes holds locks that the others need.
    if (const auto helpers = static_cast<std::uint64_t>(job.count) - 1; helpers < threads_.size()) {
      for (std::uint64_t i = 0; i < helpers; ++i) wake_.notify_one();
    } else {
      wake_.notify_all();
    }
    job.work();
    std::unique_lock lock(mutex_);
    job_ = nullptr;
    done_.wait(lock, [&] { return job.helpers == 0; });
  }

 private:
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void loop() {
    detail::context().inside_task = true;
    std::uint64_t seen = 0;
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return stopping_ || (job_ != nullptr && generation_ != seen); });
      if (stopping_) return;
      seen = generation_;
      Job* job = job_;
      ++job->helpers;
      lock.unlock();
      {
        const TaskScope scope(job->task);
        const detail::InheritTape caller(job->tape);
        const OpScope op(job->op);
        const detail::AtPlace place(&job->place);
        job->work();
      }
      lock.lock();
      if (--job->helpers == 0) done_.notify_all();
    }
  }

  std::mutex owner_;
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  Job* job_ = nullptr;
  std::uint64_t generation_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

std::mutex pool_mutex;
std::atomic<int> thread_count{0};  // 0: not decided yet
std::shared_ptr<Pool> pool;        // null: not made yet

// A child of fork() has none of the pool's threads, and would wait for them in vain. It abandons the pool, neither
// stopping nor freeing it, and makes its own.
void forget_pool() {
  new (&pool_mutex) std::mutex;
  new (&pool) std::shared_ptr<Pool>;
}

std::shared_ptr<Pool> make_pool(int threads) {
  [[maybe_unused]] static const int registered = pthread_atfork(nullptr, nullptr, forget_pool);
  return std::make_shared<Pool>(threads - 1);
}

std::shared_ptr<Pool> acquire_pool() {
  const std::lock_guard lock(pool_mutex);
  if (!pool) pool = make_pool(num_threads());
  return pool;
}

}  // namespace

void set_num_threads(int count) {
  const OpScope scope("set_num_threads");
  ADJOINT_CHECK(count >= 1 && count <= kMaxThreads,
                "set_num_threads: the number of threads must be from 1 to {}; got {}", kMaxThreads, count);
  std::shared_ptr<Pool> made;  // then the old pool, which ends outside the lock after its current job
  const std::lock_guard lock(pool_mutex);
  if (count == thread_count) return;
  if (count > 1) made = make_pool(count);
  thread_count = count;
  pool.swap(made);
}

int num_threads() {
  int count = thread_count.load(std::memory_order_relaxed);
  if (count == 0) {
    int undecided = 0;
    count = default_num_threads();
    if (!thread_count.compare_exchange_strong(undecided, count)) count = undecided;
  }
  return count;
}

const void* detail::current_task() { return context().task; }

void detail::prepare_threads() {
  if (num_threads() > 1) acquire_pool();
}

void detail::bad_grain(std::int64_t grain) { fail("parallel_ranges: the grain must be at least 1; got {}", grain); }

void parallel_for(std::int64_t count, const std::function<void(std::int64_t)>& task) {
  ADJOINT_CHECK(count >= 0, "parallel_for: the number of tasks must not be negative; got {}", count);
  ADJOINT_CHECK(task != nullptr, "parallel_for: the task must be a function; got an empty std::function");
  const TaskScope scope(task);
  if (count <= 1 || detail::context().inside_task || num_threads() == 1) {
    for (std::int64_t i = 0; i < count; ++i) task(i);
    return;
  }
  const std::shared_ptr<Pool> threads = acquire_pool();
  Job job(count, task);
  detail::context().inside_task = true;
  threads->run(job);
  detail::context().inside_task = false;
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace adjoint
