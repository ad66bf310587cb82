// core/cuda/ptx.cuh for emulator.h: the same names.
#pragma once

#include <adjoint/core/cuda/tensor_map.h>
#include <adjoint/tests/support/emulation/emulator.h>
#include <adjoint/tests/support/emulation/tensor_map.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace adjoint::cuda::ptx {

inline std::uint32_t shared_address(const void* pointer) { return emulation::shared_address(pointer); }
inline unsigned char* dynamic_smem() { return emulation::dynamic_smem(emulation::current().rank); }
template <class T>
T opaque(T value) {
  return value;
}
template <class T>
T uniform(T value) {
  return __shfl_sync(0xffffffff, value, 0);
}
inline std::uint32_t load_shared(std::uint32_t address) {
  if (address % 4 != 0) throw std::runtime_error("emulated ld.shared.b32: unaligned");
  return *reinterpret_cast<const std::uint32_t*>(emulation::shared_pointer(address));
}
inline void store_shared(std::uint32_t address, std::uint32_t value) {
  if (address % 4 != 0) throw std::runtime_error("emulated st.shared.b32: unaligned");
  *reinterpret_cast<std::uint32_t*>(emulation::shared_pointer(address)) = value;
}
inline void load_shared_pair(std::uint32_t (&values)[2], std::uint32_t address) {
  if (address % 8 != 0) throw std::runtime_error("emulated ld.shared.v2.b32: unaligned");
  std::memcpy(values, emulation::shared_pointer(address), sizeof(values));
}
inline void store_shared_pair(std::uint32_t address, float first, float second) {
  if (address % 8 != 0) throw std::runtime_error("emulated st.shared.v2.f32: unaligned");
  const float values[2] = {first, second};
  std::memcpy(emulation::shared_pointer(address), values, sizeof(values));
}
inline void store_shared_quad(std::uint32_t address, const float* values) {
  if (address % 16 != 0) throw std::runtime_error("emulated st.shared.v4.f32: unaligned");
  std::memcpy(emulation::shared_pointer(address), values, 4 * sizeof(float));
}
inline std::uint32_t load_shared_half(std::uint32_t address) {
  if (address % 2 != 0) throw std::runtime_error("emulated ld.shared.u16: unaligned");
  return *reinterpret_cast<const std::uint16_t*>(emulation::shared_pointer(address));
}
/// A warp's four matrices: `move(row, lane, unit)` for each, lane by lane; row(r) is the address of the matrix's row r.
template <class Unit, class Move>
void move_matrices(const char* name, Unit* units, std::uint32_t address, const Move& move) {
  if (address % 16 != 0) throw std::runtime_error(std::string("emulated ") + name + ": unaligned");
  struct Lane {
    Unit* units;
    std::uint32_t address;
  } lane{units, address};
  emulation::warp_collective(&lane, [&move](void* const* lanes) {
    const auto of = [&](int i) -> const Lane& { return *static_cast<const Lane*>(lanes[i]); };
    for (int matrix = 0; matrix < 4; ++matrix) {
      const auto row = [&](std::uint32_t r) { return of(8 * matrix + static_cast<int>(r)).address; };
      for (int i = 0; i < 32; ++i) move(row, static_cast<std::uint32_t>(i), of(i).units[matrix]);
    }
  });
}
inline void load_matrices(std::uint32_t (&units)[4], std::uint32_t address) {
  move_matrices("ldmatrix", units, address, [](const auto& row, std::uint32_t lane, std::uint32_t& unit) {
    unit = load_shared(row(lane / 4) + 4 * (lane % 4));
  });
}
inline void load_matrices_transposed(std::uint32_t (&units)[4], std::uint32_t address) {
  move_matrices("ldmatrix", units, address, [](const auto& row, std::uint32_t lane, std::uint32_t& unit) {
    const auto half = [&](std::uint32_t r) { return load_shared_half(row(r) + 2 * (lane / 4)); };
    unit = half(lane % 4 * 2) | half(lane % 4 * 2 + 1) << 16;
  });
}
inline void store_matrices(std::uint32_t address, const std::uint32_t (&units)[4]) {
  move_matrices("stmatrix", units, address, [](const auto& row, std::uint32_t lane, const std::uint32_t& unit) {
    std::memcpy(emulation::shared_pointer(row(lane / 4) + 4 * (lane % 4)), &unit, sizeof(unit));
  });
}
inline void store_matrices_transposed(std::uint32_t address, const std::uint32_t (&units)[4]) {
  move_matrices("stmatrix", units, address, [](const auto& row, std::uint32_t lane, const std::uint32_t& unit) {
    for (std::uint32_t i = 0; i < 2; ++i) {
      const auto half = static_cast<std::uint16_t>(unit >> 16 * i);
      std::memcpy(emulation::shared_pointer(row(lane % 4 * 2 + i) + 2 * (lane / 4)), &half, sizeof(half));
    }
  });
}
template <int kThreads>
void barrier(int index) {
  emulation::block_barrier(index, kThreads);
}

template <int kBytes>
void cp_async_zfill(std::uint32_t dst, const void* src, bool valid) {
  if (dst % kBytes != 0 || (valid && reinterpret_cast<std::uintptr_t>(src) % kBytes != 0)) {
    throw std::runtime_error("emulated cp.async: unaligned");
  }
  emulation::current().open_copies.push_back({emulation::shared_pointer(dst), src, kBytes, valid ? kBytes : 0U});
}
template <int kBytes>
void cp_async_partial(std::uint32_t dst, const void* src, int bytes) {
  cp_async_zfill<kBytes>(dst, src, bytes > 0);
  emulation::current().open_copies.back().valid = static_cast<std::size_t>(bytes);
}
inline void cp_async_commit() {
  emulation::Thread& thread = emulation::current();
  thread.copy_groups.push_back(std::move(thread.open_copies));
  thread.open_copies.clear();
}
inline void cp_async_wait_at_most(int pending) {
  auto& groups = emulation::current().copy_groups;
  while (groups.size() > static_cast<std::size_t>(pending)) {
    for (const emulation::Copy& copy : groups.front()) emulation::perform(copy);
    groups.erase(groups.begin());
  }
}
template <int kPending>
void cp_async_wait() {
  cp_async_wait_at_most(kPending);
}

inline void mbarrier_init(std::uint32_t barrier, int arrivals) {
  const auto count = static_cast<std::uint16_t>(arrivals);
  emulation::mbarrier(barrier) = {count, count, 0};
}
inline void fence_mbarrier_init() {}
inline void mbarrier_arrive(std::uint32_t barrier) { emulation::mbarrier_update(emulation::mbarrier(barrier), 1, 0); }
inline void mbarrier_arrive_expect_bytes(std::uint32_t barrier, int bytes) {
  emulation::MBarrier& state = emulation::mbarrier(barrier);
  state.bytes_and_phase += 2 * bytes;
  emulation::mbarrier_update(state, 1, 0);
}
inline void mbarrier_arrive_after_cp_async(std::uint32_t barrier) {
  emulation::Thread& thread = emulation::current();
  emulation::MBarrier* state = &emulation::mbarrier(barrier);
  thread.copy_groups.push_back(std::move(thread.open_copies));
  thread.open_copies.clear();
  emulation::later([groups = std::exchange(thread.copy_groups, {}), state] {
    for (const auto& group : groups) {
      for (const emulation::Copy& copy : group) emulation::perform(copy);
    }
    emulation::mbarrier_update(*state, 1, 0);
  });
}
inline void mbarrier_wait(std::uint32_t barrier, std::uint32_t parity) {
  const emulation::MBarrier* state = &emulation::mbarrier(barrier);
  emulation::wait_until([state, parity] { return emulation::mbarrier_complete(*state, parity); });
}
inline bool mbarrier_test(std::uint32_t barrier, std::uint32_t parity) {
  return emulation::mbarrier_complete(emulation::mbarrier(barrier), parity);
}

inline void wait_for_earlier_kernels() {}

inline void bulk_copy(std::uint32_t dst, const void* src, int bytes, std::uint32_t barrier) {
  if (dst % 16 != 0 || reinterpret_cast<std::uintptr_t>(src) % 16 != 0 || bytes % 16 != 0) {
    throw std::runtime_error("emulated cp.async.bulk: unaligned");
  }
  const auto count = static_cast<std::size_t>(bytes);
  emulation::later([copy = emulation::Copy{emulation::shared_pointer(dst), src, count, count},
                    state = &emulation::mbarrier(barrier), bytes] {
    emulation::perform(copy);
    emulation::mbarrier_update(*state, 0, -bytes);
  });
}
inline void tensor_copy(std::uint32_t dst, const TensorMap* map, const int (&at)[kTensorMapAxes],
                        std::uint32_t barrier) {
  if (dst % 128 != 0) throw std::runtime_error("emulated cp.async.bulk.tensor: unaligned");
  std::vector<int> first(std::begin(at), std::end(at));
  emulation::later([shared = emulation::shared_pointer(0), dst, layout = emulation::decode_tensor_map(*map), first,
                    state = &emulation::mbarrier(barrier)] {
    emulation::mbarrier_update(*state, 0, -emulation::load_box(shared, dst, layout, first));
  });
}
inline void tensor_store(const TensorMap* map, const int (&at)[kTensorMapAxes], std::uint32_t src) {
  if (src % 128 != 0) throw std::runtime_error("emulated cp.async.bulk.tensor: unaligned");
  std::vector<int> first(std::begin(at), std::end(at));
  const auto open = emulation::current().open_stores;
  ++*open;
  emulation::later(
      [shared = emulation::shared_pointer(0), src, layout = emulation::decode_tensor_map(*map), first, open] {
        emulation::store_box(shared, src, layout, first);
        --*open;
      });
}
inline void bulk_commit() {
  emulation::Thread& thread = emulation::current();
  thread.store_groups.push_back(std::exchange(thread.open_stores, std::make_shared<int>(0)));
}
inline void bulk_wait_read() {
  auto& groups = emulation::current().store_groups;
  emulation::wait_until(
      [&groups] { return std::all_of(groups.begin(), groups.end(), [](const auto& group) { return *group == 0; }); });
  groups.clear();
}
inline void bulk_copy_to_cluster(std::uint32_t dst, const void* src, int bytes, std::uint32_t barrier, int blocks) {
  if (static_cast<unsigned>(blocks) != emulation::launch().cluster) {
    throw std::runtime_error("emulated cp.async.bulk: copies go to all blocks of the cluster");
  }
  for (int rank = 0; rank < blocks; ++rank) {
    const auto count = static_cast<std::size_t>(bytes);
    auto* smem = emulation::dynamic_smem(static_cast<unsigned>(rank));
    emulation::later([copy = emulation::Copy{smem + dst, src, count, count},
                      state = reinterpret_cast<emulation::MBarrier*>(smem + barrier), bytes] {
      emulation::perform(copy);
      emulation::mbarrier_update(*state, 0, -bytes);
    });
  }
}
inline std::uint32_t address_in_cluster(std::uint32_t address, int block) {
  return address | static_cast<std::uint32_t>(block + 1) << 24;
}
inline void mbarrier_arrive_in_cluster(std::uint32_t barrier) {
  auto* smem = emulation::dynamic_smem((barrier >> 24) - 1);
  emulation::mbarrier_update(*reinterpret_cast<emulation::MBarrier*>(smem + (barrier & 0xffffffU)), 1, 0);
}
inline void load_cluster_quad(float (&values)[4], std::uint32_t address) {
  if (address % 16 != 0) throw std::runtime_error("emulated ld.shared::cluster.v4.f32: unaligned");
  std::memcpy(values, emulation::dynamic_smem((address >> 24) - 1) + (address & 0xffffffU), sizeof(values));
}
inline int cluster_rank() { return static_cast<int>(emulation::current().rank); }
inline void cluster_barrier() { emulation::cluster_barrier(); }
inline void fence_async_proxy() {}
inline void prefetch(const void* /*address*/) {}
inline void prefetch(const TensorMap& /*map*/) {}

template <int kRegisters>
void raise_register_limit() {}
template <int kRegisters>
void lower_register_limit() {}

inline float add_away_from_zero(float a, float b) {
  const float sum = a + b, b_in_sum = sum - a;
  const float rest = (a - (sum - b_in_sum)) + (b - b_in_sum);  // Knuth's two-sum; NaN if the sum is not finite
  const bool away = a < 0 ? rest < 0 : rest > 0;
  return away ? std::nextafter(sum, a < 0 ? -INFINITY : INFINITY) : sum;
}
inline std::uint32_t round_to_tf32(float value) {
  const std::uint32_t bits = __float_as_uint(value);
  if ((bits & 0x7f800000U) == 0x7f800000U) return (bits & 0x007fffffU) != 0 ? 0x7fffe000U : bits;
  return (bits + 0xfffU + (bits >> 13 & 1U)) & 0xffffe000U;
}

}  // namespace adjoint::cuda::ptx
