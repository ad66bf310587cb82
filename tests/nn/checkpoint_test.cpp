// Checkpoint: its contents are restored exactly; damaged and unfitting files change nothing; which files are kept.
#include <adjoint/nn/linear.h>
#include <adjoint/nn/safetensors.h>
#include <adjoint/tests/nn/checkpoint_fixture.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace adjoint::nn {
namespace {

enum class Phase : std::uint8_t { kFirst, kSecond };
struct Place {
  std::int64_t epoch = 0, batch = 0;
  bool operator==(const Place&) const = default;
};
class Loader {
 public:
  Place state() const { return place_; }
  void load_state(const Place& place) { place_ = place; }

 private:
  Place place_{3, 5};
};

struct Values {
  bool flag = true;
  std::int8_t small = -128;
  std::uint64_t large = std::numeric_limits<std::uint64_t>::max();
  float single = 0.1F;
  double real = -std::numeric_limits<double>::infinity();
  Phase phase = Phase::kSecond;
  std::string text = std::string("a\0\xff", 3), none;
  std::vector<double> curve{0.1, 1e-308, std::nan("")};
  std::vector<std::int32_t> counts{-1, 7};
  Place place{1, -2};
  Tensor noise = Tensor::full({2, 2}, 3.5, {.dtype = kBFloat16});
  Generator generator{17};
  Loader loader;

  void add_to(Checkpoint& checkpoint) {
    checkpoint.add("flag", flag);
    checkpoint.add("small", small);
    checkpoint.add("large", large);
    checkpoint.add("single", single);
    checkpoint.add("real", real);
    checkpoint.add("phase", phase);
    checkpoint.add("text", text);
    checkpoint.add("none", none);
    checkpoint.add("curve", curve);
    checkpoint.add("counts", counts);
    checkpoint.add("place", place);
    checkpoint.add("noise", noise);
    checkpoint.add("generator", generator);
    checkpoint.add("loader", loader);
  }
};

TEST_F(CheckpointTest, ValuesOfEveryKindComeBack) {
  for (const bool background : {false, true}) {
    SCOPED_TRACE(background);
    Values kept;
    kept.generator.seek(5);
    {
      Checkpoint checkpoint(folder_, options({.background = background}));
      kept.add_to(checkpoint);
      checkpoint.save(9);
      kept.noise.fill_(-1.0);  // the values at the time of the call are written
      checkpoint.wait();
    }
    Values loaded{.flag = false,
                  .small = 0,
                  .large = 0,
                  .single = 0,
                  .real = 0,
                  .phase = Phase::kFirst,
                  .text = "x",
                  .none = "y",
                  .curve = {},
                  .counts = {1},
                  .place = {},
                  .noise = Tensor::zeros({2, 2}, {.dtype = kBFloat16}),
                  .generator = Generator(0),
                  .loader = {}};
    loaded.loader.load_state({});
    const Tensor same_elements = loaded.noise;
    Checkpoint checkpoint(folder_, options());
    loaded.add_to(checkpoint);
    EXPECT_EQ(checkpoint.resume(), 9);
    EXPECT_TRUE(loaded.flag);
    EXPECT_EQ(loaded.small, -128);
    EXPECT_EQ(loaded.large, kept.large);
    EXPECT_EQ(loaded.single, 0.1F);
    EXPECT_EQ(loaded.real, kept.real);
    EXPECT_EQ(loaded.phase, Phase::kSecond);
    EXPECT_EQ(loaded.text, kept.text);
    EXPECT_EQ(loaded.none, "");
    EXPECT_EQ(loaded.curve.at(0), 0.1);
    EXPECT_EQ(loaded.curve.at(1), 1e-308);
    EXPECT_TRUE(std::isnan(loaded.curve.at(2)));
    EXPECT_EQ(loaded.counts, kept.counts);
    EXPECT_EQ(loaded.place, kept.place);
    EXPECT_EQ(same_elements.to_vector<float>(), std::vector<float>(4, 3.5F));
    EXPECT_EQ(loaded.generator.seed(), 17U);
    EXPECT_EQ(loaded.generator.next(), Generator(kept.generator).next());
    EXPECT_EQ(loaded.loader.state(), (Place{3, 5}));
    EXPECT_TRUE(warnings_.empty());
  }
}

/// Its size must not differ, unless a test changes it.
struct Sized {
  Place state() const { return {size, at}; }
  void load_state(const Place& place, const LoadStateOptions& options = {}) {
    if (options.strict && place.epoch != size) throw Error("another size");
    at = place.batch;
  }
  std::int64_t size = 0, at = 0;
};

TEST_F(CheckpointTest, APartThatDiffersIsTakenInWhereItIsTold) {
  Sized saved{.size = 3, .at = 5};
  Linear two(2, 1), three(2, 1, {.bias = false});
  int later = 7;
  {
    Checkpoint checkpoint(folder_, options());
    checkpoint.add("place", saved);
    checkpoint.add("net", two);
    checkpoint.save(1);
  }
  for (const bool strict : {true, false}) {
    Sized loaded{.size = 4, .at = 0};
    Checkpoint checkpoint(folder_, options());
    checkpoint.add("place", loaded, {.strict = strict});
    checkpoint.add("net", three, {.strict = false});
    checkpoint.add("later", later, {.strict = false});  // which the file does not have
    if (strict) {
      EXPECT_ERROR(checkpoint.load(file(1)), "does not fit 'place': another size");
    } else {
      EXPECT_EQ(checkpoint.load(file(1)), 1);
    }
    EXPECT_EQ(loaded.at, strict ? 0 : 5);
    EXPECT_EQ(later, 7);
  }
  EXPECT_EQ(three.weight.to_vector<float>(), two.weight.to_vector<float>());
  Checkpoint checkpoint(folder_, options());
  checkpoint.add("place", saved);
  checkpoint.add("net", two);
  checkpoint.add("later", later);
  EXPECT_ERROR(checkpoint.load(file(1)), "does not fit 'later'");
}

TEST_F(CheckpointTest, AForkedProcessLeavesTheWritingToItsParent) {
  Tensor large = Tensor::ones({1 << 23});
  auto checkpoint = std::make_unique<Checkpoint>(folder_, options({.background = true}));
  checkpoint->add("large", large);
  checkpoint->save(1);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);  // it would wait for a thread that it has not
    checkpoint->wait();
    checkpoint.reset();
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  checkpoint->wait();
  EXPECT_EQ(checkpoint->resume(), 1);
}

TEST_F(CheckpointTest, ModulesRandomStateAndCallablesComeBack) {
  manual_seed(3);
  Linear net(3, 2);
  int epoch = 4;
  const auto add_to = [&](Checkpoint& checkpoint, Module& module, std::vector<int>& seen) {
    checkpoint.add("model", module);
    checkpoint.add_random_state();
    checkpoint.add(
        "epoch", [&] { return epoch; }, [&](int value) { seen.push_back(value); });
  };
  std::vector<int> seen;
  Checkpoint checkpoint(folder_ / "deep" / "er", options());
  add_to(checkpoint, net, seen);
  EXPECT_EQ(checkpoint.resume(), std::nullopt);
  EXPECT_FALSE(fs::exists(folder_));
  checkpoint.save(1);
  const std::vector<float> next = Tensor::rand({4}).to_vector<float>();

  manual_seed(8);
  Linear other(3, 2);
  Checkpoint again(folder_ / "deep" / "er", options());
  add_to(again, other, seen);
  EXPECT_EQ(again.resume(), 1);
  EXPECT_EQ(Tensor::rand({4}).to_vector<float>(), next);
  EXPECT_EQ(other.weight.to_vector<float>(), net.weight.to_vector<float>());
  EXPECT_TRUE(other.weight.requires_grad());
  EXPECT_EQ(seen, std::vector<int>{4});
}

TEST_F(CheckpointTest, EveryDamagedByteIsFound) {
  int number = 7;
  Tensor tensor = Tensor::ones({3});
  Checkpoint checkpoint(folder_, options());
  checkpoint.add("number", number);
  checkpoint.add("tensor", tensor);
  number = 1;
  checkpoint.save(1);
  number = 2;
  checkpoint.save(2);
  const std::size_t size = fs::file_size(file(2));
  for (std::size_t from_end = 1; from_end <= size; ++from_end) {
    SCOPED_TRACE(from_end);
    warnings_.clear();
    damage(2, from_end);
    ASSERT_EQ(checkpoint.resume(), 1);
    EXPECT_EQ(number, 1);
    ASSERT_EQ(warnings_.size(), 1U);
    EXPECT_NE(warnings_[0].find("checkpoint-2.safetensors'"), std::string::npos) << warnings_[0];
    damage(2, from_end);
  }
  EXPECT_EQ(checkpoint.resume(), 2);
  EXPECT_EQ(number, 2);
  for (std::size_t left = size; left-- > 0;) {
    fs::resize_file(file(2), left);
    ASSERT_EQ(checkpoint.resume(), 1) << left;
  }
  damage(1, 1);
  EXPECT_ERROR(checkpoint.resume(), "Checkpoint::resume: one of the files in '", "must be whole and fit",
               "checkpoint-1.safetensors", "checkpoint-2.safetensors", "must end in the checksum of its ",
               "must begin with the 8 bytes");
}

TEST_F(CheckpointTest, AFileThatDoesNotFitChangesNothing) {
  Linear net(3, 2);
  double rate = 0.5;
  std::int64_t count = 70000;
  {
    Checkpoint checkpoint(folder_, options());
    checkpoint.add("rate", rate);
    checkpoint.add("model", net);
    checkpoint.add("count", count);
    checkpoint.save(5);
  }
  double other_rate = 0.25;
  const auto refuse = [&](const char* what, const std::function<void(Checkpoint&)>& add,
                          std::initializer_list<const char*> parts) {
    SCOPED_TRACE(what);
    Checkpoint checkpoint(folder_, options());
    checkpoint.add("rate", other_rate);
    add(checkpoint);
    EXPECT_TRUE(testing::throws_error([&] { checkpoint.load(file(5)); }, parts));
    EXPECT_TRUE(testing::throws_error([&] { checkpoint.resume(); }, parts));
    EXPECT_EQ(other_rate, 0.25);
  };
  Linear same(3, 2), larger(3, 4);
  std::int16_t narrow = 3;
  double real = 3;
  std::string text;
  std::vector<std::int64_t> several{};
  refuse("nothing", [](Checkpoint&) {}, {"must hold the parts that were added and no others; got ", "count", "model"});
  refuse("missing",
         [&](Checkpoint& c) {
           c.add("model", same);
           c.add("count", count);
           c.add("ema", real);
         },
         {"does not fit 'ema': a value must be one tensor; got 0"});
  refuse("another shape",
         [&](Checkpoint& c) {
           c.add("model", larger);
           c.add("count", count);
         },
         {"does not fit 'model': load_state_dict: ",
          "mismatched: weight (the module has float32 (4, 3), got float32 (2, 3)), bias"});
  refuse("too narrow",
         [&](Checkpoint& c) {
           c.add("model", same);
           c.add("count", narrow);
         },
         {"does not fit 'count': a number must fit its type of 16 bits; got 70000"});
  refuse("another type",
         [&](Checkpoint& c) {
           c.add("model", same);
           c.add("count", real);
         },
         {"does not fit 'count': a value of this type must be kept as float64; got int64 ()"});
  refuse("text",
         [&](Checkpoint& c) {
           c.add("model", same);
           c.add("count", text);
         },
         {"must be kept as uint8"});
  EXPECT_NE(same.weight.to_vector<float>(), net.weight.to_vector<float>());
  Checkpoint vectors(folder_, options());
  vectors.add("rate", other_rate);
  vectors.add("model", same);
  vectors.add("count", several);
  EXPECT_EQ(vectors.load(file(5)), 5);
  EXPECT_EQ(several, std::vector<std::int64_t>{70000});
  EXPECT_EQ(other_rate, 0.5);

  // A callable that throws half-way is restored.
  std::vector<int> seen;
  other_rate = 0.25;
  Checkpoint throws(folder_, options());
  throws.add("rate", other_rate);
  Linear third(3, 2);
  throws.add("model", third);
  throws.add(
      "count", [] { return 1; },
      [&](int value) {
        seen.push_back(value);
        if (value == 70000) throw std::out_of_range("too many");
      });
  EXPECT_THROW(throws.load(file(5)), std::out_of_range);
  EXPECT_EQ(seen, (std::vector<int>{70000, 1}));
  EXPECT_EQ(other_rate, 0.25);
  EXPECT_ERROR(throws.resume(), "got too many; begin anew");
}

TEST_F(CheckpointTest, OtherFilesAreNoCheckpoints) {
  fs::create_directories(folder_);
  int number = 1;
  Checkpoint checkpoint(folder_, options());
  checkpoint.add("number", number);
  std::ofstream(folder_ / "checkpoint-x.safetensors") << "x";
  std::ofstream(folder_ / "checkpoint--1.safetensors") << "x";
  std::ofstream(folder_ / "checkpoint-.safetensors") << "x";
  std::ofstream(folder_ / "notes.txt") << "x";
  EXPECT_EQ(checkpoint.resume(), std::nullopt);
  save_safetensors(file(3), {{"number", Tensor::zeros({})}});
  EXPECT_ERROR(checkpoint.load(file(3)), "must end in the checksum of its ");
  EXPECT_ERROR(checkpoint.resume(), "checkpoint-3.safetensors' must be a checkpoint of version 1; got another");
  EXPECT_ERROR(checkpoint.load(folder_ / "none"), "Checkpoint::load: cannot open '", "none'");
  checkpoint.save(4);
  EXPECT_EQ(checkpoint.resume(), 4);
  EXPECT_EQ(names().size(), 6U);
}

TEST_F(CheckpointTest, TheLastAndTheBestAreKept) {
  int number = 0;
  Checkpoint checkpoint(folder_, options({.keep_last = 2, .keep_best = 2}));
  checkpoint.add("number", number);
  const std::optional<double> metrics[] = {{}, 0.5, 0.25, std::nan(""), 0.75, 0.25, 0.5, {}, 2.0};
  for (number = 1; number <= 9; ++number) checkpoint.save(number, {.metric = metrics[number - 1]});
  EXPECT_EQ(names(), (std::set<std::string>{"checkpoint-3.safetensors", "checkpoint-6.safetensors",
                                            "checkpoint-8.safetensors", "checkpoint-9.safetensors"}));
  ASSERT_TRUE(checkpoint.best().has_value());
  EXPECT_EQ(checkpoint.best()->step, 6);
  EXPECT_EQ(checkpoint.load(checkpoint.best()->path), 6);
  EXPECT_EQ(number, 6);

  Checkpoint largest(folder_, options({.keep_last = 1, .keep_best = 1, .maximize = true}));
  largest.add("number", number);
  largest.save(10, {.metric = 1.0});
  EXPECT_EQ(names(), (std::set<std::string>{"checkpoint-9.safetensors", "checkpoint-10.safetensors"}));
  EXPECT_EQ(largest.best()->step, 9);
  EXPECT_EQ(largest.best()->metric, 2.0);
}

TEST_F(CheckpointTest, WhatWasWrittenLastIsTheNewest) {
  int number = 0;
  Checkpoint checkpoint(folder_, options({.keep_last = 2}));
  checkpoint.add("number", number);
  for (const int step : {100, 200, 300}) checkpoint.save(number = step);
  damage(300, 1);
  EXPECT_EQ(checkpoint.resume(), 200);
  checkpoint.save(number = 250);  // the training took another course; the damaged file is older than this
  EXPECT_EQ(checkpoint.resume(), 250);
  checkpoint.save(number = 260);
  EXPECT_EQ(names(), (std::set<std::string>{"checkpoint-250.safetensors", "checkpoint-260.safetensors"}));
  checkpoint.save(number = 260);
  EXPECT_EQ(checkpoint.files().front().sequence, 6);
  EXPECT_EQ(names().size(), 2U);
}

TEST_F(CheckpointTest, BadCallsAreErrors) {
  int number = 0;
  EXPECT_ERROR(Checkpoint(""), "Checkpoint: the folder must have a name; got ''");
  EXPECT_ERROR(Checkpoint(folder_, {.keep_last = 0}), "Checkpoint: keep_last must be at least 1; got 0");
  EXPECT_ERROR(Checkpoint(folder_, {.keep_best = -1}), "Checkpoint: keep_best must not be negative; got -1");
  Checkpoint checkpoint(folder_, options());
  checkpoint.add("number", number);
  EXPECT_ERROR(checkpoint.add("number", number), "Checkpoint::add: names must be distinct; got 'number' twice");
  EXPECT_ERROR(checkpoint.add("a.b", number), "hold a dot or begin with '__'; got 'a.b'");
  EXPECT_ERROR(checkpoint.add("", number), "must not be empty");
  EXPECT_ERROR(checkpoint.add("__crc32c__", number), "got '__crc32c__'");
  EXPECT_ERROR(checkpoint.save(-1), "Checkpoint::save: the step must not be negative; got -1");
  Tensor none;
  checkpoint.add("none", none);
  EXPECT_ERROR(checkpoint.save(1), "every tensor must be defined; got Tensor{} as '' of 'none'");
  EXPECT_FALSE(fs::exists(folder_));
}

}  // namespace
}  // namespace adjoint::nn
