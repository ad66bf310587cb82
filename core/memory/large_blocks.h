// The descriptions of large tensors in messages, and the counts of storages. Internal to core.
#pragma once

#include <adjoint/core/memory/memory.h>
#include <adjoint/core/tensor/storage.h>
#include <adjoint/core/tensor/tensor_impl.h>

#include <memory>
#include <string>

namespace adjoint::detail {

/// Moves counted bytes between categories.
void recount_memory(Device device, MemoryCategory from, MemoryCategory to, std::size_t nbytes) noexcept;

/// An entry in the list of large storages, from kLeastBytes on.
class LargeBlock {
 public:
  // Smaller storages are not listed: a lock costs little compared with so much memory.
  static constexpr std::size_t kLeastBytes = std::size_t{1} << 20;

  /// Null for a small storage. `spec` may be null.
  static std::unique_ptr<LargeBlock> make(const Storage& storage, const TensorSpec* spec);

  explicit LargeBlock(const Storage& storage) : storage_(storage) {}
  LargeBlock(const LargeBlock&) = delete;
  LargeBlock& operator=(const LargeBlock&) = delete;
  ~LargeBlock();

  /// Adds it to the list; the destructor removes it.
  void list();
  const Storage& storage() const { return storage_; }
  const LargeBlock* next() const { return next_; }
  /// "(64, 3, 512, 512) float32 of 201326592 bytes (saved for backward, made by conv2d)".
  std::string describe() const;

 private:
  const Storage& storage_;
  Shape shape_;
  DType dtype_ = kFloat32;
  bool has_spec_ = false;
  bool listed_ = false;
  char op_[32] = {};
  LargeBlock* previous_ = nullptr;
  LargeBlock* next_ = nullptr;
};

}  // namespace adjoint::detail
