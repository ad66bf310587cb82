#include "example_tool.h"
#include "resumed_training.h"

#include "text/apply.h"
#include "text/corpus.h"
#include "text/gpt.h"
#include "text/trainer.h"

#include <adjoint/core/base/device.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/nn/init.h>
#include <adjoint/ops/softmax/softmax.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

namespace text {
namespace {

namespace fs = std::filesystem;
using adjoint::Shape;
using adjoint::Tensor;

Tensor bytes_of(const std::string& text) {
  const std::vector<std::uint8_t> bytes(text.begin(), text.end());
  return Tensor::from_vector(bytes, {std::ssize(bytes)});
}
std::string text_of(const Tensor& bytes) {
  const auto values = bytes.to_vector<std::uint8_t>();
  return {values.begin(), values.end()};
}
std::string content(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}
void write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }

/// In eval mode, with scores that differ.
Gpt random_model(std::int64_t context = 8, double dropout = 0.5) {
  adjoint::manual_seed(3);
  Gpt model({.layers = 2, .heads = 2, .width = 8, .context = context, .dropout = dropout});
  for (const auto& [name, parameter] : model.named_parameters()) adjoint::nn::init::normal_(parameter, 0.0, 0.5);
  model.eval();
  return model;
}
Tensor some_bytes(std::int64_t count) {
  std::string text;
  for (std::int64_t i = 0; i < count; ++i) text += static_cast<char>((i * i * 37 + 11 * i) % 256);
  return bytes_of(text);
}
std::vector<double> scores_behind(const Gpt& model, const std::string& text) {
  const Tensor scores = model(bytes_of(text).to(adjoint::kInt64).unsqueeze(0));
  return scores.select(1, scores.size(1) - 1).squeeze(0).to_vector<double>();
}

TEST(TextModel, AScoreDependsOnItsByteAndThoseBefore) {
  const Gpt model = random_model();
  const Tensor bytes = some_bytes(8).to(adjoint::kInt64).unsqueeze(0);
  const auto before = model(bytes).to_vector<float>();
  for (std::int64_t changed = 0; changed < 8; ++changed) {
    Tensor other = bytes.clone();
    other.narrow(1, changed, 1).fill_(200.0);
    const auto after = model(other).to_vector<float>();
    for (std::int64_t at = 0; at < 8; ++at) {
      const auto row = at * Gpt::kBytes;
      const bool same = std::equal(before.begin() + row, before.begin() + row + Gpt::kBytes, after.begin() + row);
      EXPECT_EQ(same, at < changed) << at << ' ' << changed;
    }
  }
}

TEST(TextModel, ACacheContinuesTheText) {
  const Gpt model = random_model();
  const Tensor bytes = some_bytes(16).reshape({2, 8}).to(adjoint::kInt64), whole = model(bytes);
  for (const std::int64_t first : {1, 3, 7}) {
    Cache cache;
    Tensor scores = model(bytes.narrow(1, 0, first), &cache);
    for (std::int64_t at = first; at < 8; ++at) {
      scores = model(bytes.narrow(1, at, 1), &cache);
      const auto found = scores.reshape({-1}).to_vector<float>(),
                 wanted = whole.narrow(1, at, 1).reshape({-1}).to_vector<float>();
      for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], wanted[i], 1e-4F) << first << ' ' << at;
    }
    EXPECT_ERROR(model(bytes.narrow(1, 0, 1), &cache), "at most 8 bytes fit the context", "got 1 behind 8");
  }
  Cache cache;
  model(bytes.narrow(1, 0, 2), &cache);
  EXPECT_ERROR(model(bytes.narrow(1, 0, 2), &cache), "come one by one; got 2 behind 2");
  EXPECT_ERROR(model(some_bytes(9).to(adjoint::kInt64).unsqueeze(0)), "at most 8 bytes", "got 9 behind 0");
}

TEST(TextModel, TheHeadIsTheEmbedding) {
  const Gpt model = random_model();
  std::int64_t count = 256 * 8 + 8 * 8 + 2 * 8;                                       // bytes, positions, last norm
  count += 2 * (4 * 8 + (8 * 24 + 24) + (8 * 8 + 8) + (8 * 32 + 32) + (32 * 8 + 8));  // norms, qkv, out, up, down
  EXPECT_EQ(model.num_parameters(), count);
}

TEST(TextModel, OptionsOutOfRangeAreNamed) {
  EXPECT_ERROR(Gpt({.heads = 3, .width = 8}), "width must be a multiple of heads, 3; got 8");
  EXPECT_ERROR(Gpt({.layers = 0}), "layers must be from 1 to 256; got 0");
  EXPECT_ERROR(Gpt({.context = 1}), "context must be from 2 to 65536; got 1");
  EXPECT_ERROR(Gpt({.dropout = 1.5}), "dropout must be from 0 to 1; got 1.5");
}

TEST(TextMeasure, EqualScoresAreEightBits) {
  Gpt model = random_model();
  for (const auto& [name, parameter] : model.named_parameters()) {
    if (name.starts_with("embedding")) adjoint::nn::init::zeros_(parameter);
  }
  for (const std::int64_t length : {1, 2, 8, 9, 10, 12, 13, 14, 41})
    EXPECT_NEAR(bits_per_byte(model, some_bytes(length), adjoint::kCPU), 8.0, 1e-5) << length;
  EXPECT_ERROR(bits_per_byte(model, some_bytes(1).narrow(0, 0, 0), adjoint::kCPU), "must hold at least 1 byte");
}

// Windows end after 8 bytes, then after every 4, and at the end; each byte counts in the first window that reaches it.
TEST(TextMeasure, EachByteCountsOnceWithHalfAContextBeforeIt) {
  constexpr std::size_t kContext = 8, kLength = 23;
  const Gpt model = random_model(kContext);
  const std::string text = text_of(some_bytes(kLength));
  double bits = 8.0;
  for (std::size_t at = 1; at < kLength; ++at) {
    std::size_t end = kContext;
    while (end < at) end = std::min(end + kContext / 2, kLength - 1);
    const std::size_t from = end - kContext;
    const auto scores = scores_behind(model, text.substr(from, at - from));
    double sum = 0.0;
    for (const double score : scores) sum += std::exp(score);
    bits -= std::log2(std::exp(scores[static_cast<std::uint8_t>(text[at])]) / sum);
  }
  EXPECT_NEAR(bits_per_byte(model, bytes_of(text), adjoint::kCPU), bits / kLength, 1e-4);
}

TEST(TextMeasure, OrderZeroIsTheEntropyOfFrequencies) {
  const Tensor training = bytes_of("aab");
  // 259 counts: 3 of a, 2 of b, 1 of each other byte
  EXPECT_DOUBLE_EQ(order_0(training, bytes_of("a")), std::log2(259.0 / 3.0));
  EXPECT_DOUBLE_EQ(order_0(training, bytes_of("bc")), (std::log2(259.0 / 2.0) + std::log2(259.0)) / 2.0);
}

TEST(TextSample, TemperatureZeroIsTheLikeliestByte) {
  const Gpt model = random_model(64);
  std::string wanted = "ab";
  for (int i = 0; i < 20; ++i) {
    const auto scores = scores_behind(model, wanted);
    wanted += static_cast<char>(std::max_element(scores.begin(), scores.end()) - scores.begin());
  }
  EXPECT_EQ(sample(model, "ab", {.length = 20, .temperature = 0.0}, adjoint::kCPU), wanted);
  EXPECT_EQ(sample(model, "ab", {.length = 20, .top_k = 1, .seed = 5}, adjoint::kCPU), wanted);
}

// A full context is filled anew with its last half: from then on the text before does not count.
TEST(TextSample, AFullContextContinuesFromItsLastHalf) {
  const Gpt model = random_model();
  const SampleOptions greedy{.length = 5, .temperature = 0.0};
  const std::string text = sample(model, "abcdefgh", greedy, adjoint::kCPU);
  std::string wanted = "abcdefgh";
  for (const std::size_t held : {8U, 4U, 5U, 6U, 7U}) {
    const auto scores = scores_behind(model, wanted.substr(wanted.size() - held));
    wanted += static_cast<char>(std::max_element(scores.begin(), scores.end()) - scores.begin());
  }
  EXPECT_EQ(text, wanted);
  EXPECT_EQ(sample(model, "xxxxabcdefgh", greedy, adjoint::kCPU), "xxxx" + wanted) << "the prompt's last 8 bytes count";
}

TEST(TextSample, TheSeedDecides) {
  const Gpt model = random_model();
  const auto sampled = [&](std::uint64_t seed, double temperature = 1.0, std::int64_t top_k = 0) {
    adjoint::manual_seed(seed + 7);  // the default generator has no part in it
    return sample(model, "a", {.length = 200, .temperature = temperature, .top_k = top_k, .seed = seed}, adjoint::kCPU);
  };
  EXPECT_EQ(sampled(1), sampled(1));
  EXPECT_NE(sampled(1), sampled(2));
  EXPECT_EQ(sampled(1).size(), 201U);
  const auto kinds = [](const std::string& text) { return std::set<char>(text.begin(), text.end()).size(); };
  EXPECT_LT(kinds(sampled(1, 0.05)), kinds(sampled(1, 1e6))) << "a lower temperature writes likelier bytes";
  std::string one_step;
  for (std::uint64_t seed = 0; seed < 60; ++seed)
    one_step += sample(model, "a", {.length = 1, .temperature = 1e6, .top_k = 3, .seed = seed}, adjoint::kCPU)[1];
  EXPECT_EQ(kinds(one_step), 3U);
  EXPECT_ERROR(sample(model, "", {}, adjoint::kCPU), "--prompt must hold at least 1 byte; got none");
}

class TextTool : public examples::ExampleTool {
 protected:
  TextTool() : ExampleTool("text") {}

  std::string path(const std::string& name) const { return "'" + (folder_ / name).string() + "'"; }
  std::string small(const std::string& out, const std::string& more = "",
                    const std::string& network = "--heads 2 --context 16") const {
    return "train --steps 20 --batch 4 --layers 1 --width 16 --lr 1e-2 --test-every 10 --out " + path(out) + ' ' +
           network + ' ' + more;
  }
  /// A text of `lines` lines.
  fs::path write_text(const std::string& name, int lines = 300) const {
    std::string text;
    for (int i = 0; i < lines; ++i) text += "line " + std::to_string(i * i) + " is here\n";
    write(folder_ / name, text);
    return folder_ / name;
  }
};

TEST_F(TextTool, FoldersAndFilesAreReadInOrder) {
  fs::create_directories(folder_ / "texts" / "deep");
  write(folder_ / "texts" / "b", "two");
  write(folder_ / "texts" / "deep" / "a", "three");
  write(folder_ / "texts" / "a", "one");
  write(folder_ / "texts" / "empty", "");
  fs::create_symlink("a", folder_ / "texts" / "again");
  write(folder_ / "last", std::string("\0\xff", 2));
  testing::internal::CaptureStderr();
  EXPECT_EQ(text_of(read_text({(folder_ / "texts").string(), (folder_ / "last").string()})),
            std::string("onetwothree\0\xff", 13));
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("text: passed over: text: '" + (folder_ / "texts" / "empty").string() + "'"), std::string::npos)
      << said;
  EXPECT_EQ(text_of(read_text({(folder_ / "texts" / "again").string()})), "one") << "a link that is named is followed";
}

TEST_F(TextTool, TheLastTenthOfEachIsHeldOut) {
  write(folder_ / "a", "abcdefghijABCDEFGHIJxyz");
  write(folder_ / "b", "0123456789");
  const std::string a = (folder_ / "a").string(), b = (folder_ / "b").string();
  const Corpus corpus = Corpus::of({a, b}, "");
  EXPECT_EQ(text_of(corpus.training), "abcdefghijABCDEFGHIJx012345678");
  EXPECT_EQ(text_of(corpus.held_out), "yz9");
  const Corpus named = Corpus::of({a}, b);
  EXPECT_EQ(text_of(named.training), "abcdefghijABCDEFGHIJxyz");
  EXPECT_EQ(text_of(named.held_out), "0123456789");
  EXPECT_NE(corpus.fingerprint(), named.fingerprint());
  EXPECT_EQ(corpus.fingerprint(), Corpus::of({a, b}, "").fingerprint());
}

TEST_F(TextTool, LicencesHoldTwoOut) {
  for (const char* name : {"Apache-2.0", "BSD", "CC0-1.0", "GPL-3"}) write(folder_ / name, std::string(name) + ' ');
  fs::create_symlink("GPL-3", folder_ / "GPL");
  const Corpus corpus = Corpus::licences(folder_);
  EXPECT_EQ(text_of(corpus.training), "BSD GPL-3 ");
  EXPECT_EQ(text_of(corpus.held_out), "Apache-2.0 CC0-1.0 ");
  fs::remove(folder_ / "CC0-1.0");
  EXPECT_ERROR(Corpus::licences(folder_), folder_.c_str(), "Debian's base-files", "text train FILE");
  EXPECT_ERROR(Corpus::licences(folder_ / "none"), "/none' must hold the licences", "text train FILE");
}

TEST_F(TextTool, WindowsAreEverywhere) {
  const Windows windows(bytes_of("abcdef"), 4, 10);
  EXPECT_EQ(windows.size(), 10);
  std::set<std::string> seen;
  adjoint::Generator generator(1);
  for (int i = 0; i < 100; ++i) seen.insert(text_of(windows.get(0, generator).input));
  EXPECT_EQ(seen, (std::set<std::string>{"abcd", "bcde", "cdef"}));
}

TEST_F(TextTool, TrainsMeasuresAndWrites) {
  const std::string text = path(write_text("text").filename());
  ASSERT_EQ(run(small("out", text)), 0) << output_;
  const fs::path out = folder_ / "out";
  const auto metrics = nlohmann::json::parse(std::ifstream(out / "metrics.json"));
  EXPECT_EQ(metrics["curve"].size(), 3U) << "before the first step, at 10 and at 20";
  EXPECT_NEAR(metrics["untrained"]["bits_per_byte"].get<double>(), 8.0, 0.5);
  EXPECT_LT(metrics["bits_per_byte"].get<double>(), 6.0);
  EXPECT_GT(metrics["baselines"]["order 0"].get<double>(), 1.0);
  const std::string whole = content(folder_ / "text"), held_out = content(out / "held_out.txt");
  EXPECT_FALSE(held_out.empty());
  EXPECT_NE(whole.find(held_out), std::string::npos);
  EXPECT_EQ(content(out / "sample.txt").size(), 1001U);
  EXPECT_EQ(content(out / "samples" / "0000010.txt").size(), 301U);

  const std::string model = path("out/model.safetensors") + ' ';
  ASSERT_EQ(run("sample " + model + "--prompt 'line 7' --length 40 --temperature 0.5 --top-k 20 --seed 3"), 0);
  const std::string first = output_;
  EXPECT_TRUE(first.starts_with("line 7")) << first;
  EXPECT_EQ(first.size(), 6U + 40U + 1U);
  ASSERT_EQ(run("sample " + model + "--prompt 'line 7' --length 40 --temperature 0.5 --top-k 20 --seed 3"), 0);
  EXPECT_EQ(output_, first);
  write(folder_ / "zeros", std::string(100, '0'));
  ASSERT_EQ(run("evaluate " + model + text + ' ' + path("zeros")), 0) << output_;
  EXPECT_EQ(lines(), 2) << output_;
  EXPECT_NE(output_.find(" bits per byte, order 0 "), std::string::npos) << output_;
}

TEST_F(TextTool, TheDefaultTextIsThatOfTheLicences) {
  if (!fs::exists(kLicences / "GPL-3")) GTEST_SKIP() << "needs Debian's base-files";
  ASSERT_EQ(run("train --quick --steps 1 --batch 1 --layers 1 --width 16 --context 32 --out " + path("out")), 0)
      << output_;
  EXPECT_NE(output_.find("trained on "), std::string::npos) << output_;
}

TEST_F(TextTool, GoesOnToTheBit) {
  Options options;
  options.text = {write_text("text").string()};
  options.model = {.layers = 1, .heads = 2, .width = 16, .context = 16};
  CLI::App app;
  examples::Settings settings("text", app);
  options.add_to(settings);
  const examples::Run run{.program = "text", .device = adjoint::kCPU, .steps = 20, .batch = 2, .test_every = 8};
  examples::expect_same_training(examples::trained<Trainer>(options, run, settings, {}, folder_ / "whole"),
                                 examples::trained<Trainer>(options, run, settings, {0, 3, 8, 13},
                                                            folder_ / "resumed"));
}

TEST_F(TextTool, ResumesWithItsTextAndRefusesAnother) {
  const std::string text = path(write_text("text").filename());
  ASSERT_EQ(run(small("out", text)), 0) << output_;
  const std::string resume = "train --resume --steps 25 --out " + path("out");
  ASSERT_EQ(run(resume), 0) << output_;
  EXPECT_EQ(run(resume + ' ' + text), 2) << "the text is the training's";
  write_text("text", 200);
  EXPECT_EQ(run("train --resume --steps 30 --out " + path("out")), 1);
  EXPECT_NE(output_.find("it was trained on other text"), std::string::npos) << output_;
}

TEST_F(TextTool, BadInputIsNamedInOneLine) {
  const std::string text = path(write_text("text").filename());
  write(folder_ / "empty", "");
  write(folder_ / "short", "0123456789");
  write(folder_ / "tiny", "0");
  write(folder_ / "nine", "123456789");
  fs::create_directories(folder_ / "none");
  const std::string here = folder_.string();
  const std::pair<std::string, std::string> cases[] = {
      {small("out", path("empty")), "empty' must hold text; got an empty file"},
      {small("out", path("missing")), "/missing'"},
      {small("out", path("none")), "none' must hold a file that can be read and is not empty; got none"},
      {small("out", path("short")), "must leave 17 bytes for training, one more than --context; got 9; name more text"},
      {small("out", path("tiny"), "--heads 2 --context 2"), "must leave 3 bytes for training"},
      {small("out", path("nine"), "--heads 2 --context 4"),
       "there must be held-out text, a tenth of each file; got none"},
      {small("out", text + " --tests " + path("empty")), "empty' must hold text"},
      {small("out", "--tests " + text), "--tests must come with text to train on; got '"},
      {small("out", text, "--heads 3"), "width must be a multiple of heads, 3; got 16"},
      {small("out", text + " --dropout 2"), "--dropout must be from 0 to 1; got 2"},
      {small("out", text, "--context 1"), "--context must be from 2 to 65536; got 1"},
      {"sample " + path("text"), "/text"},
      {"sample " + path("text") + " --temperature -1", "--temperature must be from 0 to "},
      {"sample " + path("text") + " --top-k 257", "--top-k must be from 0 to 256; got 257"},
      {"sample " + path("text") + " --length -1", "--length must be from 0 to "},
      {"evaluate " + path("missing.safetensors") + ' ' + text, "missing.safetensors"},
  };
  for (const auto& [arguments, message] : cases) {
    EXPECT_EQ(run(arguments), 1) << arguments << ": " << output_;
    EXPECT_NE(output_.find(message), std::string::npos) << arguments << ": " << output_;
    EXPECT_EQ(lines(), 1) << arguments << ": " << output_;
  }
  adjoint::nn::save_safetensors(folder_ / "other.safetensors", adjoint::NamedTensors{}, {{"architecture", "unet"}});
  EXPECT_EQ(run("sample " + path("other.safetensors")), 1);
  EXPECT_NE(output_.find("other.safetensors' is not a model of this program"), std::string::npos) << output_;
  EXPECT_EQ(run("evaluate " + path("other.safetensors")), 2) << "no text";
}

}  // namespace
}  // namespace text
