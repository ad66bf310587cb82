#include <adjoint/core/parallel.h>

#include <adjoint/core/check.h>
#include <adjoint/core/node.h>

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
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
  if (const char* text = std::getenv("ADJOINT_NUM_THREADS")) {
    const int count = std::atoi(text);
    if (count >= 1) return count;
  }
  cpu_set_t cpus;
  if (sched_getaffinity(0, sizeof cpus, &cpus) == 0) return CPU_COUNT(&cpus);
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

// One parallel_for: threads take the next task until none is left.
struct Job {
  Job(std::int64_t n, const std::function<void(std::int64_t)>& f) : count(n), task(f) {}

  void work() {
    for (std::int64_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) {
      try {
        task(i);
      } catch (...) {
        next = count;
        const std::lock_guard lock(error_mutex);
        if (!error) error = std::current_exception();
      }
    }
  }

  const std::int64_t count;
  const std::function<void(std::int64_t)>& task;
  Tape* const tape = Tape::current();  // the caller's
  std::atomic<std::int64_t> next{0};
  int helpers = 0;  // pool threads inside work(); guarded by the pool's mutex
  std::mutex error_mutex;
  std::exception_ptr error;
};

// True on a pool thread, and on any thread inside parallel_for: nested loops run serially.
thread_local bool inside_task = false;

thread_local const void* task_of = nullptr;  // detail::current_task(): the address of its function

class TaskScope {
 public:
  explicit TaskScope(const std::function<void(std::int64_t)>& task) : outer_(std::exchange(task_of, &task)) {}
  ~TaskScope() { task_of = outer_; }
  TaskScope(const TaskScope&) = delete;
  TaskScope& operator=(const TaskScope&) = delete;

 private:
  const void* outer_;
};

class Pool {
 public:
  explicit Pool(int threads) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { loop(); });
  }
  ~Pool() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // One job at a time uses the pool; where another thread's job has it, this one runs on its own thread alone.
  void run(Job& job) {
    const std::unique_lock owner(owner_, std::try_to_lock);
    if (!owner) return job.work();
    {
      const std::lock_guard lock(mutex_);
      job_ = &job;
      ++generation_;
    }
    wake_.notify_all();
    job.work();
    std::unique_lock lock(mutex_);
    job_ = nullptr;
    done_.wait(lock, [&] { return job.helpers == 0; });
  }

 private:
  void loop() {
    inside_task = true;
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

// A child of fork() has none of the pool's threads, and would wait for them in vain. It forgets the pool, neither
// stopping nor freeing it, and makes its own.
void forget_pool() {
  new (&pool_mutex) std::mutex;
  new (&pool) std::shared_ptr<Pool>;
}

std::shared_ptr<Pool> acquire_pool() {
  [[maybe_unused]] static const int registered = pthread_atfork(nullptr, nullptr, forget_pool);
  const std::lock_guard lock(pool_mutex);
  if (!pool) pool = std::make_shared<Pool>(num_threads() - 1);
  return pool;
}

}  // namespace

void set_num_threads(int count) {
  ADJOINT_CHECK(count >= 1, "set_num_threads: the number of threads must be at least 1; got {}", count);
  const std::lock_guard lock(pool_mutex);
  if (count == thread_count) return;
  thread_count = count;
  pool.reset();  // a running job keeps the old pool alive until it is done
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

const void* detail::current_task() { return task_of; }

void detail::prepare_threads() {
  if (num_threads() > 1) acquire_pool();
}

void parallel_for(std::int64_t count, const std::function<void(std::int64_t)>& task) {
  const TaskScope scope(task);
  if (count <= 1 || inside_task || num_threads() == 1) {
    for (std::int64_t i = 0; i < count; ++i) task(i);
    return;
  }
  const std::shared_ptr<Pool> threads = acquire_pool();
  Job job(count, task);
  inside_task = true;
  threads->run(job);
  inside_task = false;
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace adjoint
