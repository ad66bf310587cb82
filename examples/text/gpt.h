// A decoder-only transformer over bytes (Radford, Wu, Child, Luan, Amodei, Sutskever: "Language models are unsupervised
// multitask learners", 2019): pre-norm blocks of causal attention and a GELU network, learned positions, and one matrix
// for the bytes' vectors and the scores.
#pragma once

#include <adjoint/nn/activation.h>
#include <adjoint/nn/embedding.h>
#include <adjoint/nn/linear.h>
#include <adjoint/nn/module_list.h>
#include <adjoint/nn/norm.h>

#include <cstdint>
#include <filesystem>
#include <vector>

namespace text {

struct GptOptions {
  std::int64_t layers = 6, heads = 6;
  /// Features of a position, a multiple of `heads`.
  std::int64_t width = 384;
  /// The most bytes that a prediction depends on.
  std::int64_t context = 256;
  double dropout = 0.2;
};

/// A block's keys and values (N, heads, L, width / heads) of the L positions so far; undefined before the first.
struct KeysAndValues {
  adjoint::Tensor keys, values;
};
/// Those of all blocks: calls with a cache continue a text without computing its earlier positions again.
using Cache = std::vector<KeysAndValues>;

class Block : public adjoint::nn::Module {
 public:
  explicit Block(const GptOptions& options);
  /// (N, L, width) -> the same. `cache` is null, or holds the earlier positions and gets those of x; if it holds some,
  /// L must be 1.
  adjoint::Tensor operator()(const adjoint::Tensor& x, KeysAndValues* cache = nullptr) const;

 private:
  adjoint::Tensor attention(const adjoint::Tensor& x, KeysAndValues* cache) const;

  std::int64_t heads_;
  double dropout_;
  adjoint::nn::Child<adjoint::nn::LayerNorm> norm1_, norm2_;
  adjoint::nn::Child<adjoint::nn::Linear> qkv_, out_, up_, down_;
  adjoint::nn::Child<adjoint::nn::Dropout> drop_;
};

class Gpt : public adjoint::nn::Module {
 public:
  static constexpr std::int64_t kBytes = 256;
  static constexpr std::int64_t kLeastContext = 2;  // half of it holds a byte

  /// Throws Error for options out of range.
  explicit Gpt(const GptOptions& options);
  /// Bytes (N, L), int64 -> scores (N, L, 256) of each position's next byte. Without a cache, L is at most `context`.
  /// With one, bytes continue those of the calls before: the first call takes any L, later ones 1, and all together
  /// must fit the context. Throws Error for more bytes.
  adjoint::Tensor operator()(const adjoint::Tensor& bytes, Cache* cache = nullptr) const;

  const GptOptions& options() const { return options_; }

 private:
  GptOptions options_;
  adjoint::nn::Child<adjoint::nn::Embedding> embedding_ =
      register_module("embedding", adjoint::nn::Embedding(kBytes, options_.width));
  adjoint::nn::Parameter positions_ =
      register_parameter("positions", adjoint::Tensor::empty({options_.context, options_.width}));
  adjoint::nn::Child<adjoint::nn::Dropout> drop_ =
      register_module("drop", adjoint::nn::Dropout({.p = options_.dropout}));
  adjoint::nn::Child<adjoint::nn::ModuleList<Block>> blocks_ =
      register_module("blocks", adjoint::nn::ModuleList<Block>());
  adjoint::nn::Child<adjoint::nn::LayerNorm> norm_ = register_module("norm", adjoint::nn::LayerNorm({options_.width}));
};

/// Writes the parameters and, as metadata, the options.
void save_model(const std::filesystem::path& path, const Gpt& model);
/// In eval mode. Throws Error, naming the file, for one that is not such a model.
Gpt load_model(const std::filesystem::path& path);

}  // namespace text
