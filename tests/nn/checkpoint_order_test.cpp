// The order of operations, and their repetition: background copies of tensors that have changed, parts that are
// restored, and the numbers by which files identify the last write.
#include <adjoint/nn/linear.h>
#include <adjoint/nn/safetensors.h>
#include <adjoint/optim/schedule.h>
#include <adjoint/optim/sgd.h>
#include <adjoint/tests/nn/checkpoint_fixture.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace adjoint::nn {
namespace {

// The previous save's copies are reused only if they fit.
TEST_F(CheckpointTest, TensorsMayChangeBetweenBackgroundSaves) {
  Tensor first = Tensor::full({2, 3}, 1.5), second = Tensor::full({3}, 2.5);
  Tensor* tensors[] = {&first, &second};
  const auto state = [&] {
    NamedTensors all;
    for (std::size_t i = 0; i < 2; ++i) all.emplace_back(std::to_string(i), *tensors[i]);
    return all;
  };
  struct Tensors {
    std::function<NamedTensors()> state_dict_of;
    NamedTensors state_dict() const { return state_dict_of(); }
    void load_state_dict(const NamedTensors&) {}
  } kept{state};
  Checkpoint checkpoint(folder_, options({.keep_last = 10, .background = true}));
  checkpoint.add("kept", kept);
  std::int64_t step = 0;
  const auto save_and_expect = [&] {
    checkpoint.save(++step);
    const NamedTensors expected = state();
    std::vector<std::vector<double>> values;
    for (const auto& [name, tensor] : expected) values.push_back(tensor.to_vector<double>());
    for (Tensor* tensor : tensors) tensor->fill_(-1.0);  // the values at the time of the call are written
    checkpoint.wait();
    const Safetensors written = load_safetensors(file(step));
    for (std::size_t i = 0; i < 2; ++i) {
      SCOPED_TRACE(::testing::Message() << "save " << step << ", tensor " << i);
      const auto found = std::find_if(written.tensors.begin(), written.tensors.end(),
                                      [&](const auto& one) { return one.first == "kept." + std::to_string(i); });
      ASSERT_NE(found, written.tensors.end());
      EXPECT_EQ(found->second.dtype(), expected[i].second.dtype());
      EXPECT_EQ(found->second.shape(), expected[i].second.shape());
      EXPECT_EQ(found->second.to_vector<double>(), values[i]);
    }
  };
  save_and_expect();
  first.fill_(3.5), second.fill_(4.5);
  save_and_expect();                                                   // as they were
  for (const DType dtype : {kFloat64, kInt32, kFloat32, kBFloat16}) {  // of 8, 4, 4 and 2 bytes
    first = Tensor::full({2, 3}, 5.0, {.dtype = dtype});
    second.fill_(6.5);
    save_and_expect();
  }
  for (const Shape& shape : {Shape{3, 2}, Shape{6}, Shape{7}, Shape{}, Shape{0}}) {
    second = Tensor::full(shape, 7.0);
    save_and_expect();
  }
  std::swap(tensors[0], tensors[1]);
  first.fill_(8.0);
  save_and_expect();
}

// A schedule sets its optimiser's rate as it loads, so the optimiser must be restored after it.
TEST_F(CheckpointTest, PartsArePutBackFromTheLastToTheFirst) {
  Tensor weight = Tensor::ones({2}, {.requires_grad = true});
  optim::SGD sgd({weight}, {.lr = 0.5});
  optim::StepLR schedule(sgd, {.step_size = 1, .gamma = 0.5});
  double rate = 3;
  const auto add_to = [&](Checkpoint& checkpoint) {
    checkpoint.add("optimiser", sgd);
    checkpoint.add("schedule", schedule);
  };
  {
    Checkpoint checkpoint(folder_, options());
    add_to(checkpoint);
    checkpoint.add("rate", rate);
    checkpoint.save(1);
  }
  schedule.step();
  schedule.step();
  sgd.set_lr(0.375);  // which is not the schedule's
  Checkpoint checkpoint(folder_, options());
  add_to(checkpoint);
  std::int16_t other_type = 7;
  checkpoint.add("rate", other_type);
  EXPECT_ERROR(checkpoint.load(file(1)), "does not fit 'rate'");
  EXPECT_EQ(sgd.lr(), 0.375);
  EXPECT_EQ(schedule.last_epoch(), 2);
  schedule.step();
  EXPECT_EQ(sgd.lr(), 0.0625) << "the schedule's own rate is what it was too";

  // The same of any parts.
  {
    Checkpoint numbers(folder_, options());
    int a = 1, b = 2, c = 3;
    numbers.add("a", a);
    numbers.add("b", b);
    numbers.add("c", c);
    numbers.save(2);
  }
  std::vector<std::string> loaded;
  Checkpoint watching(folder_, options());
  for (const char* name : {"a", "b", "c"}) {
    watching.add(
        name, [] { return 0; },
        [&loaded, name](int value) {
          loaded.push_back(name + std::to_string(value));
          if (value == 3) throw std::runtime_error("enough");
        });
  }
  EXPECT_THROW(watching.load(file(2)), std::runtime_error);
  EXPECT_EQ(loaded, (std::vector<std::string>{"a1", "b2", "c3", "c0", "b0", "a0"}));
}

std::vector<std::pair<std::int64_t, std::int64_t>> steps_and_sequences(const Checkpoint& checkpoint) {
  std::vector<std::pair<std::int64_t, std::int64_t>> all;
  for (const CheckpointFile& file : checkpoint.files()) all.emplace_back(file.step, file.sequence);
  return all;
}
using Files = std::vector<std::pair<std::int64_t, std::int64_t>>;

TEST_F(CheckpointTest, EachFileHasTheNextNumber) {
  int number = 0;
  Checkpoint checkpoint(folder_, options({.keep_last = 10}));
  checkpoint.add("number", number);
  for (const int step : {50, 30, 90, 10, 70}) checkpoint.save(step);
  EXPECT_EQ(steps_and_sequences(checkpoint), (Files{{70, 5}, {10, 4}, {90, 3}, {30, 2}, {50, 1}}));
  checkpoint.save(90);  // anew
  EXPECT_EQ(steps_and_sequences(checkpoint), (Files{{90, 6}, {70, 5}, {10, 4}, {30, 2}, {50, 1}}));
  fs::remove(file(90));
  fs::remove(file(30));
  checkpoint.save(20);  // behind the highest that is there
  EXPECT_EQ(steps_and_sequences(checkpoint), (Files{{20, 6}, {70, 5}, {10, 4}, {50, 1}}));
  EXPECT_EQ(checkpoint.resume(), 20);
}

TEST_F(CheckpointTest, WithoutAMetricNoneIsTheBest) {
  Checkpoint checkpoint(folder_, options());
  int number = 0;
  checkpoint.add("number", number);
  EXPECT_FALSE(checkpoint.best().has_value());
  checkpoint.save(1);
  EXPECT_FALSE(checkpoint.best().has_value());
  checkpoint.save(2, {.metric = 0.5});
  EXPECT_EQ(checkpoint.best()->step, 2);
}

TEST_F(CheckpointTest, AValueOfAnotherCountDoesNotFit) {
  std::vector<int> several{1, 2};
  {
    Checkpoint checkpoint(folder_, options());
    checkpoint.add("value", several);
    checkpoint.save(1);
  }
  int one = 7;
  Checkpoint checkpoint(folder_, options());
  checkpoint.add("value", one);
  EXPECT_ERROR(checkpoint.load(file(1)), "does not fit 'value'", "must be 1 number; got 2");
  EXPECT_EQ(one, 7);
}

// Files of two folders that somebody has put together.
TEST_F(CheckpointTest, OfEqualNumbersTheLatestStepIsTheNewest) {
  const fs::path other = folder_ / "other";
  {
    Checkpoint here(folder_, options({.keep_last = 10})), there(other, options({.keep_last = 10}));
    int number = 0;
    here.add("number", number);
    there.add("number", number);
    for (const int step : {100, 20, 300}) here.save(number = step);
    for (const int step : {10, 200, 30}) there.save(number = step);
  }
  for (const auto& entry : fs::directory_iterator(other)) fs::rename(entry.path(), folder_ / entry.path().filename());
  int number = 0;
  Checkpoint checkpoint(folder_, options({.keep_last = 3}));
  checkpoint.add("number", number);
  EXPECT_EQ(steps_and_sequences(checkpoint), (Files{{300, 3}, {30, 3}, {200, 2}, {20, 2}, {100, 1}, {10, 1}}));
  EXPECT_EQ(checkpoint.resume(), 300);
  EXPECT_EQ(number, 300);
  checkpoint.save(5);
  EXPECT_EQ(steps_and_sequences(checkpoint), (Files{{5, 4}, {300, 3}, {30, 3}}));
}

}  // namespace
}  // namespace adjoint::nn
