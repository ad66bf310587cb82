// Wrappers of single instructions that kernels share: asynchronous copies, mbarriers, register reallocation, tf32
// rounding. Shared-memory addresses are 32-bit, from shared_address().
#pragma once

#include <adjoint/core/cuda/tensor_map.h>

#include <cstdint>

namespace adjoint::cuda::ptx {

__device__ __forceinline__ std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

/// The block's dynamic shared memory, with the alignment that swizzled operands need.
__device__ __forceinline__ unsigned char* dynamic_smem() {
  extern __shared__ __align__(1024) unsigned char dynamic_smem_bytes[];
  return dynamic_smem_bytes;
}

/// The same value, but opaque to the compiler, which therefore keeps it and does not recompute it.
template <class T>
__device__ __forceinline__ T opaque(T value) {
  static_assert(sizeof(T) == 4);
  asm volatile("" : "+r"(value));
  return value;
}

/// The same value, which the caller knows to be equal in all lanes of the warp, made known to the compiler.
template <class T>
__device__ __forceinline__ T uniform(T value) {
  return __shfl_sync(0xffffffff, value, 0);
}

__device__ __forceinline__ std::uint32_t load_shared(std::uint32_t address) {
  std::uint32_t value;
  asm volatile("ld.shared.b32 %0, [%1];\n" : "=r"(value) : "r"(address));
  return value;
}

__device__ __forceinline__ void store_shared(std::uint32_t address, std::uint32_t value) {
  asm volatile("st.shared.b32 [%0], %1;\n" ::"r"(address), "r"(value) : "memory");
}

/// Eight bytes, aligned.
__device__ __forceinline__ void load_shared_pair(std::uint32_t (&values)[2], std::uint32_t address) {
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];\n" : "=r"(values[0]), "=r"(values[1]) : "r"(address));
}

__device__ __forceinline__ std::uint32_t load_shared_half(std::uint32_t address) {
  std::uint16_t value;
  asm volatile("ld.shared.u16 %0, [%1];\n" : "=h"(value) : "r"(address));
  return value;
}

__device__ __forceinline__ void store_shared_pair(std::uint32_t address, float first, float second) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};\n" ::"r"(address), "f"(first), "f"(second) : "memory");
}

/// Four neighbouring floats to a multiple of 16 bytes.
__device__ __forceinline__ void store_shared_quad(std::uint32_t address, const float* values) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};\n" ::"r"(address), "f"(values[0]), "f"(values[1]),
               "f"(values[2]), "f"(values[3])
               : "memory");
}

/// Four 8 x 8 matrices of halves, or 8 x 4 of 32-bit units: lane l's address is that of row l % 8, 16 bytes, of matrix
/// l / 8; it gets unit l % 4 of row l / 4 of each.
__device__ __forceinline__ void load_matrices(std::uint32_t (&units)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(units[0]), "=r"(units[1]), "=r"(units[2]), "=r"(units[3])
               : "r"(address));
}

/// The same, transposed, of halves: lane l gets rows 2 * (l % 4) and the one after it of column l / 4 of each.
__device__ __forceinline__ void load_matrices_transposed(std::uint32_t (&units)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(units[0]), "=r"(units[1]), "=r"(units[2]), "=r"(units[3])
               : "r"(address)
               : "memory");
}

/// Writes the layout that load_matrices() reads. sm_90.
__device__ __forceinline__ void store_matrices(std::uint32_t address, const std::uint32_t (&units)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};\n" ::"r"(address), "r"(units[0]),
               "r"(units[1]), "r"(units[2]), "r"(units[3])
               : "memory");
}

/// Writes the layout that load_matrices_transposed() reads. sm_90.
__device__ __forceinline__ void store_matrices_transposed(std::uint32_t address, const std::uint32_t (&units)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};\n" ::"r"(address), "r"(units[0]),
               "r"(units[1]), "r"(units[2]), "r"(units[3])
               : "memory");
}

/// A barrier of kThreads threads, whole warps; barrier 0 is __syncthreads'.
template <int kThreads>
__device__ __forceinline__ void barrier(int index) {
  asm volatile("bar.sync %0, %1;\n" ::"r"(index), "n"(kThreads) : "memory");
}

// --- cp.async: kBytes (4, 8 or 16) from global to shared memory; zeros where `valid` is false
// --------------------------

template <int kBytes>
__device__ __forceinline__ void cp_async_zfill(std::uint32_t dst, const void* src, bool valid) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
  const int bytes = valid ? kBytes : 0;
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(dst), "l"(src), "r"(bytes) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;\n" ::"r"(dst), "l"(src), "n"(kBytes), "r"(bytes)
                 : "memory");
  }
}

/// The first `bytes` of kBytes (4), possibly zero of them, followed by zeros.
template <int kBytes>
__device__ __forceinline__ void cp_async_partial(std::uint32_t dst, const void* src, int bytes) {
  static_assert(kBytes == 4);
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;\n" ::"r"(dst), "l"(src), "n"(kBytes), "r"(bytes)
               : "memory");
}

__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }
/// Waits until at most kPending of this thread's groups are in flight.
template <int kPending>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kPending) : "memory");
}

/// The same for a number known only at run time, up to 7.
__device__ __forceinline__ void cp_async_wait_at_most(int pending) {
  switch (pending) {
    case 0: return cp_async_wait<0>();
    case 1: return cp_async_wait<1>();
    case 2: return cp_async_wait<2>();
    case 3: return cp_async_wait<3>();
    case 4: return cp_async_wait<4>();
    case 5: return cp_async_wait<5>();
    case 6: return cp_async_wait<6>();
    default: return cp_async_wait<7>();
  }
}

// --- mbarrier
// ---------------------------------------------------------------------------------------------------------

__device__ __forceinline__ void mbarrier_init(std::uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;\n" ::"r"(barrier), "r"(arrivals) : "memory");
}

/// Makes initialised barriers visible to the asynchronous proxy; a __syncthreads follows.
__device__ __forceinline__ void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
}

__device__ __forceinline__ void mbarrier_arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];\n" ::"r"(barrier) : "memory");
}

__device__ __forceinline__ void mbarrier_arrive_expect_bytes(std::uint32_t barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;\n" ::"r"(barrier), "r"(bytes) : "memory");
}

/// The same place in the shared memory of a block of the cluster.
__device__ __forceinline__ std::uint32_t address_in_cluster(std::uint32_t address, int block) {
  std::uint32_t result;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;\n" : "=r"(result) : "r"(address), "r"(block));
  return result;
}

/// Arrives on a barrier at an address_in_cluster(). It releases only to its own block's threads, which suffices for
/// memory that the asynchronous proxy overwrites next; .release.cluster would be a fence of all memory, some 600
/// clocks.
__device__ __forceinline__ void mbarrier_arrive_in_cluster(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];\n" ::"r"(barrier) : "memory");
}

/// This block's number in its cluster.
__device__ __forceinline__ int cluster_rank() {
  int rank;
  asm("mov.u32 %0, %%cluster_ctarank;\n" : "=r"(rank));
  return rank;
}

/// Four floats at an address_in_cluster(), a multiple of 16 bytes.
__device__ __forceinline__ void load_cluster_quad(float (&values)[4], std::uint32_t address) {
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];\n"
               : "=f"(values[0]), "=f"(values[1]), "=f"(values[2]), "=f"(values[3])
               : "r"(address)
               : "memory");
}

/// A barrier of all threads of all blocks of the cluster.
__device__ __forceinline__ void cluster_barrier() {
  asm volatile(
      "barrier.cluster.arrive.release;\n"
      "barrier.cluster.wait.acquire;\n" ::
          : "memory");
}

/// Arrives on the barrier once this thread's earlier cp.async are complete; init() counts this arrival.
__device__ __forceinline__ void mbarrier_arrive_after_cp_async(std::uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];\n" ::"r"(barrier) : "memory");
}

/// Waits until the phase of the given parity is complete.
__device__ __forceinline__ void mbarrier_wait(std::uint32_t barrier, std::uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "waiting:\n"
      "mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
      "@!done bra waiting;\n"
      "}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

/// Returns true if the phase of the given parity is complete.
__device__ __forceinline__ bool mbarrier_test(std::uint32_t barrier, std::uint32_t parity) {
  std::uint32_t done;
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "mbarrier.test_wait.parity.shared.b64 done, [%1], %2;\n"
      "selp.u32 %0, 1, 0, done;\n"
      "}\n"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done != 0;
}

/// Waits until the kernels before this one have ended and their writes are visible. A kernel that launch_early()
/// launched must not read or write global memory before. Kernels of GPUs before Hopper are not launched early.
__device__ __forceinline__ void wait_for_earlier_kernels() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;\n" ::: "memory");
#endif
}

/// Prefetches the line of an address into the L2.
__device__ __forceinline__ void prefetch(const void* address) {
  asm volatile("prefetch.global.L2 [%0];\n" ::"l"(address));
}

/// Prefetches a map, so that the first copy by it need not wait for memory.
__device__ __forceinline__ void prefetch(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];\n" ::"l"(&map) : "memory");
}

// --- bulk copies, fences, registers
// -------------------------------------------------------------------------------------

/// Copies `bytes` (a multiple of 16; both addresses 16-byte aligned) and reports them to the barrier.
__device__ __forceinline__ void bulk_copy(std::uint32_t dst, const void* src, int bytes, std::uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\n" ::"r"(dst),
               "l"(src), "r"(bytes), "r"(barrier)
               : "memory");
}

/// The same to every block of the cluster, at the same places in their shared memory.
__device__ __forceinline__ void bulk_copy_to_cluster(std::uint32_t dst, const void* src, int bytes,
                                                     std::uint32_t barrier, int blocks) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], "
      "%4;\n" ::"r"(dst),
      "l"(src), "r"(bytes), "r"(barrier), "h"(static_cast<std::uint16_t>((1 << blocks) - 1))
      : "memory");
}

/// Copies the map's box that begins at these coordinates, innermost first, and reports its bytes, including zeros for
/// elements outside, to the barrier. dst: a multiple of 128; at[0]: of 16 bytes, or the instruction is illegal (seen on
/// an H200).
__device__ __forceinline__ void tensor_copy(std::uint32_t dst, const TensorMap* map, const int (&at)[kTensorMapAxes],
                                            std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5, "
      "%6}], [%7];\n" ::"r"(dst),
      "l"(map), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4]), "r"(barrier)
      : "memory");
}

/// The reverse: asynchronously writes the box at `src` to those coordinates, except for elements outside. Follow it
/// with this thread's bulk_commit() and a wait for that.
__device__ __forceinline__ void tensor_store(const TensorMap* map, const int (&at)[kTensorMapAxes], std::uint32_t src) {
  asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%1, %2, %3, %4, %5}], [%6];\n" ::"l"(map),
               "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4]), "r"(src)
               : "memory");
}

__device__ __forceinline__ void bulk_commit() { asm volatile("cp.async.bulk.commit_group;\n" ::: "memory"); }
/// Waits until all bulk stores that this thread has committed have been read from shared memory.
__device__ __forceinline__ void bulk_wait_read() { asm volatile("cp.async.bulk.wait_group.read 0;\n" ::: "memory"); }

/// Orders this thread's ordinary shared-memory accesses before later ones of the asynchronous proxy (wgmma, bulk
/// copies).
__device__ __forceinline__ void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory"); }

template <int kRegisters>
__device__ __forceinline__ void raise_register_limit() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(kRegisters));
}

template <int kRegisters>
__device__ __forceinline__ void lower_register_limit() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(kRegisters));
}

// --- tf32
// ---------------------------------------------------------------------------------------------------------------

/// a + b, rounded away from zero on a's side of it; -0 if a is negative and b is -a. Choosing between both sums, in
/// place of two instructions one of which is skipped, was measured to cost the kernels twice as much.
__device__ __forceinline__ float add_away_from_zero(float a, float b) {
  float sum;
  asm("{\n"
      ".reg .pred negative;\n"
      "setp.lt.f32 negative, %1, 0f00000000;\n"
      "@negative add.rm.f32 %0, %1, %2;\n"
      "@!negative add.rp.f32 %0, %1, %2;\n"
      "}\n"
      : "=f"(sum)
      : "f"(a), "f"(b));
  return sum;
}

/// Rounded to nearest, with the 13 low bits zero. Ties go to even on sm_90, where that is one instruction (away from
/// zero takes three), and away from zero on older GPUs.
__device__ __forceinline__ std::uint32_t round_to_tf32(float value) {
  std::uint32_t bits;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm("cvt.rn.tf32.f32 %0, %1;\n" : "=r"(bits) : "f"(value));
#else
  asm("cvt.rna.tf32.f32 %0, %1;\n" : "=r"(bits) : "f"(value));
#endif
  return bits;
}

}  // namespace adjoint::cuda::ptx
