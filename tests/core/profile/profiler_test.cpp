// A Profiler's report of calls: names, paths, costs, times, and the trace's form.
#include <adjoint/core/autograd/custom.h>
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/parallel.h>
#include <adjoint/core/profile/profiler.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/nn/activation.h>
#include <adjoint/nn/conv.h>
#include <adjoint/nn/linear.h>
#include <adjoint/nn/sequential.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/loss/loss.h>
#include <adjoint/ops/matmul/matmul.h>
#include <adjoint/optim/sgd.h>
#include <adjoint/tests/core/profile/profile_rows.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace adjoint {
namespace {

class Block : public nn::Module {
 public:
  explicit Block(std::int64_t channels)
      : Module("Block"),
        conv(register_module("conv", nn::Conv2d(channels, channels, {.kernel_size = 3, .padding = 1}))),
        tail(register_module("tail", nn::Sequential{nn::Conv2d(channels, 1, {.kernel_size = 1})})) {}
  Tensor operator()(const Tensor& x) const { return tail(x + conv(x)); }

  nn::Child<nn::Conv2d> conv;
  nn::Child<nn::Sequential> tail;
};

class Net : public nn::Module {
 public:
  Net() : Module("Net"), block(register_module("block", Block(4))) {}
  Tensor operator()(const Tensor& x) const { return block(x) * 2.0; }

  nn::Child<Block> block;
};

TEST(Profiler, CountsCallsByOperatorAndShape) {
  const Tensor a = Tensor::ones({8, 4}), b = Tensor::ones({8, 4}), row = Tensor::ones({3});
  Profiler profiler;
  for (int i = 0; i < 3; ++i) (void)(a + b);
  (void)(row + row);
  const std::vector<ProfileRow> rows = profiler.rows();
  ASSERT_EQ(rows.size(), 2U) << names(rows);
  const auto wide = std::find_if(rows.begin(), rows.end(), [](const ProfileRow& r) { return r.calls == 3; });
  ASSERT_NE(wide, rows.end());
  EXPECT_EQ(wide->op, "add");
  EXPECT_EQ(wide->caller, "");
  EXPECT_EQ(wide->module, "");
  EXPECT_EQ(wide->shapes, "float32 (8, 4), (8, 4)");
  EXPECT_EQ(wide->device, kCPU);
  EXPECT_EQ(wide->bytes, 3.0 * 3 * 8 * 4 * 4) << "two operands and a result, three times";
  EXPECT_EQ(wide->device_seconds, 0.0);
  EXPECT_GT(wide->host_seconds, 0.0);
  EXPECT_EQ(wide->seconds(), wide->host_self_seconds);

  const std::vector<ProfileRow> together = profiler.rows({.by_shape = false});
  ASSERT_EQ(together.size(), 1U);
  EXPECT_EQ(together[0].calls, 4);
  EXPECT_EQ(together[0].shapes, "");
}

TEST(Profiler, CountsWhatAViewSharesOnce) {
  const Tensor row = Tensor::ones({1, 256}).expand({64, 256}), full = Tensor::ones({64, 256});
  Profiler profiler;
  (void)(row + full);
  const auto add = find(profiler.rows(), "add");
  ASSERT_TRUE(add);
  EXPECT_EQ(add->bytes, 4.0 * (256 + 2 * 64 * 256));
  EXPECT_FALSE(find(profiler.rows(), "expand")) << "it was before";
}

TEST(Profiler, TellsFlopAndTheFloor) {
  const Tensor a = Tensor::ones({16, 32}), b = Tensor::ones({32, 64});
  Profiler profiler({.bytes_per_second = 1e9, .flop_per_second = 1e6});
  (void)matmul(a, b);
  const std::vector<ProfileRow> rows = profiler.rows({.by_shape = false});
  const auto product = std::find_if(rows.begin(), rows.end(), [](const ProfileRow& row) { return row.flop > 0.0; });
  ASSERT_NE(product, rows.end()) << names(rows);
  EXPECT_EQ(product->flop, 2.0 * 16 * 32 * 64);
  EXPECT_DOUBLE_EQ(product->floor_seconds, product->flop / 1e6);
  EXPECT_DOUBLE_EQ(product->floor_share(), product->floor_seconds / product->host_self_seconds);

  Profiler again({.bytes_per_second = 1e3, .flop_per_second = 1e15});
  (void)(a + a);
  const auto add = find(again.rows(), "add");
  ASSERT_TRUE(add);
  EXPECT_DOUBLE_EQ(add->floor_seconds, add->bytes / 1e3);
}

TEST(Profiler, MeasuresTheCopyRateOfTheCpu) {
  Profiler profiler;
  (void)Tensor::ones({1000}).exp();
  const auto exp = find(profiler.rows(), "exp");
  ASSERT_TRUE(exp);
  EXPECT_GT(exp->floor_seconds, 8000 / 1e13);
  EXPECT_LT(exp->floor_seconds, 8000 / 1e7);
}

TEST(Profiler, TellsModulesByTheirPaths) {
  const Net net;
  const Tensor x = Tensor::ones({1, 4, 5, 5});
  Profiler profiler;
  (void)net(x);
  const std::vector<ProfileRow> rows = profiler.rows();
  EXPECT_TRUE(find(rows, "conv", "conv2d", "Net.block.conv")) << names(rows);
  EXPECT_TRUE(find(rows, "conv", "conv2d", "Net.block.tail.0")) << names(rows);
  EXPECT_TRUE(find(rows, "add", "", "Net.block")) << names(rows);
  for (const ProfileRow& row : rows) EXPECT_FALSE(row.op.empty()) << "modules are no rows";

  const std::vector<ProfileRow> by_module = profiler.rows({.by_operator = false, .by_shape = false});
  const auto block = std::find_if(by_module.begin(), by_module.end(),
                                  [](const ProfileRow& row) { return row.module == "Net.block.conv"; });
  ASSERT_NE(block, by_module.end());
  EXPECT_EQ(block->op, "");
}

TEST(Profiler, TellsLayersInASequential) {
  const nn::Sequential net{nn::Linear(3, 4), nn::ReLU(), nn::Linear(4, 2)};
  Profiler profiler;
  (void)net(Tensor::ones({5, 3}));
  std::set<std::string> modules;
  for (const ProfileRow& row : profiler.rows()) modules.insert(row.module);
  EXPECT_TRUE(modules.contains("Sequential.0"));
  EXPECT_TRUE(modules.contains("Sequential.2"));
}

TEST(Profiler, GivesGradientsToTheModuleOfTheCall) {
  const Net net;
  const Tensor x = Tensor::ones({1, 4, 5, 5});
  Profiler profiler;
  Tape tape;
  const Tensor loss = net(x).sum();
  tape.backward(loss);
  const std::vector<ProfileRow> rows = profiler.rows();
  EXPECT_TRUE(find(rows, "conv_weight", "conv2d backward", "Net.block.conv")) << names(rows);
  EXPECT_TRUE(find(rows, "conv_weight", "conv2d backward", "Net.block.tail.0")) << names(rows);
  const auto sweep = find(rows, "backward");
  ASSERT_TRUE(sweep) << names(rows);
  EXPECT_EQ(sweep->calls, 1);
  EXPECT_GE(sweep->host_seconds, sweep->host_self_seconds);
  const auto weight = find(rows, "conv_weight", "conv2d backward", "Net.block.conv");
  EXPECT_GE(sweep->host_seconds, weight->host_seconds) << "it is inside";
}

TEST(Profiler, TellsGradientsOfGradients) {
  Tensor x = Tensor::full({4}, 2.0);
  x.requires_grad_();
  Profiler profiler;
  Tape tape;
  const Tensor y = x.exp().sum();
  const Tensor g = tape.gradient(y, {x}, {.record = true})[0];
  tape.backward(g.sum());
  const std::vector<ProfileRow> rows = profiler.rows();
  EXPECT_TRUE(find(rows, "gradient")) << names(rows);
  EXPECT_TRUE(find(rows, "mul", "exp backward", "")) << names(rows);
}

TEST(Profiler, GivesWhatWasRecordedBeforeToTheSweep) {
  const Net net;
  Tape tape;
  const Tensor loss = net(Tensor::ones({1, 4, 5, 5})).sum();
  Profiler profiler;
  tape.backward(loss);
  const std::vector<ProfileRow> rows = profiler.rows();
  EXPECT_TRUE(find(rows, "conv_weight", "", "backward")) << names(rows);
}

TEST(Profiler, ScopesStandInFrontOfModules) {
  const nn::Sequential net{nn::Linear(3, 4)};
  Profiler profiler;
  {
    const ProfileScope outer("step");
    const ProfileScope scope("fake");
    (void)net(Tensor::ones({5, 3}));
    (void)Tensor::ones({2}).exp();
  }
  (void)Tensor::ones({2}).exp();
  const std::vector<ProfileRow> rows = profiler.rows();
  EXPECT_TRUE(find(rows, "exp", "", "step/fake")) << names(rows);
  EXPECT_TRUE(find(rows, "exp")) << names(rows);
  const auto fake = find(rows, "fake", "", "step");
  ASSERT_TRUE(fake) << names(rows);
  EXPECT_EQ(fake->calls, 1);
  const bool in_layer = std::any_of(rows.begin(), rows.end(),
                                    [](const ProfileRow& row) { return row.module == "step/fake/Sequential.0"; });
  EXPECT_TRUE(in_layer) << names(rows);
}

TEST(Profiler, TakesInnerTimeOffSelfTime) {
  Profiler profiler;
  {
    const ProfileScope outer("outer");
    const ProfileScope inner("inner");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const std::vector<ProfileRow> rows = profiler.rows();
  const auto outer = find(rows, "outer"), inner = find(rows, "inner", "", "outer");
  ASSERT_TRUE(outer && inner) << names(rows);
  EXPECT_GE(inner->host_self_seconds, 0.020);
  EXPECT_GE(outer->host_seconds, inner->host_seconds);
  EXPECT_LT(outer->host_self_seconds, 0.5 * inner->host_self_seconds);
  EXPECT_EQ(rows.front().op, "inner") << "what took longest comes first";
}

TEST(Profiler, TellsCustomOperators) {
  Tensor x = Tensor::full({4}, 2.0);
  x.requires_grad_();
  const auto cube = [](const Tensor& in) {
    const std::string name = std::string("cu") + "be";  // gone when the table is made
    return custom(
        name, {in}, [](const std::vector<Tensor>& t) -> std::vector<Tensor> { return {t[0] * t[0] * t[0]}; },
        [](const CustomCall& call) -> std::vector<Tensor> {
          return {call.grads[0] * call.inputs[0] * call.inputs[0] * 3.0};
        })[0];
  };
  Profiler profiler;
  Tape tape;
  tape.backward(cube(x).sum());
  const std::vector<ProfileRow> rows = profiler.rows();
  const auto row = find(rows, "cube");
  ASSERT_TRUE(row) << names(rows);
  EXPECT_GT(row->host_seconds, row->host_self_seconds) << "its products are rows of their own";
  EXPECT_TRUE(find(rows, "mul", "cube backward")) << names(rows);
}

TEST(Profiler, CollectsEveryThread) {
  const Tensor a = Tensor::ones({100});
  Profiler profiler;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) (void)(a + a);
    });
  }
  for (std::thread& thread : threads) thread.join();
  {
    const ProfileScope scope("tasks");
    parallel_for(8, [&](std::int64_t) { (void)(a * a); });
  }
  const std::vector<ProfileRow> rows = profiler.rows();
  EXPECT_EQ(find(rows, "add")->calls, 200);
  const auto tasks = find(rows, "mul", "", "tasks");
  ASSERT_TRUE(tasks) << names(rows) << "threads of the pool are where the caller is";
  EXPECT_EQ(tasks->calls, 8);
}

TEST(Profiler, StopsWhileOtherThreadsCall) {
  std::atomic<bool> done = false;
  std::thread other([&] {
    const Tensor a = Tensor::ones({16});
    while (!done) {
      const ProfileScope scope("other");
      (void)(a + a);
    }
  });
  std::int64_t calls = 0;
  for (int i = 0; i < 50; ++i) {
    Profiler profiler;
    (void)Tensor::ones({4}).exp();
    const std::vector<ProfileRow> rows = profiler.rows();
    EXPECT_EQ(find(rows, "exp")->calls, 1);
    if (const auto add = find(rows, "add", "", "other")) calls += add->calls;
  }
  done = true;
  other.join();
  EXPECT_GE(calls, 0);
}

TEST(Profiler, CountsACallThatThrowsAndGoesOn) {
  const Net net;
  Profiler profiler;
  EXPECT_THROW((void)net(Tensor::ones({1, 3, 5, 5})), Error);
  EXPECT_THROW((void)(Tensor::ones({2}) + Tensor::ones({3})), Error);
  (void)Tensor::ones({2}).exp();
  const std::vector<ProfileRow> rows = profiler.rows();
  EXPECT_TRUE(find(rows, "exp")) << "in no module\n" << names(rows);
}

// Losses and weights of a few steps.
std::vector<double> train() {
  manual_seed(3);
  nn::Sequential net{nn::Conv2d(1, 4, {.kernel_size = 3, .padding = 1}), nn::ReLU(),
                     nn::ConvTranspose2d(4, 1, {.kernel_size = 4, .stride = 2, .padding = 1})};
  optim::SGD sgd(net.parameters(), {.lr = 0.1});
  const Tensor x = Tensor::rand({2, 1, 6, 6}), y = Tensor::rand({2, 1, 12, 12});
  std::vector<double> values;
  for (int step = 0; step < 3; ++step) {
    Tape tape;
    const Tensor loss = mse_loss(net(x), y);
    tape.backward(loss);
    sgd.step();
    sgd.zero_grad();
    values.push_back(loss.item<double>());
  }
  for (const Tensor& parameter : net.parameters()) {
    for (const double value : parameter.to_vector<double>()) values.push_back(value);
  }
  return values;
}

TEST(Profiler, ChangesNoBits) {
  const std::vector<double> off = train();
  std::vector<double> on;
  {
    Profiler profiler;
    on = train();
    const std::vector<ProfileRow> rows = profiler.rows();
    EXPECT_GT(rows.size(), 5U);
    EXPECT_EQ(find(rows, "SGD")->calls, 3);
  }
  EXPECT_EQ(off, on);
  EXPECT_EQ(off, train());
}

TEST(Profiler, NothingIsCollectedOutside) {
  (void)Tensor::ones({2}).exp();
  Profiler profiler;
  EXPECT_TRUE(profiler.rows().empty());
  (void)Tensor::ones({2}).exp();
  EXPECT_TRUE(profiler.rows().empty()) << "rows() has stopped it";
  Profiler next;
  (void)Tensor::ones({2}).log();
  EXPECT_TRUE(find(next.rows(), "log"));
  EXPECT_TRUE(profiler.rows().empty());
}

TEST(Profiler, PrintsATable) {
  Profiler profiler({.bytes_per_second = 1e9});
  const Tensor a = Tensor::ones({8, 4});
  for (int i = 0; i < 2; ++i) (void)(a + a);
  (void)a.exp();
  const std::string table = profiler.table();
  EXPECT_TRUE(table.starts_with("operator  module  operands")) << table;
  EXPECT_NE(table.find("add               float32 (8, 4), (8, 4)  cpu         2"), std::string::npos) << table;
  EXPECT_NE(table.find("2 of 2 rows; all: 3 calls, "), std::string::npos) << table;
  const std::string short_table = profiler.table({.grouping = {.by_module = false, .by_shape = false}, .rows = 1});
  EXPECT_EQ(std::count(short_table.begin(), short_table.end(), '\n'), 3) << short_table;
  EXPECT_NE(short_table.find("1 of 2 rows; all: 3 calls, "), std::string::npos) << short_table;
  EXPECT_EQ(short_table.find("module"), std::string::npos) << short_table;
}

TEST(Profiler, WritesATrace) {
  const Folder folder;
  const Net net;
  Profiler profiler;
  {
    const ProfileScope scope("quote \" backslash \\ newline \n and \xff no UTF-8");
    Tape tape;
    tape.backward(net(Tensor::ones({1, 4, 5, 5})).sum());
  }
  profiler.write_trace(folder / "trace.json");
  const nlohmann::json trace = read_json(folder / "trace.json");
  const nlohmann::json& events = trace.at("traceEvents");
  std::size_t calls = 0;
  double outer_begin = 0.0, outer_end = 0.0;
  for (const auto& event : events) {
    if (event.at("ph") == "M") continue;
    ASSERT_EQ(event.at("ph"), "X");
    EXPECT_GE(event.at("ts").get<double>(), 0.0);
    EXPECT_GE(event.at("dur").get<double>(), 0.0);
    EXPECT_EQ(event.at("pid"), 0);
    const std::string name = event.at("name");
    if (event.at("cat") == "scope" && name.starts_with("quote \" backslash \\ newline \n and ")) {
      outer_begin = event.at("ts");
      outer_end = outer_begin + event.at("dur").get<double>();
    }
    ++calls;
  }
  EXPECT_GT(outer_end, 0.0);
  const auto conv = std::find_if(events.begin(), events.end(), [](const nlohmann::json& event) {
    return event.at("name") == "conv2d/conv" &&
           event.at("args").at("operands") == "float32 (1, 4, 5, 5), (4, 4, 3, 3), (4,)";
  });
  ASSERT_NE(conv, events.end()) << trace.dump(1);
  EXPECT_EQ(conv->at("cat"), "operator");
  EXPECT_TRUE(conv->at("args").at("module").get<std::string>().ends_with("/Net.block.conv"));
  EXPECT_GT(conv->at("args").at("flop").get<double>(), 0.0);
  EXPECT_GE(conv->at("ts").get<double>(), outer_begin);
  EXPECT_LE(conv->at("ts").get<double>() + conv->at("dur").get<double>(), outer_end + 1e-3);
  const bool has_module = std::any_of(events.begin(), events.end(), [](const nlohmann::json& event) {
    return event.contains("cat") && event.at("cat") == "module" &&
           event.at("name").get<std::string>().ends_with("/Net.block.tail");
  });
  EXPECT_TRUE(has_module);
  EXPECT_EQ(profiler.untraced_calls(), 0);
  EXPECT_GT(calls, 8U);
}

TEST(Profiler, BoundsTheTraceAndNotTheTable) {
  const Folder folder;
  Profiler profiler({.max_trace_calls = 5});
  const Tensor a = Tensor::ones({4});
  for (int i = 0; i < 12; ++i) (void)(a + a);
  EXPECT_EQ(find(profiler.rows(), "add")->calls, 12);
  EXPECT_EQ(profiler.untraced_calls(), 7);
  profiler.write_trace(folder / "trace.json");
  std::size_t calls = 0;
  const nlohmann::json trace = read_json(folder / "trace.json");
  for (const auto& event : trace.at("traceEvents")) calls += event.at("ph") == "X" ? 1 : 0;
  EXPECT_EQ(calls, 5U);
}

// A timer that logs its calls, to check that each operator ends where it began, and that devices' times reach their
// rows.
class FakeTimer final : public DeviceTimer {
 public:
  void start(std::size_t) override { ++starts; }
  void begin(std::uint32_t, Device) override { ++open; }
  void end() noexcept override { --open; }
  DeviceTimes stop() override {
    ++stops;
    return {.seconds = {1.5},
            .spans = {{.row = 0, .name = "kernel<int>", .device = kCUDA, .stream = 7, .start_ns = 10, .end_ns = 30},
                      {.row = 99, .name = "nobody's", .device = kCUDA, .stream = 7, .start_ns = 40, .end_ns = 50}}};
  }

  int starts = 0, stops = 0, open = 0;
};

TEST(Profiler, TakesTimesFromAnotherTimer) {
  const Folder folder;
  const auto timer = std::make_shared<FakeTimer>();
  {
    Profiler profiler({.device_timer = timer});
    { const ProfileScope scope("replay", kCUDA); }
    (void)Tensor::ones({2}).exp();
    EXPECT_EQ(timer->starts, 1);
    EXPECT_EQ(timer->open, 0);
#if !defined(ADJOINT_WITH_CUDA)  // which would be waited for
    const auto replay = find(profiler.rows(), "replay");
    ASSERT_TRUE(replay);
    EXPECT_EQ(replay->device_seconds, 1.5);
    EXPECT_EQ(replay->seconds(), 1.5);
    EXPECT_NE(profiler.table().find("1500.000"), std::string::npos);
    profiler.write_trace(folder / "trace.json");
    std::size_t kernels = 0;
    const nlohmann::json trace = read_json(folder / "trace.json");
    for (const auto& event : trace.at("traceEvents")) {
      if (event.at("ph") != "X" || event.at("cat") != "kernel") continue;
      EXPECT_EQ(event.at("pid"), 1);
      EXPECT_EQ(event.at("args").at("operator"), event.at("name") == "kernel<int>" ? "replay" : "none");
      ++kernels;
    }
    EXPECT_EQ(kernels, 2U);
    EXPECT_EQ(timer->stops, 1);
#endif
  }
}

}  // namespace
}  // namespace adjoint
