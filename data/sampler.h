// Samplers: which examples of a dataset an epoch has, and in which order.
//
//   DistributedSampler sampler(dataset.size(), distributed::rank(), distributed::world_size());
//   DataLoader loader(dataset, {.batch_size = 16, .sampler = &sampler});
#pragma once

#include <adjoint/core/export.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace adjoint::data {

/// Gives each epoch an order. One's own: size() and order().
class ADJOINT_API Sampler {
 public:
  Sampler() = default;
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;
  virtual ~Sampler();

  /// Examples an epoch.
  virtual std::int64_t size() const = 0;
  /// Their numbers, size() of them. `seed` is the loader's. The same arguments give the same order, or a training does
  /// not go on where it was.
  virtual std::vector<std::int64_t> order(std::uint64_t seed, std::int64_t epoch) const = 0;
};

/// 0, 1, ..., size - 1.
class ADJOINT_API SequentialSampler final : public Sampler {
 public:
  /// Throws Error for a negative size.
  explicit SequentialSampler(std::int64_t size);
  std::int64_t size() const override { return size_; }
  std::vector<std::int64_t> order(std::uint64_t seed, std::int64_t epoch) const override;

 private:
  std::int64_t size_;
};

struct RandomSamplerOptions {
  /// Every place is drawn from all examples, so that some come several times and some not at all.
  bool replacement = false;
  /// Places an epoch; as many as there are examples where nothing is said. Without replacement, further examples are
  /// those of another permutation.
  std::optional<std::int64_t> num_samples = {};
};

/// A new permutation every epoch: what a loader's .shuffle asks for.
class ADJOINT_API RandomSampler final : public Sampler {
 public:
  /// Throws Error for a negative size or number of samples, and for samples of nothing.
  explicit RandomSampler(std::int64_t size, const RandomSamplerOptions& options = {});
  std::int64_t size() const override { return options_.num_samples.value_or(size_); }
  std::vector<std::int64_t> order(std::uint64_t seed, std::int64_t epoch) const override;

 private:
  std::int64_t size_;
  RandomSamplerOptions options_;
};

/// Example i with a probability in proportion to weights[i]; weights need not sum to 1. Without replacement each next
/// one is drawn from those that are left (Efraimidis and Spirakis, Weighted random sampling with a reservoir, 2006).
class ADJOINT_API WeightedRandomSampler final : public Sampler {
 public:
  /// Throws Error for a weight that is negative or not finite, a negative number of samples, and for more samples than
  /// there are: weights above 0 without replacement, none at all where every weight is 0.
  WeightedRandomSampler(std::vector<double> weights, std::int64_t num_samples, bool replacement = true);
  std::int64_t size() const override { return num_samples_; }
  std::vector<std::int64_t> order(std::uint64_t seed, std::int64_t epoch) const override;

 private:
  std::vector<double> weights_;
  std::int64_t num_samples_;
  bool replacement_;
};

struct DistributedSamplerOptions {
  bool shuffle = true;
  /// Fixes the order, which must be the same on every rank; the loaders' own seeds do not matter to it.
  std::uint64_t seed = 0;
  /// Leave out what does not make a whole round of all ranks. Else the first examples of the order come once more, at
  /// its end, so that every rank has as many.
  bool drop_last = false;
};

/// Every world-th example of one order, from the rank-th on: the ranks share an epoch out, each with as many examples
/// as any other. PyTorch's rules.
class ADJOINT_API DistributedSampler final : public Sampler {
 public:
  /// Of `size` examples. Throws Error for a negative size, a world that is not positive, and a rank outside it.
  DistributedSampler(std::int64_t size, std::int64_t rank, std::int64_t world,
                     const DistributedSamplerOptions& options = {});
  std::int64_t size() const override;
  std::vector<std::int64_t> order(std::uint64_t seed, std::int64_t epoch) const override;

  /// The epoch whose order is given from now on, as PyTorch's programs say before each; the loader, which counts epochs
  /// itself, needs it not. Throws Error for a negative one.
  void set_epoch(std::int64_t epoch);

 private:
  std::int64_t size_, rank_, world_;
  DistributedSamplerOptions options_;
  std::optional<std::int64_t> epoch_;
};

}  // namespace adjoint::data
