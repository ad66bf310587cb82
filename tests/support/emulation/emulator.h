// Runs CUDA kernels on the CPU, so that tests without a GPU can check their results.
//
// A kernel's .cuh compiles as C++: include/ holds stand-ins for CUDA's headers and for core/cuda's wrappers of single
// instructions; the compiler finds them before the real ones. Each thread of a block is a fiber; all fibers of a block
// (or of a cluster's blocks) alternate on one thread of the host, in an order drawn from a seed, and change at
// barriers, mbarrier waits and warp-wide instructions. Asynchronous work is done as late as its waits allow, or at a
// random moment if nothing waits: cp.async and bulk copies by the scheduler, wgmma's products at the wait that covers
// them. So a missing wait or a buffer that is reused too early shows as a wrong sum, and a barrier that nobody
// completes as an exception. The emulator does not model time, memory ordering between proxies, and alignment faults of
// ordinary loads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

// GCC and clang report it differently.
#if defined(__SANITIZE_ADDRESS__)
#define ADJOINT_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ADJOINT_ASAN 1
#endif
#endif

namespace adjoint::emulation {

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr Dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

inline constexpr std::size_t kDynamicBytes = 256 * 1024;

struct Launch {
  Dim3 grid, block;
  unsigned cluster = 1;                    // consecutive blocks along x that run together
  std::uint64_t seed = 0;                  // of the order of execution
  std::size_t smem_bytes = kDynamicBytes;  // dynamic shared memory; nothing may be written after it
};

/// Calls `kernel` once a thread. Throws std::runtime_error when no thread of a cluster can continue.
void run(const Launch& launch, const std::function<void()>& kernel);

/// One matrix instruction of a lane, not yet done.
struct Product {
  float* sums;
  std::uint32_t a[4];      // if a_shared is not set
  std::uint64_t a_shared;  // the descriptor, or 0
  std::uint64_t b;         // the descriptor
  int columns;
  int operand;  // 0: tf32, 1: bfloat16, 2: float16
  bool accumulate;
  bool a_transposed = false, b_transposed = false;  // a descriptor's operand is contiguous along M or N
};

/// A copy to shared memory, not yet done; zeros after the first `valid` bytes.
struct Copy {
  unsigned char* to;
  const void* from;
  std::size_t bytes, valid;
};

/// A kernel thread's knowledge of itself.
struct Thread {
  Dim3 index, block_index;
  unsigned rank = 0;  // of its block in the cluster
  std::vector<Copy> open_copies;
  std::vector<std::vector<Copy>> copy_groups;
  std::vector<Product> open_products;
  std::vector<std::vector<Product>> product_groups;
  // Unfinished copies from shared memory: those that are not committed, and those of each group.
  std::shared_ptr<int> open_stores = std::make_shared<int>(0);
  std::vector<std::shared_ptr<int>> store_groups;
};

Thread& current();
const Launch& launch();

/// Lets other threads run until `ready` returns true.
void wait_until(const std::function<bool()>& ready);
/// Lets `work` be done at a moment of the scheduler's choice.
void later(std::function<void()> work);

/// Waits for `count` threads at barrier `index` of the block.
void block_barrier(int index, int count);
/// Waits for all threads of the cluster.
void cluster_barrier();
/// Waits for the warp, each lane with its own value; then lane 0's `work(values)` runs once, if it is set.
void warp_collective(void* value, const std::function<void(void* const*)>& work);

/// Shared memory: 32-bit addresses count from the first byte of the block's dynamic shared memory.
unsigned char* dynamic_smem(unsigned rank);
std::uint32_t shared_address(const void* pointer);
unsigned char* shared_pointer(std::uint32_t address);

void perform(const Copy& copy);
/// A warp's share of one wgmma: 16 rows. `lanes` are the 32 lanes' products; `warp`: of its warpgroup.
void multiply_warp(const Product* const* lanes, unsigned rank, int warp);

/// The content of an mbarrier's eight bytes.
struct MBarrier {
  std::uint16_t expected, pending;
  std::int32_t bytes_and_phase;  // outstanding bytes * 2 + phase
};
MBarrier& mbarrier(std::uint32_t address);
void mbarrier_update(MBarrier& barrier, int arrivals, int bytes);
bool mbarrier_complete(const MBarrier& barrier, std::uint32_t parity);

}  // namespace adjoint::emulation
