// A table of vectors, looked up by index.
#pragma once

#include <adjoint/nn/module.h>

#include <cstdint>
#include <optional>

namespace adjoint::nn {

struct EmbeddingOptions {
  /// A row of zeros that gets no gradient; a negative one counts from the end.
  std::optional<std::int64_t> padding_idx = {};
};

/// indices (...), int64 or int32 -> (..., embedding_dim): rows of the weight, which starts as N(0, 1); embedding
/// (ops/index) has what happens to an index out of range.
class ADJOINT_API Embedding : public Module {
 public:
  /// Throws Error for sizes below 1 and for a padding_idx that is no row.
  Embedding(std::int64_t num_embeddings, std::int64_t embedding_dim, const EmbeddingOptions& options = {});
  Tensor operator()(const Tensor& indices) const;

  Parameter weight;  // (num_embeddings, embedding_dim)

 private:
  EmbeddingOptions options_;
};

}  // namespace adjoint::nn
