#include <adjoint/nn/gradient_buckets.h>

#include <adjoint/core/tensor/tensor_impl.h>

#include <algorithm>
#include <map>
#include <utility>

namespace adjoint::distributed {
namespace {

constexpr std::int64_t kAlignment = 256;  // alignment in bytes of a gradient in its bucket

}  // namespace

std::vector<Bucket> buckets_of(std::vector<Entry>& entries, const std::vector<std::size_t>& order, std::int64_t full) {
  std::vector<Bucket> buckets;
  std::map<DType, Bucket> open;
  for (const std::size_t i : order) {
    const Tensor& leaf = entries[i].leaf;
    const std::int64_t size = element_size(leaf.dtype());
    Bucket& bucket = open[leaf.dtype()];
    bucket.dtype = leaf.dtype();
    entries[i].begin = bucket.numel;
    bucket.entries.push_back(i);
    bucket.numel += (leaf.numel() * size + kAlignment - 1) / kAlignment * kAlignment / size;
    if (bucket.numel * size >= full) buckets.push_back(std::exchange(bucket, {}));
  }
  for (auto& [dtype, bucket] : open) {
    if (!bucket.entries.empty()) buckets.push_back(std::move(bucket));
  }
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    for (const std::size_t i : buckets[b].entries) entries[i].bucket = b;
  }
  return buckets;
}

bool is_free(const Bucket& bucket, const std::vector<Entry>& entries, Device device) {
  return bucket.flat.defined() && bucket.flat.device() == device &&
         std::all_of(bucket.entries.begin(), bucket.entries.end(), [&](std::size_t i) {
           const Tensor& slot = entries[i].slot;
           return slot.impl_ptr().use_count() == 1 && slot.impl()->storage.use_count() == 1;
         });
}

void make_room(Bucket& bucket, std::vector<Entry>& entries, Device device) {
  Tensor flat = Tensor::zeros({bucket.numel}, {.dtype = bucket.dtype, .device = device});
  const std::int64_t size = element_size(bucket.dtype);
  std::vector<Tensor> slots;
  for (const std::size_t i : bucket.entries) {
    const Tensor& leaf = entries[i].leaf;
    slots.push_back(make_tensor({Shape{0}, bucket.dtype}, device));
    TensorImpl& impl = *slots.back().impl();
    impl.shape = leaf.shape();
    impl.strides = contiguous_strides(impl.shape);
    impl.numel = leaf.numel();
    char* const at = static_cast<char*>(flat.impl()->storage->data()) + entries[i].begin * size;
    impl.storage = Storage::wrap(at, static_cast<std::size_t>(impl.numel * size), device, [flat] {});
  }
  for (std::size_t k = 0; k < slots.size(); ++k) entries[bucket.entries[k]].slot = std::move(slots[k]);
  bucket.flat = std::move(flat);
}

}  // namespace adjoint::distributed
