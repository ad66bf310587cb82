#include "codebook.h"

#include <adjoint/core/autograd/autocast.h>
#include <adjoint/core/autograd/tape.h>
#include <adjoint/ops/distributed/collectives.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/index/index.h>
#include <adjoint/ops/matmul/matmul.h>
#include <adjoint/ops/reduce/reduce.h>

namespace autoencoder {
namespace {

namespace distributed = adjoint::distributed;
using adjoint::Tensor;

constexpr double kDecay = 0.99;
// Both are fractions of an equal share of the batch. A code that gets less than the first is restarted. It then counts
// as having the second, so that it has some hundred steps to prove useful.
constexpr double kLeast = 1.0 / 16.0, kFresh = 1.0 / 4.0;

/// (N, width, H, W) -> (N H W, width), float32.
Tensor rows(const Tensor& vectors) {
  return vectors.to(adjoint::kFloat32).permute({0, 2, 3, 1}).reshape({-1, vectors.size(1)});
}

}  // namespace

// Counts of 0 make every code begin at a vector of the first batch.
Codebook::Codebook(std::int64_t codes, std::int64_t width) : Module("Codebook"), codes_(codes), width_(width) {}

Tensor Codebook::nearest(const Tensor& vectors) const {
  const adjoint::PauseTape pause;
  const adjoint::AutocastGuard full(adjoint::kBFloat16, {.enabled = false});
  const Tensor table = codebook_;
  // |v - c|^2 without |v|^2, which is the same for all codes.
  const Tensor far = adjoint::square(table).sum({1}) - 2.0 * adjoint::matmul(rows(vectors), table.transpose(0, 1));
  return adjoint::argmin(far, 1).reshape({vectors.size(0), vectors.size(2), vectors.size(3)});
}

Tensor Codebook::vectors(const Tensor& codes) const {
  const adjoint::PauseTape pause;
  return adjoint::embedding(codes, codebook_).permute({0, 3, 1, 2}).contiguous();
}

void Codebook::update(const Tensor& vectors, const Tensor& codes, const Tensor& chances) const {
  const adjoint::PauseTape pause;
  const adjoint::AutocastGuard full(adjoint::kBFloat16, {.enabled = false});
  const Tensor all = rows(vectors);
  const Tensor which = adjoint::one_hot(codes.reshape({-1}), codes_).to(adjoint::kFloat32);
  Tensor batch_counts = which.sum({0}), batch_sums = adjoint::matmul(which.transpose(0, 1), all);
  distributed::all_reduce_(batch_counts);
  distributed::all_reduce_(batch_sums);
  Tensor counts = counts_, sums = sums_, table = codebook_;
  counts.mul_(kDecay).add_(batch_counts, 1.0 - kDecay);
  sums.mul_(kDecay).add_(batch_sums, 1.0 - kDecay);

  const double even = static_cast<double>(all.size(0) * distributed::world_size()) / static_cast<double>(codes_);
  const Tensor dead = counts < kLeast * even;
  const auto last = static_cast<double>(all.size(0) - 1);
  const Tensor place = adjoint::clamp(adjoint::floor(chances * static_cast<double>(all.size(0))), 0.0, last);
  Tensor fresh = adjoint::index_select(all, 0, place.to(adjoint::kInt64));
  distributed::broadcast_(fresh);
  const Tensor of_code = dead.unsqueeze(1);
  sums.copy_(adjoint::where(of_code, fresh * (kFresh * even), sums));
  counts.copy_(adjoint::where(dead, kFresh * even, counts));
  table.copy_(sums / counts.unsqueeze(1));
}

}  // namespace autoencoder
