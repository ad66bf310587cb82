// A dataset whose examples are the rows of tensors.
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/data/dataset.h>

#include <cstdint>

namespace adjoint::data {

/// Example i is row i of every tensor, without the first axis:
///
///     const TensorDataset digits({to_float(mnist.images), mnist.labels});
///     const TensorDataset more({.input = x, .target = y, .fields = {{"weight", w}, {"speaker", s}}});
class ADJOINT_API TensorDataset final : public Dataset {
 public:
  /// Tensors on a GPU are copied to the CPU. Throws Error if no tensor is defined, a tensor has no axis, the first axes
  /// differ, or a field's name is empty, repeated, "input" or "target".
  explicit TensorDataset(const Example& tensors);

  std::int64_t size() const override { return size_; }
  /// Views of the tensors.
  Example get(std::int64_t index, Generator& generator) const override;
  const Example& tensors() const { return tensors_; }

 private:
  Example tensors_;
  std::int64_t size_ = 0;
};

}  // namespace adjoint::data
