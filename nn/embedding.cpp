#include <adjoint/nn/embedding.h>

#include <adjoint/core/check.h>
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
  const OpScope scope("Embedding");
  if (padding && *padding < 0) *options_.padding_idx += num_embeddings;
  set_description(fmt::format("{}, {}{}", num_embeddings, embedding_dim,
                              padding ? fmt::format(", padding_idx={}", *options_.padding_idx) : ""));
  Tensor table = Tensor::empty({num_embeddings, embedding_dim});
  init::normal_(table);
  if (padding) table.select(0, *options_.padding_idx).zero_();
  weight = register_parameter("weight", table);
}

Tensor Embedding::operator()(const Tensor& indices) const {
  return hooked(indices, [&](const Tensor& x) {
    const OpScope scope("Embedding");
    check_not_moved_from("Embedding");
    return embedding(x, weight, options_.padding_idx);
  });
}

}  // namespace adjoint::nn
