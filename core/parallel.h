// Splitting CPU work over a pool of std::threads. How work is split depends on its shape alone, never on the number of
// threads, so results are the same bits on any machine.
#pragma once

#include <adjoint/core/export.h>

#include <cstdint>
#include <functional>

namespace adjoint {

/// The most threads that can be asked for.
inline constexpr int kMaxThreads = 4096;

/// Threads that CPU operators use, the caller's included; they start here. Throws Error outside [1, kMaxThreads], and
/// where the system does not start as many: there are as many as before then.
ADJOINT_API void set_num_threads(int count);
/// Where set_num_threads() was not called: ADJOINT_NUM_THREADS, where it is set and not empty, else the CPUs that this
/// process may run on. Throws Error where ADJOINT_NUM_THREADS is no whole number in [1, kMaxThreads].
ADJOINT_API int num_threads();

/// Runs task(0) ... task(count - 1), each once, in any order and on any thread, and returns when all are done. The
/// first exception is rethrown here. Called from inside a task, it runs serially. A tape that was made outside a task
/// records nothing inside it: an operator that it would record throws Error there, on every thread; see PauseTape.
/// Throws Error for a negative count and an empty function, and where num_threads() cannot be had.
ADJOINT_API void parallel_for(std::int64_t count, const std::function<void(std::int64_t)>& task);

namespace detail {

/// What tells the parallel_for whose task this thread runs, the innermost, from every other; null outside tasks.
ADJOINT_API const void* current_task();
/// Makes the pool's threads where they are not there yet, so that the next parallel_for takes no memory.
ADJOINT_API void prepare_threads();
[[noreturn]] ADJOINT_API void bad_grain(std::int64_t grain);

}  // namespace detail

/// Cuts [0, count) into ranges of `grain` and runs body(begin, end) on each, in parallel. Serial, and free of any
/// overhead, where one range holds everything. Throws Error for a grain below 1.
template <class F>
void parallel_ranges(std::int64_t count, std::int64_t grain, F&& body) {
  if (grain < 1) detail::bad_grain(grain);
  if (count <= grain) {
    if (count > 0) body(std::int64_t{0}, count);
    return;
  }
  const auto task = [&](std::int64_t range) {
    const std::int64_t begin = range * grain;
    body(begin, count - begin > grain ? begin + grain : count);
  };
  parallel_for((count - 1) / grain + 1, std::ref(task));  // a reference: nothing is allocated
}

}  // namespace adjoint
