#include <adjoint/nn/embedding.h>

#include <adjoint/core/base/check.h>
#include <adjoint/nn/init.h>
#include <adjoint/ops/index/index.h>

namespace adjoint::nn {

Embedding::Embedding(std::int64_t num_embeddings, std::int64_t embedding_dim, const EmbeddingOptions& options)
    : Module("Embedding"), options_(options) {
  ADJOINT_CHECK(num_embeddings >= 1 && embedding_dim >= 1,
                "Embedding: num_embeddings and embedding_dim must be at least 1; got {}, {}", num_embeddings,
                embedding_dim);
  const std::optional<std::int64_t>& padding = options.padding_idx;
  ADJOINT_CHECK(!padding || (*padding >= -num_embeddings && *padding < num_embeddings),
                "Embedding: padding_idx must be one of the {} rows; got {}", num_embeddings, *padding);
  ADJOINT_CHECK(!options.max_norm || *options.max_norm >= 0.0, "Embedding: max_norm must not be negative; got {}",
                *options.max_norm);
  const OpScope scope("Embedding");
  if (padding && *padding < 0) *options_.padding_idx += num_embeddings;
  std::string description = fmt::format("{}, {}", num_embeddings, embedding_dim);
  if (padding) description += fmt::format(", padding_idx={}", *options_.padding_idx);
  if (options.max_norm) description += fmt::format(", max_norm={}", *options.max_norm);
  if (options.norm_type != 2.0) description += fmt::format(", norm_type={}", options.norm_type);
  set_description(description);
  Tensor table = Tensor::empty({num_embeddings, embedding_dim});
  init::normal_(table);
  if (padding) table.select(0, *options_.padding_idx).zero_();
  weight = register_parameter("weight", table);
}

Tensor Embedding::operator()(const Tensor& indices) const {
  return hooked(indices, [&](const Tensor& x) {
    const OpScope scope("Embedding");
    check_not_moved_from("Embedding");
    if (options_.max_norm) {
      Tensor table = weight;
      embedding_renorm_(table, x, *options_.max_norm, options_.norm_type);
    }
    return embedding(x, weight, options_.padding_idx);
  });
}

}  // namespace adjoint::nn
