#include <adjoint/data/sampler.h>
#include <adjoint/tests/data/numbers.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

namespace adjoint::data {
namespace {

using Order = std::vector<std::int64_t>;

Order sorted(Order order) {
  std::sort(order.begin(), order.end());
  return order;
}

Order counted(std::int64_t size) {
  Order order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

TEST(Samplers, SequentialCounts) {
  EXPECT_EQ(SequentialSampler(4).order(1, 2), (Order{0, 1, 2, 3}));
  EXPECT_EQ(SequentialSampler(0).order(0, 0), Order{});
}

TEST(Samplers, CountBelowTwoToTheForty) {
  const std::int64_t most = (std::int64_t{1} << 40) - 1;
  EXPECT_EQ(SequentialSampler(most).size(), most);
  EXPECT_EQ(message_of([&] { SequentialSampler(most + 1).size(); }).substr(0, 19), "SequentialSampler: ");
}

TEST(Samplers, RandomPermutesBySeedAndEpoch) {
  const RandomSampler sampler(50);
  EXPECT_EQ(sampler.size(), 50);
  std::set<Order> orders;
  for (const std::uint64_t seed : {0, 1}) {
    for (const std::int64_t epoch : {0, 1, 2}) {
      const Order order = sampler.order(seed, epoch);
      EXPECT_EQ(sorted(order), counted(50));
      EXPECT_EQ(sampler.order(seed, epoch), order);
      orders.insert(order);
    }
  }
  EXPECT_EQ(orders.size(), 6U);
  EXPECT_EQ(RandomSampler(0).order(0, 0), Order{});
}

TEST(Samplers, RandomWithFewerOrMoreSamplesThanExamples) {
  EXPECT_EQ(RandomSampler(50, {.num_samples = 7}).order(0, 0).size(), 7U);
  const Order fewer = RandomSampler(50, {.num_samples = 7}).order(3, 0), whole = RandomSampler(50).order(3, 0);
  EXPECT_TRUE(std::equal(fewer.begin(), fewer.end(), whole.begin()));
  const Order more = RandomSampler(5, {.num_samples = 13}).order(3, 0);
  ASSERT_EQ(more.size(), 13U);
  EXPECT_EQ(sorted({more.begin(), more.begin() + 5}), counted(5));
  EXPECT_EQ(sorted({more.begin() + 5, more.begin() + 10}), counted(5));
  EXPECT_EQ(std::set<std::int64_t>(more.begin() + 10, more.end()).size(), 3U);
  EXPECT_EQ(RandomSampler(5, {.num_samples = 0}).order(3, 0), Order{});
}

TEST(Samplers, RandomWithReplacementDrawsEvenly) {
  const Order order = RandomSampler(4, {.replacement = true, .num_samples = 40000}).order(1, 0);
  std::map<std::int64_t, int> counts;
  for (const std::int64_t number : order) ++counts[number];
  ASSERT_EQ(counts.size(), 4U);
  const double deviation = std::sqrt(40000 * 0.25 * 0.75);
  for (const auto& [number, count] : counts) EXPECT_NEAR(count, 10000, 5 * deviation) << number;
}

TEST(Samplers, WeightedDrawsByWeight) {
  const WeightedRandomSampler sampler({0, 1, 0, 3, 0}, 40000);
  const Order order = sampler.order(5, 2);
  EXPECT_EQ(order, sampler.order(5, 2));
  EXPECT_NE(order, sampler.order(5, 3));
  const auto threes = std::count(order.begin(), order.end(), 3);
  EXPECT_EQ(std::count(order.begin(), order.end(), 1) + threes, 40000);
  EXPECT_NEAR(static_cast<double>(threes), 30000, 5 * std::sqrt(40000 * 0.25 * 0.75));
}

TEST(Samplers, WeightedWithoutReplacementTakesFromWhatIsLeft) {
  const WeightedRandomSampler sampler({1, 0, 2, 5}, 3, false);
  int first_is_heavy = 0, then_two = 0;
  constexpr int kEpochs = 20000;
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    const Order order = sampler.order(0, epoch);
    EXPECT_EQ(sorted(order), (Order{0, 2, 3}));
    if (order[0] == 3) {
      ++first_is_heavy;
      if (order[1] == 2) ++then_two;
    }
  }
  EXPECT_NEAR(first_is_heavy, kEpochs * 5.0 / 8, 5 * std::sqrt(kEpochs * 5.0 / 8 * 3 / 8));
  const double left = first_is_heavy;
  EXPECT_NEAR(then_two, left * 2 / 3, 5 * std::sqrt(left * 2 / 3 / 3));
}

// torch.utils.data.DistributedSampler(range(n), world, rank, shuffle=False)
TEST(Samplers, DistributedFollowsPyTorch) {
  const auto orders = [](std::int64_t size, std::int64_t world, bool drop_last) {
    std::vector<Order> all;
    for (std::int64_t rank = 0; rank < world; ++rank) {
      const DistributedSampler sampler(size, rank, world, {.shuffle = false, .drop_last = drop_last});
      all.push_back(sampler.order(99, 7));
      EXPECT_EQ(static_cast<std::int64_t>(all.back().size()), sampler.size());
    }
    return all;
  };
  EXPECT_EQ(orders(10, 4, false), (std::vector<Order>{{0, 4, 8}, {1, 5, 9}, {2, 6, 0}, {3, 7, 1}}));
  EXPECT_EQ(orders(10, 4, true), (std::vector<Order>{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(orders(3, 8, false), (std::vector<Order>{{0}, {1}, {2}, {0}, {1}, {2}, {0}, {1}}));
  EXPECT_EQ(orders(3, 8, true), std::vector<Order>(8));
  EXPECT_EQ(orders(0, 2, false), std::vector<Order>(2));
}

TEST(Samplers, RanksShareAnEpochOut) {
  for (std::int64_t world = 1; world <= 8; ++world) {
    Order sizes = counted(51);
    sizes.insert(sizes.end(), {997, 1024});
    for (const std::int64_t size : sizes) {
      const NumberedExamples dataset(size);
      for (const bool drop_last : {false, true}) {
        Order all;
        std::int64_t each = -1;
        for (std::int64_t rank = 0; rank < world; ++rank) {
          const DistributedSampler sampler(size, rank, world, {.seed = 3, .drop_last = drop_last});
          // The loaders' own seeds differ, as a program's that draws other random numbers on each rank.
          DataLoader loader(
              dataset, {.batch_size = 4, .sampler = &sampler, .workers = 0, .seed = static_cast<std::uint64_t>(rank)});
          loader.load_state({.epoch = size % 3, .batch = 0});
          const Order own = numbers_in(rest_of_epoch(loader));
          if (rank == 0) each = static_cast<std::int64_t>(own.size());
          EXPECT_EQ(static_cast<std::int64_t>(own.size()), each);
          EXPECT_EQ(loader.size(), (each + 3) / 4);
          EXPECT_EQ(loader.state(), (DataLoaderState{size % 3 + 1, 0}));
          all.insert(all.end(), own.begin(), own.end());
        }
        // One order for all ranks: each of its examples once, and the first ones once more, or less the last ones.
        const Order order = DistributedSampler(size, 0, 1, {.seed = 3}).order(0, size % 3);
        EXPECT_EQ(sorted(order), counted(size));
        Order expected;
        for (std::int64_t place = 0; place < each * world; ++place)
          expected.push_back(order[static_cast<std::size_t>(place % size)]);
        EXPECT_EQ(each, drop_last ? size / world : (size + world - 1) / world) << size << " on " << world;
        EXPECT_EQ(sorted(all), sorted(expected)) << size << " on " << world;
      }
    }
  }
}

TEST(Samplers, DistributedShufflesByItsSeedAndEpoch) {
  const auto order = [](std::uint64_t seed, std::int64_t epoch, std::uint64_t loader_seed) {
    return DistributedSampler(40, 1, 2, {.seed = seed}).order(loader_seed, epoch);
  };
  EXPECT_EQ(order(1, 2, 3), order(1, 2, 4));
  EXPECT_NE(order(1, 2, 3), order(2, 2, 3));
  EXPECT_NE(order(1, 2, 3), order(1, 3, 3));
  DistributedSampler sampler(40, 1, 2, {.seed = 1});
  sampler.set_epoch(3);
  EXPECT_EQ(sampler.order(0, 0), order(1, 3, 0));
  // As PyTorch's programs do; the loader counts the same.
  const NumberedExamples dataset(40);
  DistributedSampler told(40, 1, 2);
  const DistributedSampler counted(40, 1, 2);
  DataLoader first(dataset, {.batch_size = 3, .sampler = &told}),
      second(dataset, {.batch_size = 3, .sampler = &counted});
  for (int epoch = 0; epoch < 3; ++epoch) {
    told.set_epoch(epoch);
    EXPECT_EQ(rest_of_epoch(first), rest_of_epoch(second));
  }
}

TEST(Samplers, WorkersChangeNothingAndALoaderGoesOnFromAnyBatch) {
  const NumberedExamples dataset(30);
  const RandomSampler random(30, {.replacement = true, .num_samples = 21});
  const WeightedRandomSampler weighted({1, 2, 3, 4, 5}, 21);
  const DistributedSampler distributed(30, 1, 4);
  for (const Sampler* sampler : std::initializer_list<const Sampler*>{&random, &weighted, &distributed}) {
    DataLoader reference(dataset, {.batch_size = 4, .sampler = sampler, .workers = 0, .seed = 6});
    EXPECT_EQ(reference.size(), (sampler->size() + 3) / 4);
    rest_of_epoch(reference);
    const Batches second = rest_of_epoch(reference);
    for (const int workers : {0, 1, 3}) {
      for (std::int64_t batch = 0; batch <= reference.size(); ++batch) {
        DataLoader loader(dataset, {.batch_size = 4, .sampler = sampler, .workers = workers, .seed = 6});
        loader.load_state({.epoch = 1, .batch = batch});
        EXPECT_EQ(rest_of_epoch(loader), Batches(second.begin() + batch, second.end()));
      }
    }
  }
}

TEST(Samplers, AnExampleThatComesTwiceIsChangedInTwoWays) {
  const NumberedExamples dataset(1);
  const RandomSampler sampler(1, {.replacement = true, .num_samples = 5});
  DataLoader loader(dataset, {.batch_size = 5, .sampler = &sampler});
  const Batches batches = rest_of_epoch(loader);
  ASSERT_EQ(batches.size(), 1U);
  std::set<float> random;
  for (std::size_t i = 1; i < 10; i += 2) random.insert(batches[0][i]);
  EXPECT_EQ(random.size(), 5U);
}

/// Says one thing and does another.
class Liar final : public Sampler {
 public:
  Liar(std::int64_t size, Order order) : size_(size), order_(std::move(order)) {}
  std::int64_t size() const override { return size_; }
  Order order(std::uint64_t, std::int64_t) const override { return order_; }

 private:
  std::int64_t size_;
  Order order_;
};

TEST(Samplers, ErrorsNameTheRule) {
  EXPECT_EQ(message_of([] { SequentialSampler(-1); }), "SequentialSampler: size must be from 0 to 2^40 - 1; got -1");
  EXPECT_EQ(message_of([] { RandomSampler(-1); }), "RandomSampler: size must be from 0 to 2^40 - 1; got -1");
  EXPECT_EQ(message_of([] { RandomSampler(3, {.num_samples = -2}); }),
            "RandomSampler: num_samples must be from 0 to 2^40 - 1; got -2");
  EXPECT_EQ(message_of([] { RandomSampler(0, {.num_samples = 2}); }),
            "RandomSampler: num_samples must be 0 of no examples; got 2");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(message_of([&] {
              WeightedRandomSampler({1, nan}, 2);
            }),
            "WeightedRandomSampler: weights must be finite and not negative; got nan as weight 1");
  EXPECT_EQ(message_of([] { WeightedRandomSampler({-0.5}, 2); }),
            "WeightedRandomSampler: weights must be finite and not negative; got -0.5 as weight 0");
  EXPECT_EQ(message_of([] {
              WeightedRandomSampler({1e308, 1e308}, 2);
            }),
            "WeightedRandomSampler: the sum of the weights must be finite; got inf");
  EXPECT_EQ(message_of([] {
              WeightedRandomSampler({1, 0, 1}, 3, false);
            }),
            "WeightedRandomSampler: num_samples must be at most 2 for 2 weights above 0 without replacement; got 3");
  EXPECT_EQ(message_of([] {
              WeightedRandomSampler({0, 0}, 1);
            }),
            "WeightedRandomSampler: num_samples must be at most 0 for 0 weights above 0; got 1");
  EXPECT_EQ(message_of([] { WeightedRandomSampler({1}, -1); }),
            "WeightedRandomSampler: num_samples must be from 0 to 2^40 - 1; got -1");
  EXPECT_EQ(message_of([] { DistributedSampler(3, 2, 2); }), "DistributedSampler: rank must be from 0 to 1; got 2");
  EXPECT_EQ(message_of([] { DistributedSampler(3, -1, 2); }), "DistributedSampler: rank must be from 0 to 1; got -1");
  EXPECT_EQ(message_of([] { DistributedSampler(3, 0, 0); }), "DistributedSampler: world must be positive; got 0");
  EXPECT_EQ(message_of([] { DistributedSampler(3, 0, 1).set_epoch(-1); }),
            "DistributedSampler: the epoch must not be negative; got -1");

  const NumberedExamples dataset(3);
  const SequentialSampler fits(3), larger(4);
  EXPECT_EQ(message_of([&] { DataLoader(dataset, {.shuffle = true, .sampler = &fits}); }),
            "DataLoader: shuffle must be false with a sampler, which says the order; got both");
  DataLoader loader(dataset, {.sampler = &larger});
  EXPECT_EQ(message_of([&] { loader.next(); }), "DataLoader: the sampler must give numbers from 0 to 2; got 3");
  const Liar fewer(3, {0, 1}), negative(1, {-1}), no_size(-1, {});
  DataLoader lied(dataset, {.sampler = &fewer}), below(dataset, {.sampler = &negative});
  EXPECT_EQ(message_of([&] { lied.next(); }), "DataLoader: the sampler must give size() = 3 numbers; got 2");
  EXPECT_EQ(message_of([&] { below.next(); }), "DataLoader: the sampler must give numbers from 0 to 2; got -1");
  EXPECT_EQ(message_of([&] { DataLoader(dataset, {.sampler = &no_size}); }),
            "DataLoader: the sampler's size must be from 0 to 2^40 - 1; got -1");
}

}  // namespace
}  // namespace adjoint::data
