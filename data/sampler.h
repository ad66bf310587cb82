// Samplers: the examples of a dataset that an epoch uses, and their order.
//
//   DistributedSampler sampler(dataset.size(), distributed::rank(), distributed::world_size());
//   DataLoader loader(dataset, {.batch_size = 16, .sampler = &sampler});
#pragma once

#include <adjoint/core/base/export.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace adjoint::data {

/// Gives each epoch an order. A program's own sampler overrides size() and order().
class ADJOINT_API Sampler {
 public:
  Sampler() = default;
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;
  virtual ~Sampler();

  /// Examples per epoch.
  virtual std::int64_t size() const = 0;
  /// The examples' numbers; size() is their count. `seed` is the loader's. The same arguments must give the same order,
  /// or a training does not resume correctly.
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
  /// Draws every place from all examples, so that some repeat and some are missing.
  bool replacement = false;
  /// Places per epoch; by default the number of examples. Without replacement, further examples come from another
  /// permutation.
  std::optional<std::int64_t> num_samples = {};
};

/// A new permutation every epoch, as with a loader's .shuffle.
class ADJOINT_API RandomSampler final : public Sampler {
 public:
  /// Throws Error for a negative size or number of samples, and for samples from zero examples.
  explicit RandomSampler(std::int64_t size, const RandomSamplerOptions& options = {});
  std::int64_t size() const override { return options_.num_samples.value_or(size_); }
  std::vector<std::int64_t> order(std::uint64_t seed, std::int64_t epoch) const override;

 private:
  std::int64_t size_;
  RandomSamplerOptions options_;
};

/// Example i with a probability proportional to weights[i]; weights need not sum to 1. Without replacement each is
/// drawn from the remaining ones (Efraimidis and Spirakis, Weighted random sampling with a reservoir, 2006).
class ADJOINT_API WeightedRandomSampler final : public Sampler {
 public:
  /// Throws Error for a weight that is negative or not finite, a negative number of samples, and for too many samples:
  /// more than there are weights above 0 without replacement, or any if every weight is 0.
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
  /// Determines the order, and must be the same on every rank; the loaders' own seeds do not affect it.
  std::uint64_t seed = 0;
  /// Drop the examples that do not fill a whole round of all ranks. Otherwise the first examples of the order repeat at
  /// its end, so that every rank has as many.
  bool drop_last = false;
};

/// Every world-th example of one order, starting at the rank-th: the ranks divide an epoch evenly. PyTorch's rules.
class ADJOINT_API DistributedSampler final : public Sampler {
 public:
  /// The order of `size` examples. Throws Error for a negative size, a world that is not positive, and a rank outside
  /// it.
  DistributedSampler(std::int64_t size, std::int64_t rank, std::int64_t world,
                     const DistributedSamplerOptions& options = {});
  std::int64_t size() const override;
  std::vector<std::int64_t> order(std::uint64_t seed, std::int64_t epoch) const override;

  /// Sets the epoch whose order is used from now on, as PyTorch's programs do before each epoch; the loader counts
  /// epochs itself and does not need it. Throws Error for a negative epoch.
  void set_epoch(std::int64_t epoch);

 private:
  std::int64_t size_, rank_, world_;
  DistributedSamplerOptions options_;
  std::optional<std::int64_t> epoch_;
};

}  // namespace adjoint::data
