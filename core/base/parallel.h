// Splits CPU work over a pool of std::threads. The work's shape alone determines how it is split, never the number of
// threads, so results have the same bits on any machine.
#pragma once

#include <adjoint/core/base/export.h>

#include <cstdint>
#include <functional>

namespace adjoint {

/// The largest number of threads.
inline constexpr int kMaxThreads = 4096;

/// The number of threads that CPU operators use, including the caller's; starts them. Throws Error outside [1,
/// kMaxThreads], and if the system does not start as many; the number is then unchanged.
ADJOINT_API void set_num_threads(int count);
/// Without set_num_threads(), it is ADJOINT_NUM_THREADS if that is set and not empty, else the number of CPUs that this
/// process may run on. Throws Error if ADJOINT_NUM_THREADS is not a whole number in [1, kMaxThreads].
ADJOINT_API int num_threads();

/// Runs task(0) ... task(count - 1), each once, in any order and on any thread, and returns when all are done. Rethrows
/// the first exception. Called from inside a task, it runs serially. A tape that was made outside a task records
/// nothing inside it: an operator that it would record throws Error there, on every thread; see PauseTape. Throws Error
/// for a negative count and an empty function, and if num_threads() throws.
ADJOINT_API void parallel_for(std::int64_t count, const std::function<void(std::int64_t)>& task);

namespace detail {

/// Identifies the innermost parallel_for whose task this thread runs; null outside tasks.
ADJOINT_API const void* current_task();
/// Creates the pool's threads if they do not exist yet, so that the next parallel_for allocates nothing.
ADJOINT_API void prepare_threads();
[[noreturn]] ADJOINT_API void bad_grain(std::int64_t grain);

}  // namespace detail

/// Cuts [0, count) into ranges of `grain` and runs body(begin, end) on each, in parallel. Serial, without any overhead,
/// if one range holds everything. Throws Error for a grain below 1.
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
  parallel_for((count - 1) / grain + 1, std::ref(task));  // a reference, so nothing is allocated
}

}  // namespace adjoint
