// A table of vectors, looked up by index.
#pragma once

#include <adjoint/nn/module.h>
#include <adjoint/nn/number.h>

#include <cstdint>
#include <optional>

namespace adjoint::nn {

struct EmbeddingOptions {
  /// A row of zeros that gets no gradient; a negative index counts from the end.
  std::optional<std::int64_t> padding_idx = {};
  /// Looked-up rows are first scaled down to this norm in the weight itself (embedding_renorm_).
  std::optional<double> max_norm = {};
  double norm_type = 2.0;  // the norm's p
};

/// indices (...), int64 or int32 -> (..., embedding_dim): rows of the weight, which is initialised from N(0, 1);
/// embedding (ops/index) describes indices out of range.
class ADJOINT_API Embedding : public Module {
 public:
  /// nn::Embedding(10, 3, {.padding_idx = 0}), or nn::Embedding(10, 3, 0). Throws Error for sizes below 1, for a
  /// padding_idx that is not a row and for a negative max_norm.
  Embedding(std::int64_t num_embeddings, std::int64_t embedding_dim, const EmbeddingOptions& options = {});
  Embedding(std::int64_t num_embeddings, std::int64_t embedding_dim, std::int64_t padding_idx)
      : Embedding(num_embeddings, embedding_dim, EmbeddingOptions{.padding_idx = padding_idx}) {}
  Embedding(std::int64_t num_embeddings, std::int64_t embedding_dim, detail::NoNumber) = delete;
  Tensor forward(const Tensor& indices) const { return (*this)(indices); }
  Tensor operator()(const Tensor& indices) const;

  Parameter weight;  // (num_embeddings, embedding_dim)

 private:
  EmbeddingOptions options_;
};

}  // namespace adjoint::nn
