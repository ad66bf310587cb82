#include <adjoint/data/sampler.h>

#include <adjoint/core/base/check.h>
#include <adjoint/data/seeds.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace adjoint::data {
namespace {

using Order = std::vector<std::int64_t>;

void check_size(const char* sampler, const char* what, std::int64_t size) {
  ADJOINT_CHECK(size >= 0 && size < kMaxNumber, "{}: {} must be from 0 to 2^{} - 1; got {}", sampler, what, kNumberBits,
                size);
}

Order numbers(std::int64_t size) {
  Order order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  return order;
}

Order permutation(std::int64_t size, Generator& generator) {
  Order order = numbers(size);
  for (std::size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[generator.below(i)]);  // Fisher and Yates
  return order;
}

}  // namespace

Sampler::~Sampler() = default;

SequentialSampler::SequentialSampler(std::int64_t size) : size_(size) { check_size("SequentialSampler", "size", size); }

Order SequentialSampler::order(std::uint64_t, std::int64_t) const { return numbers(size_); }

RandomSampler::RandomSampler(std::int64_t size, const RandomSamplerOptions& options) : size_(size), options_(options) {
  check_size("RandomSampler", "size", size);
  check_size("RandomSampler", "num_samples", this->size());
  ADJOINT_CHECK(size > 0 || this->size() == 0, "RandomSampler: num_samples must be 0 of no examples; got {}",
                this->size());
}

Order RandomSampler::order(std::uint64_t seed, std::int64_t epoch) const {
  Generator generator = generator_for(seed, 0, epoch);
  const auto count = static_cast<std::size_t>(size());
  Order order;
  if (options_.replacement) {
    order.resize(count);
    for (std::int64_t& number : order) {
      number = static_cast<std::int64_t>(generator.below(static_cast<std::uint64_t>(size_)));
    }
  }
  while (order.size() < count) {
    const Order more = permutation(size_, generator);
    const std::size_t taken = std::min(more.size(), count - order.size());
    order.insert(order.end(), more.begin(), more.begin() + static_cast<std::ptrdiff_t>(taken));
  }
  return order;
}

WeightedRandomSampler::WeightedRandomSampler(std::vector<double> weights, std::int64_t num_samples, bool replacement)
    : weights_(std::move(weights)), num_samples_(num_samples), replacement_(replacement) {
  check_size("WeightedRandomSampler", "num_samples", num_samples);
  std::int64_t positive = 0;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    ADJOINT_CHECK(std::isfinite(weights_[i]) && weights_[i] >= 0.0,
                  "WeightedRandomSampler: weights must be finite and not negative; got {} as weight {}", weights_[i],
                  i);
    if (weights_[i] > 0.0) ++positive;
  }
  const double sum = std::accumulate(weights_.begin(), weights_.end(), 0.0);
  ADJOINT_CHECK(std::isfinite(sum), "WeightedRandomSampler: the sum of the weights must be finite; got {}", sum);
  const std::int64_t most = positive == 0 ? 0 : replacement ? kMaxNumber : positive;
  ADJOINT_CHECK(num_samples <= most,
                "WeightedRandomSampler: num_samples must be at most {} for {} weights above 0{}; got {}", most,
                positive, replacement ? "" : " without replacement", num_samples);
}

Order WeightedRandomSampler::order(std::uint64_t seed, std::int64_t epoch) const {
  Generator generator = generator_for(seed, 0, epoch);
  Order order(static_cast<std::size_t>(num_samples_));
  if (order.empty()) return order;
  if (replacement_) {
    std::vector<double> sums(weights_.size());
    std::partial_sum(weights_.begin(), weights_.end(), sums.begin());
    // The last example with a positive weight, which rounding of the product could otherwise skip.
    const auto last = std::lower_bound(sums.begin(), sums.end(), sums.back());
    for (std::int64_t& number : order) {
      number = std::upper_bound(sums.begin(), last, generator.uniform() * sums.back()) - sums.begin();
    }
    return order;
  }
  // The time of a first event at rate w is -log(u) / w; examples are ordered by their times.
  std::vector<std::pair<double, std::int64_t>> times;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const double time = -std::log1p(-generator.uniform()) / weights_[i];
    if (weights_[i] > 0.0) times.emplace_back(time, static_cast<std::int64_t>(i));
  }
  std::partial_sort(times.begin(), times.begin() + num_samples_, times.end());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = times[i].second;
  return order;
}

DistributedSampler::DistributedSampler(std::int64_t size, std::int64_t rank, std::int64_t world,
                                       const DistributedSamplerOptions& options)
    : size_(size), rank_(rank), world_(world), options_(options) {
  check_size("DistributedSampler", "size", size);
  ADJOINT_CHECK(world >= 1 && world < kMaxNumber, "DistributedSampler: world must be positive; got {}", world);
  ADJOINT_CHECK(rank >= 0 && rank < world, "DistributedSampler: rank must be from 0 to {}; got {}", world - 1, rank);
}

std::int64_t DistributedSampler::size() const {
  return options_.drop_last ? size_ / world_ : (size_ + world_ - 1) / world_;
}

Order DistributedSampler::order(std::uint64_t, std::int64_t epoch) const {
  const RandomSampler shuffled(size_);
  const Order all = options_.shuffle ? shuffled.order(options_.seed, epoch_.value_or(epoch)) : numbers(size_);
  Order order;
  for (std::int64_t i = 0; i < size(); ++i)
    order.push_back(all[static_cast<std::size_t>((rank_ + i * world_) % size_)]);
  return order;
}

void DistributedSampler::set_epoch(std::int64_t epoch) {
  ADJOINT_CHECK(epoch >= 0, "DistributedSampler: the epoch must not be negative; got {}", epoch);
  epoch_ = epoch;
}

}  // namespace adjoint::data
