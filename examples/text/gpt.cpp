#include "gpt.h"

#include "common/model_file.h"

#include <adjoint/core/base/error.h>
#include <adjoint/nn/init.h>
#include <adjoint/ops/attention/attention.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/join/join.h>
#include <adjoint/ops/matmul/linear.h>
#include <adjoint/ops/view/view.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <string>

namespace text {
namespace {

namespace nn = adjoint::nn;
using adjoint::Tensor;

constexpr const char* kArchitecture = "adjoint text gpt";
constexpr std::int64_t kWiden = 4;      // features between the two linear maps of a block, in widths
constexpr double kEmbeddingStd = 0.02;  // GPT-2's

void check(const GptOptions& o) {
  const auto within = [](const char* name, auto value, auto low, auto high) {
    if (!(value >= low && value <= high))
      throw adjoint::Error(fmt::format("text: {} must be from {} to {}; got {}", name, low, high, value));
  };
  within("layers", o.layers, 1, 256);
  within("heads", o.heads, 1, 256);
  within("width", o.width, 1, 1 << 14);
  within("context", o.context, Gpt::kLeastContext, std::int64_t{1} << 16);
  within("dropout", o.dropout, 0.0, 1.0);
  if (o.width % o.heads != 0)
    throw adjoint::Error(fmt::format("text: width must be a multiple of heads, {}; got {}", o.heads, o.width));
}

}  // namespace

Block::Block(const GptOptions& o)
    : Module("Block"),
      heads_(o.heads),
      dropout_(o.dropout),
      norm1_(register_module("norm1", nn::LayerNorm({o.width}))),
      norm2_(register_module("norm2", nn::LayerNorm({o.width}))),
      qkv_(register_module("qkv", nn::Linear(o.width, 3 * o.width))),
      out_(register_module("out", nn::Linear(o.width, o.width))),
      up_(register_module("up", nn::Linear(o.width, kWiden * o.width))),
      down_(register_module("down", nn::Linear(kWiden * o.width, o.width))),
      drop_(register_module("drop", nn::Dropout({.p = o.dropout}))) {
  // GPT-2's scale of the maps that add to the residual stream: the sum's variance does not grow with the depth.
  const double scale = 1.0 / std::sqrt(2.0 * static_cast<double>(o.layers));
  for (const Tensor& weight : {Tensor(out_.weight), Tensor(down_.weight)}) weight.detach().mul_(scale);
}

Tensor Block::attention(const Tensor& x, KeysAndValues* cache) const {
  const std::int64_t width = x.size(2);
  // (N, L, 3 width) -> three times (N, heads, L, width / heads)
  const Tensor all = adjoint::unflatten(qkv_(x), -1, {3, heads_, width / heads_}).permute({2, 0, 3, 1, 4});
  const Tensor query = all.select(0, 0);
  Tensor keys = all.select(0, 1), values = all.select(0, 2);
  if (cache != nullptr) {
    if (cache->keys.defined()) {
      keys = adjoint::cat({cache->keys, keys}, 2);
      values = adjoint::cat({cache->values, values}, 2);
    }
    *cache = {keys, values};
  }
  // A single query is the last position, which sees every key.
  const Tensor found = adjoint::scaled_dot_product_attention(query, keys, values,
                                                             {.dropout_p = training() ? dropout_ : 0.0,
                                                              .is_causal = keys.size(2) == query.size(2)});
  return out_(found.permute({0, 2, 1, 3}).reshape(x.shape()));
}

Tensor Block::operator()(const Tensor& x, KeysAndValues* cache) const {
  const Tensor y = x + drop_(attention(norm1_(x), cache));
  return y + drop_(down_(adjoint::gelu(up_(norm2_(y)))));
}

Gpt::Gpt(const GptOptions& options) : Module("Gpt"), options_((check(options), options)) {
  nn::init::normal_(embedding_.weight, 0.0, kEmbeddingStd);
  nn::init::normal_(positions_, 0.0, kEmbeddingStd);
  for (std::int64_t i = 0; i < options_.layers; ++i) blocks_.append(Block(options_));
}

Tensor Gpt::operator()(const Tensor& bytes, Cache* cache) const {
  if (cache != nullptr) cache->resize(blocks_.size());
  const bool continues = cache != nullptr && cache->front().keys.defined();
  const std::int64_t from = continues ? cache->front().keys.size(2) : 0, length = bytes.size(1);
  if (from + length > options_.context || (continues && length != 1)) {
    throw adjoint::Error(
        fmt::format("text: at most {} bytes fit the context, and bytes behind a cache come one by one; "
                    "got {} behind {}",
                    options_.context, length, from));
  }
  Tensor x = drop_(embedding_(bytes) + positions_.narrow(0, from, length));
  for (std::size_t i = 0; i < blocks_.size(); ++i) x = blocks_[i](x, cache != nullptr ? &(*cache)[i] : nullptr);
  return adjoint::linear(norm_(x), embedding_.weight);
}

void save_model(const std::filesystem::path& path, const Gpt& model) {
  const GptOptions& o = model.options();
  examples::save_model(
      path, model, kArchitecture,
      {{"layers", o.layers}, {"heads", o.heads}, {"width", o.width}, {"context", o.context}, {"dropout", o.dropout}});
}

Gpt load_model(const std::filesystem::path& path) {
  return examples::load_model("text", path, kArchitecture,
                              [](const nlohmann::json& options, const adjoint::NamedTensors& tensors) {
                                return examples::restored(Gpt({.layers = options.at("layers"),
                                                               .heads = options.at("heads"),
                                                               .width = options.at("width"),
                                                               .context = options.at("context"),
                                                               .dropout = options.at("dropout")}),
                                                          tensors);
                              });
}

}  // namespace text
