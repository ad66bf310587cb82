// Splitting CPU work over a pool of std::threads. How work is split depends on its shape alone, never on the number of
// threads, so results are the same bits on any machine.
#pragma once

#include <adjoint/core/export.h>

#include <cstdint>
#include <functional>

namespace adjoint {

/// Threads that CPU operators use, the caller's included. Default: ADJOINT_NUM_THREADS, else the CPUs this process may
/// run on. Throws Error below 1.
ADJOINT_API void set_num_threads(int count);
ADJOINT_API int num_threads();

/// Runs task(0) ... task(count - 1), each once, in any order and on any thread, and returns when all are done. The
/// first exception is rethrown here. Called from inside a task, it runs serially. A tape that was made outside a task
/// records nothing inside it: an operator that it would record throws Error there, on every thread; see PauseTape.
ADJOINT_API void parallel_for(std::int64_t count, const std::function<void(std::int64_t)>& task);

namespace detail {

/// What tells the parallel_for whose task this thread runs, the innermost, from every other; null outside tasks.
ADJOINT_API const void* current_task();
/// Makes the pool's threads where they are not there yet, so that the next parallel_for takes no memory.
ADJOINT_API void prepare_threads();

}  // namespace detail

/// Cuts [0, count) into ranges of `grain` and runs body(begin, end) on each, in parallel. Serial, and free of any
/// overhead, where one range holds everything.
template <class F>
void parallel_ranges(std::int64_t count, std::int64_t grain, F&& body) {
  if (count <= grain) {
    if (count > 0) body(std::int64_t{0}, count);
    return;
  }
  const auto task = [&](std::int64_t range) {
    const std::int64_t begin = range * grain;
    body(begin, begin + grain < count ? begin + grain : count);
  };
  parallel_for((count + grain - 1) / grain, std::ref(task));  // a reference: nothing is allocated
}

}  // namespace adjoint
