#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/tensor/philox.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <limits>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace adjoint {
namespace {

// Known answers of the reference implementation (Random123, kat_vectors): philox4x32-10.
TEST(Philox, MatchesTheReferenceImplementation) {
  const philox::Block zeros = philox::generate(0, 0);
  EXPECT_EQ(zeros.word[0], 0x6627e8d5U);
  EXPECT_EQ(zeros.word[1], 0xe169c58dU);
  EXPECT_EQ(zeros.word[2], 0xbc57ac4cU);
  EXPECT_EQ(zeros.word[3], 0x9b00dbd8U);
}

TEST(Random, TheSeedFixesEveryBit) {
  manual_seed(7);
  const auto first = Tensor::rand({1001}).to_vector<float>();
  const auto normal = Tensor::randn({3, 5}).to_vector<float>();
  manual_seed(7);
  EXPECT_EQ(Tensor::rand({1001}).to_vector<float>(), first);
  EXPECT_EQ(Tensor::randn({3, 5}).to_vector<float>(), normal);
  manual_seed(8);
  EXPECT_NE(Tensor::rand({1001}).to_vector<float>(), first);
}

TEST(Random, NumbersDoNotDependOnTheDtype) {
  manual_seed(3);
  const auto wide = Tensor::rand({100}, {.dtype = kFloat64}).to_vector<double>();
  manual_seed(3);
  const auto narrow = Tensor::rand({100}).to_vector<float>();
  for (std::size_t i = 0; i < wide.size(); ++i) EXPECT_NEAR(wide[i], narrow[i], 0x1p-24);
}

TEST(Random, UniformStaysBelowItsEndInEveryDtype) {
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
    const auto values = Tensor::rand({200000}, {.dtype = dtype}).to_vector<double>();
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    EXPECT_GE(*low, 0.0);
    EXPECT_LT(*high, 1.0);
    double mean = 0.0;
    for (const double value : values) mean += value / static_cast<double>(values.size());
    EXPECT_NEAR(mean, 0.5, dtype == kBFloat16 ? 0.005 : 0.003);
  }
}

struct Range {
  double low, high;
};
struct Moments {
  double mean, deviation;
};

// The bits of a block that give the smallest and the largest u.
constexpr philox::Block kFirst{{0, 0, 0, 0}}, kLast{{~0U, ~0U, ~0U, ~0U}};

TEST(Random, UniformIsHalfOpenForEveryRange) {
  const std::vector<Range> ranges{{50, 51},   {-51, -50},   {1000, 1024}, {-1, 0},     {0, 0x1p-20},
                                  {0.1, 0.3}, {-0.3, -0.1}, {0.7, 0.9},   {1, 1.0625}, {-1, 3}};
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
    for (const Range& range : ranges) {
      Tensor tensor = Tensor::empty({4001}, {.dtype = dtype});
      tensor.uniform_(range.low, range.high);
      const auto values = tensor.to_vector<double>();
      const auto [least, most] = std::minmax_element(values.begin(), values.end());
      EXPECT_GE(*least, range.low) << to_string(dtype) << " " << range.low << " " << range.high;
      EXPECT_LT(*most, range.high) << to_string(dtype) << " " << range.low << " " << range.high;
      EXPECT_LT(*least, *most);
      visit_floating(dtype, [&]<class T>() {
        const philox::Uniform<T> uniform(range.low, range.high);
        for (const philox::Block& block : {kFirst, kLast}) {
          for (const int i : {0, 1}) {
            EXPECT_GE(static_cast<double>(uniform(block, i)), range.low);
            EXPECT_LT(static_cast<double>(uniform(block, i)), range.high)
                << to_string(dtype) << " " << range.low << " " << range.high;
          }
        }
      });
    }
  }
}

TEST(Random, UniformTakesEveryNumberOfACoarseRange) {
  Tensor tensor = Tensor::empty({4000}, {.dtype = kBFloat16});
  const auto numbers = [&](double low, double high) {
    tensor.uniform_(low, high);
    const auto values = tensor.to_vector<double>();
    return std::set<double>(values.begin(), values.end());
  };
  EXPECT_EQ(numbers(50, 51), (std::set<double>{50, 50.25, 50.5, 50.75}));
  EXPECT_EQ(numbers(-51, -50), (std::set<double>{-51, -50.75, -50.5, -50.25}));
  EXPECT_EQ(numbers(50.1, 50.8), (std::set<double>{50.25, 50.5, 50.75}));
  EXPECT_EQ(numbers(50.1, 50.2), (std::set<double>{50}));  // no number of the dtype is inside
  EXPECT_EQ(numbers(-0.5, -0.5), (std::set<double>{-0.5}));
}

TEST(Random, RangesAndDeviationsThatAreNoneAreErrors) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  Tensor tensor = Tensor::full({3}, 7.0);
  Generator generator(1);
  const std::vector<Range> ranges{{1, 0},    {nan, 1},  {0, nan}, {-infinity, 0}, {0, infinity}, {infinity, infinity},
                                  {0, 1e39}, {-1e39, 0}};
  for (const Range& range : ranges) {
    EXPECT_ERROR(
        tensor.uniform_(range.low, range.high),
        "uniform_: low must not be above high, and both and their distance must be finite in float32; got low ");
    EXPECT_ERROR(fill_uniform(tensor, range.low, range.high, generator), "fill_uniform: low must not be above high");
  }
  const std::vector<Moments> moments{{0, -1}, {nan, 1}, {0, nan}, {infinity, 1}, {0, infinity}, {1e39, 1}};
  for (const Moments& m : moments) {
    EXPECT_ERROR(
        tensor.normal_(m.mean, m.deviation),
        "normal_: the mean and the standard deviation must be finite in float32, and the latter not negative; got");
    EXPECT_ERROR(fill_normal(tensor, m.mean, m.deviation, generator), "fill_normal: the mean and");
  }
  EXPECT_EQ(tensor.to_vector<float>(), (std::vector<float>{7, 7, 7}));
  EXPECT_EQ(generator.offset(), 0U);
  Tensor half = Tensor::empty({2}, {.dtype = kFloat16}), wide = Tensor::empty({2}, {.dtype = kFloat64});
  EXPECT_ERROR(half.uniform_(0, 65520), "finite in float16; got low 0, high 65520");
  EXPECT_ERROR(wide.uniform_(-1.5e308, 1.5e308), "their distance must be finite in float64");
  EXPECT_NO_THROW(half.uniform_(-65504, 65504));
  EXPECT_NO_THROW(wide.uniform_(-0.5e308, 1e308));
  tensor.normal_(2, 0);
  EXPECT_EQ(tensor.to_vector<float>(), (std::vector<float>{2, 2, 2}));
}

TEST(Random, FillsWriteOnlyWhereInPlaceOperationsMay) {
  Generator generator(1);
  Tensor leaf = Tensor::ones({2}, {.requires_grad = true});
  Tensor row = Tensor::ones({1, 2});
  Tensor expanded = row.expand({3, 2});
  Tape tape;
  Tensor result = leaf * 2.0;
  struct Case {
    Tensor& tensor;
    const char* rule;
  };
  const std::vector<Case> cases{{result, "must not change a recorded tensor"},
                                {leaf, "must not change a leaf that requires a gradient while a tape records"},
                                {expanded, "must not share memory"}};
  for (const Case& c : cases) {
    EXPECT_ERROR(c.tensor.uniform_(0, 1), "uniform_: ", c.rule);
    EXPECT_ERROR(c.tensor.normal_(0, 1), "normal_: ", c.rule);
    EXPECT_ERROR(fill_uniform(c.tensor, 0, 1, generator), "fill_uniform: ", c.rule);
    EXPECT_ERROR(fill_normal(c.tensor, 0, 1, generator), "fill_normal: ", c.rule);
  }
  EXPECT_EQ(generator.offset(), 0U);
  EXPECT_EQ(row.to_vector<float>(), (std::vector<float>{1, 1}));
  EXPECT_EQ(leaf.to_vector<float>(), (std::vector<float>{1, 1}));
  EXPECT_NO_THROW(Tensor::rand({2}, {.requires_grad = true}));  // one's own
  EXPECT_NO_THROW(Tensor::randn({2}, {.requires_grad = true}));
}

TEST(Random, NormalHasTheRightMoments) {
  manual_seed(0);
  Tensor tensor = Tensor::empty({400, 500});
  tensor.normal_(2.0, 3.0);
  const auto values = tensor.to_vector<double>();
  double mean = 0.0, square = 0.0, cube = 0.0, fourth = 0.0;
  for (const double value : values) {
    const double z = (value - 2.0) / 3.0;
    mean += z, square += z * z, cube += z * z * z, fourth += z * z * z * z;
  }
  const auto n = static_cast<double>(values.size());
  EXPECT_NEAR(mean / n, 0.0, 0.01);
  EXPECT_NEAR(square / n, 1.0, 0.02);
  EXPECT_NEAR(cube / n, 0.0, 0.05);
  EXPECT_NEAR(fourth / n, 3.0, 0.1);
}

TEST(Random, StridedTensorsGetTheSameNumbersInOrder) {
  manual_seed(5);
  Tensor base = Tensor::zeros({4, 6});
  Tensor column_major = base.view_as({6, 4}, {1, 6}, 0);
  column_major.uniform_(-1.0, 1.0);
  manual_seed(5);
  Tensor plain = Tensor::zeros({6, 4});
  plain.uniform_(-1.0, 1.0);
  EXPECT_EQ(column_major.to_vector<float>(), plain.to_vector<float>());
}

TEST(Generator, DrawsWithoutBiasAndReplays) {
  Generator generator(1);
  std::vector<int> counts(6);
  for (int i = 0; i < 60000; ++i) ++counts[generator.below(6)];
  for (const int count : counts) EXPECT_NEAR(count, 10000, 400);
  Generator copy = generator;
  EXPECT_EQ(copy.next(), generator.next());
  EXPECT_ERROR(generator.below(0), "Generator::below: bound must be positive; got 0");
}

// Without rejection, every third of the numbers below 3/4 of 2^64 would be twice as likely as the others.
TEST(Generator, LargeBoundsAreDrawnWithoutBias) {
  for (const std::uint64_t eighths : {3U, 5U, 6U, 7U}) {
    Generator generator(9);
    const std::uint64_t bound = eighths << 61;
    const std::uint64_t classes = eighths == 6 ? 3 : eighths;
    std::vector<int> counts(classes);
    constexpr int kDraws = 42000;
    for (int i = 0; i < kDraws; ++i) {
      const std::uint64_t value = generator.below(bound);
      ASSERT_LT(value, bound);
      ++counts[value % classes];
    }
    for (const int count : counts) EXPECT_NEAR(count, kDraws / static_cast<double>(classes), 600) << eighths;
  }
  Generator generator(9);
  EXPECT_EQ(generator.below(1), 0U);
}

TEST(Generator, ForksDiffer) {
  const Generator generator(5);
  std::set<std::uint64_t> firsts{Generator(5).next()};
  for (std::uint64_t number = 0; number < 100; ++number) firsts.insert(generator.fork(number).next());
  EXPECT_EQ(firsts.size(), 101U);
  EXPECT_EQ(generator.fork(3).next(), Generator(5).fork(3).next());
  EXPECT_NE(generator.fork(3).next(), Generator(6).fork(3).next());
  EXPECT_EQ(generator.offset(), 0U);
}

std::vector<float> numbers_of_a_thread() {
  std::vector<float> numbers;
  std::thread([&] { numbers = Tensor::randn({4}).to_vector<float>(); }).join();
  return numbers;
}

TEST(Random, EveryThreadHasNumbersOfItsOwnWhichTheSeedFixes) {
  const auto draw = [](std::uint64_t seed) {
    manual_seed(seed);
    return std::vector<std::vector<float>>{Tensor::randn({4}).to_vector<float>(), numbers_of_a_thread(),
                                           numbers_of_a_thread()};
  };
  const auto first = draw(3), other = draw(4);
  EXPECT_EQ(draw(3), first);
  const std::set<std::vector<float>> all{first[0], first[1], first[2], other[0], other[1], other[2]};
  EXPECT_EQ(all.size(), 6U);
  // As random.h states.
  for (std::uint64_t number = 0; number < 2; ++number) {
    Generator generator = Generator(3).fork(number);
    Tensor expected = Tensor::empty({4});
    fill_normal(expected, 0, 1, generator);
    EXPECT_EQ(first[number + 1], expected.to_vector<float>());
  }
}

TEST(Random, ASeedReachesThreadsThatRun) {
  std::mutex mutex;
  std::condition_variable changed;
  int turn = 0;  // even: this thread's, odd: the other's
  const auto pass = [&](int to) {
    std::unique_lock lock(mutex);
    turn = to;
    changed.notify_all();
    changed.wait(lock, [&] { return turn > to; });
  };
  std::vector<std::vector<float>> drawn;
  std::thread other([&] {
    for (int i = 0; i < 3; ++i) {
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return turn == 2 * i + 1; });
      }
      drawn.push_back(Tensor::rand({5}).to_vector<float>());
      const std::lock_guard lock(mutex);
      turn = 2 * i + 2;
      changed.notify_all();
    }
  });
  for (int i = 0; i < 3; ++i) {
    manual_seed(i == 1 ? 22 : 21);
    pass(2 * i + 1);
  }
  other.join();
  EXPECT_EQ(drawn[0], drawn[2]);
  EXPECT_NE(drawn[0], drawn[1]);
  manual_seed(21);
  EXPECT_NE(drawn[0], Tensor::rand({5}).to_vector<float>());
}

TEST(Random, AGuardHidesTheThreadsGenerator) {
  manual_seed(8);
  Tensor::rand({3});
  const std::uint64_t offset = default_generator().offset();
  std::vector<float> inside;
  {
    const GeneratorGuard guard(Generator(31));
    inside = Tensor::rand({6}).to_vector<float>();
    {
      const GeneratorGuard inner(Generator(32));
      EXPECT_NE(Tensor::rand({6}).to_vector<float>(), inside);
    }
    EXPECT_EQ(default_generator().offset(), 3U);
    manual_seed(31);  // the guard's alone
    EXPECT_EQ(Tensor::rand({6}).to_vector<float>(), inside);
  }
  EXPECT_EQ(default_generator().seed(), 8U);
  EXPECT_EQ(default_generator().offset(), offset);
  const auto other = numbers_of_a_thread();
  manual_seed(8);
  EXPECT_EQ(numbers_of_a_thread(), other);
}

TEST(Random, ADeviceBaseIsNoPlaceForTheHost) {
  const std::uint64_t base = 0;
  Generator generator(1);
  generator.set_device_base(&base);
  EXPECT_ERROR(generator.next(), "Generator::next: the position must not lie in a device's memory; got seed 1");
  EXPECT_ERROR(generator.below(3), "must not lie in a device's memory");
  Tensor tensor = Tensor::zeros({2});
  EXPECT_ERROR(fill_uniform(tensor, 0, 1, generator), "draws for tensors on that device alone", "(2,) on cpu");
  EXPECT_ERROR(fill_normal(tensor, 0, 1, generator),
               "fill_normal: a generator with a device base draws for tensors on that device alone");
  EXPECT_EQ(generator.offset(), 0U);
}

TEST(Random, IntegersAreRefused) {
  EXPECT_ERROR(Tensor::rand({2}, {.dtype = kInt32}), "rand: the dtype must be floating point; got int32");
  EXPECT_ERROR(Tensor::randn({2}, {.dtype = kBool}), "randn: the dtype must be floating point; got bool");
}

}  // namespace
}  // namespace adjoint
