// The memory of DataParallel's gradients: buckets, each one tensor, of consecutive gradients. Internal.
#pragma once

#include <adjoint/core/tensor/tensor.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace adjoint::distributed {

/// A parameter and its gradient's place.
struct Entry {
  std::string name;
  Tensor leaf;
  std::size_t bucket = 0;
  std::int64_t begin = 0;  // in the bucket
  Tensor gradient = {};    // from the first sweep, before there are buckets
  Tensor slot = {};        // its part of the bucket, with its own storage, because hooks freeze storages
  bool active = false;     // part of the buckets
  bool counts = true;      // some rank has a gradient for it
};

struct Bucket {
  std::vector<std::size_t> entries;
  DType dtype = kFloat32;
  std::int64_t numel = 0;
  Tensor flat = {};
  std::size_t waits_for = 0;
};

/// Buckets, each of one dtype and closed at `full` bytes, of the entries at `order`; sets the entries' places.
std::vector<Bucket> buckets_of(std::vector<Entry>& entries, const std::vector<std::size_t>& order, std::int64_t full);
/// Returns true if no object, not even a graph, still holds the gradients of the last sweep.
bool is_free(const Bucket& bucket, const std::vector<Entry>& entries, Device device);
/// Allocates new memory, also for the slots. Holders of the last gradients keep theirs.
void make_room(Bucket& bucket, std::vector<Entry>& entries, Device device);

}  // namespace adjoint::distributed
