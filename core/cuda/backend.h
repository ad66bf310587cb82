// What core asks of CUDA: memory, copies, fills and random numbers. The CPU part of core calls these where
// ADJOINT_WITH_CUDA is defined, so it needs no CUDA header. Everything runs on the current stream (core/stream.h).
#pragma once

#include <adjoint/core/device.h>

#include <cstddef>
#include <cstdint>

namespace adjoint {
class Tensor;
namespace philox {
struct Position;
}
}  // namespace adjoint

namespace adjoint::cuda {

/// Devices that this process can use; 0 where there is no driver. Never throws.
int device_count();

/// `nbytes` > 0 bytes in the order of the device's current stream, which `*stream` receives for release().
/// Throws OutOfMemoryError.
void* allocate(std::size_t nbytes, int device, void** stream);
void release(void* data, int device, void* stream) noexcept;

/// In the order of the current stream. Where one side is the host, returns after the copy is done; between two GPUs,
/// each one's current stream is ordered around it.
void copy_bytes(void* dst, Device dst_device, const void* src, Device src_device, std::size_t nbytes);
/// dst[i] = src[i], converted to dst's dtype. Same device and shape, any strides.
void copy_strided(const Tensor& src, Tensor& dst);

/// Any dtype and strides.
void fill(Tensor& dst, double value);
/// dst[i] = start + i * step, computed in float64 and rounded once. `dst` is contiguous.
void arange(Tensor& dst, double start, double step);

/// Element i of a contiguous floating-point `dst` is number i % 2 of block i / 2 from `at` on (philox.h).
void fill_uniform(Tensor& dst, double low, double high, const philox::Position& at);
/// Of any dtype.
void fill_integers(Tensor& dst, std::int64_t low, std::int64_t high, const philox::Position& at);
void fill_normal(Tensor& dst, double mean, double standard_deviation, const philox::Position& at);

/// Waits for the device's current stream.
void synchronize(Device device);

}  // namespace adjoint::cuda
