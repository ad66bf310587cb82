// The functions that core needs from CUDA: memory, copies, fills and random numbers. The CPU part of core calls these
// if ADJOINT_WITH_CUDA is defined, so it needs no CUDA header. Everything runs on the current stream
// (core/base/stream.h).
#pragma once

#include <adjoint/core/base/device.h>

#include <cstddef>
#include <cstdint>

namespace adjoint {
class Tensor;
namespace philox {
struct Position;
}
}  // namespace adjoint

namespace adjoint::cuda {

/// The devices that this process can use; 0 if there is no driver. Never throws.
int device_count();
/// 10 * major + minor.
int compute_capability(int device);

/// `nbytes` > 0 bytes in the order of the device's current stream, which `*stream` receives for release().
/// Throws OutOfMemoryError.
void* allocate(std::size_t nbytes, int device, void** stream);
void release(void* data, int device, void* stream) noexcept;
/// The bytes that the device's pool has taken from the driver.
std::size_t bytes_held(int device);
/// Returns unused memory: the devices' pools and page-locked memory.
void empty_caches();

/// `nbytes` > 0 bytes of page-locked memory of the host. Throws OutOfMemoryError. Memory that is released while copies
/// still use it (see copy_async) is not handed out before they are done.
void* allocate_pinned(std::size_t nbytes);
void release_pinned(void* data) noexcept;
std::size_t pinned_bytes_held();
void empty_pinned_cache();
/// Like copy_bytes() between a device and page-locked memory, which `pinned` from allocate_pinned() holds, but without
/// waiting.
void copy_async(void* dst, const void* src, Device device, bool to_device, void* pinned, std::size_t nbytes);

/// In the order of the current stream. If one side is the host, returns after the copy is done; between two GPUs, each
/// one's current stream is ordered around it.
void copy_bytes(void* dst, Device dst_device, const void* src, Device src_device, std::size_t nbytes);
/// dst[i] = src[i], converted to dst's dtype. Same device and shape, any strides.
void copy_strided(const Tensor& src, Tensor& dst);

/// Any dtype and strides.
void fill(Tensor& dst, double value);
/// dst[i] = start + i * step, computed in float64 and rounded once. `dst` is contiguous.
void arange(Tensor& dst, double start, double step);

/// Element i of a contiguous floating-point `dst` is number i % 2 of block i / 2 from `at` on (philox.h).
void fill_uniform(Tensor& dst, double low, double high, const philox::Position& at);
/// For any dtype.
void fill_integers(Tensor& dst, std::int64_t low, std::int64_t high, const philox::Position& at);
void fill_normal(Tensor& dst, double mean, double standard_deviation, const philox::Position& at);

/// Waits for the device's current stream.
void synchronize(Device device);

}  // namespace adjoint::cuda
