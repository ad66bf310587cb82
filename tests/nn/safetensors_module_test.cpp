// Modules to safetensors files and back, and the state after memory runs out on the way.
#include <adjoint/core/base/file.h>
#include <adjoint/nn/safetensors.h>
#include <adjoint/tests/nn/safetensors_files.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/failing_new.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace adjoint::nn {
namespace {

using SafetensorsModuleTest = SafetensorsTest;

class Pair : public Module {
 public:
  Pair() : Module("Pair") {
    weight = register_parameter("weight", Tensor::zeros({2, 3}));
    count = register_buffer("count", Tensor::zeros({1}, {.dtype = kInt64}));
  }
  Tensor weight, count;
};

TEST_F(SafetensorsModuleTest, AModuleComesBackAsItWas) {
  Pair pair;
  pair.weight.fill_(2.5);
  pair.count.fill_(7);
  save_safetensors(folder_ / "m", pair, {{"epoch", "3"}});
  Pair other;
  EXPECT_EQ(load_safetensors(folder_ / "m", other), (Metadata{{"epoch", "3"}}));
  EXPECT_EQ(other.weight.to_vector<float>(), std::vector<float>(6, 2.5F));
  EXPECT_EQ(other.count.item<std::int64_t>(), 7);
  EXPECT_TRUE(other.weight.requires_grad());
}

TEST_F(SafetensorsModuleTest, AFileThatDoesNotFitTheModuleChangesNothing) {
  Pair pair;
  pair.weight.fill_(1.0);
  save_safetensors(folder_ / "m",
                   {{"weight", Tensor::zeros({2, 3}, {.dtype = kFloat64})}, {"bias", Tensor::zeros({2})}});
  EXPECT_ERROR(load_safetensors(folder_ / "m", pair), "m' does not go into the module", "(Pair)", "missing: count",
               "unexpected: bias", "mismatched: weight (the module has float32 (2, 3), got float64 (2, 3))");
  EXPECT_EQ(pair.weight.to_vector<float>(), std::vector<float>(6, 1.0F));
}

TEST_F(SafetensorsModuleTest, AModuleTakesForeignDtypesOnRequest) {
  Module module;
  Parameter a = module.register_parameter("a", Tensor::zeros({1}));
  Parameter z = module.register_parameter("z", Tensor::zeros({}));
  const fs::path path = write(file_with("F8_E4M3", "\x38\x40", 2));
  EXPECT_ERROR(load_safetensors(path, module), "does not go into the module: names, shapes and dtypes must be",
               "unexpected: m");
  EXPECT_EQ(a.item<float>(), 0.0F);
  LoadReport report{.missing = {"old"}, .unexpected = {}};
  load_safetensors(path, module, {.strict = false}, &report);
  EXPECT_TRUE(report.missing.empty());
  EXPECT_EQ(report.unexpected, std::vector<std::string>{"m"});
  EXPECT_EQ(a.item<float>(), 1.5F);
  EXPECT_EQ(z.item<float>(), 2.5F);

  Parameter m = module.register_parameter("m", Tensor::zeros({2}, {.dtype = kFloat16}));
  EXPECT_ERROR(load_safetensors(path, module), "must be of dtypes that tensors have; got m (F8_E4M3); .convert_dtype");
  load_safetensors(path, module, {.convert_dtype = true});
  EXPECT_EQ(m.dtype(), kFloat16);
  EXPECT_EQ(m.to_vector<float>(), (std::vector<float>{1, 2}));
  // Inconvertible tensors besides the wanted ones do no harm.
  m = Tensor::zeros({2});
  Module other;
  Parameter other_a = other.register_parameter("a", Tensor::zeros({1}, {.dtype = kFloat64}));
  const fs::path large = write(file_with("U64", raw(std::uint64_t{1} << 63), 1));
  load_safetensors(large, other, {.strict = false, .convert_dtype = true}, &report);
  EXPECT_EQ(report.unexpected, (std::vector<std::string>{"m", "z"}));
  EXPECT_EQ(other_a.item<double>(), 1.5);
}

TEST_F(SafetensorsModuleTest, AModuleTakesAFileOfOneOfTwoTiedNames) {
  Module tied;
  Parameter a = tied.register_parameter("a", Tensor::zeros({2}));
  tied.register_parameter("b", a);
  tied.register_parameter("c", Tensor::zeros({1}));
  for (const char* name : {"a", "b"}) {
    save_safetensors(folder_ / "m",
                     {{name, Tensor::full({2}, static_cast<float>(name[0]))}, {"c", Tensor::zeros({1})}});
    load_safetensors(folder_ / "m", tied);
    EXPECT_EQ(a.to_vector<float>(), std::vector<float>(2, name[0]));
  }
  save_safetensors(folder_ / "m", {{"a", Tensor::zeros({2})}});
  EXPECT_ERROR(load_safetensors(folder_ / "m", tied), "missing: c");
}

// ---- Missing memory.

// Whatever a call throws when allocations fail must be the library's error.
template <class F>
void expect_own_error(const F& call) {
  try {
    call();
  } catch (const OutOfMemoryError&) {
    throw;
  } catch (...) {
    ADD_FAILURE() << "something other than OutOfMemoryError was thrown";
    throw;
  }
}

TEST_F(SafetensorsModuleTest, AFailedAllocationLeavesTheOldFile) {
  const fs::path path = write("old");
  const std::vector<std::uint8_t> old = read_file("test", path);
  const NamedTensors tensors{{"across", Tensor::arange(0.0, 6).reshape({2, 3}).transpose(0, 1)},
                             {"a name that is longer than a string's own memory", Tensor::ones({2})}};
  const Metadata metadata{{"k", "a text that is longer than a string's own memory"}, {"l", ""}};
  for (const auto failure : {testing::Failure::kOnce, testing::Failure::kForGood}) {
    write("old");
    const int failed = testing::for_each_failing_allocation(
        failure, [&] { expect_own_error([&] { save_safetensors(path, tensors, metadata); }); },
        [&](int n) {
          EXPECT_EQ(read_file("test", path), old) << n;
          EXPECT_EQ(entries(), 1) << n;
        });
    EXPECT_GT(failed, 20);
    EXPECT_EQ(load_safetensors(path).metadata, metadata);
  }
}

TEST_F(SafetensorsModuleTest, AFailedAllocationLeavesTheModule) {
  const fs::path path = write(file_with("F8_E4M3", "\x38\x40", 2));
  for (const auto failure : {testing::Failure::kOnce, testing::Failure::kForGood}) {
    Module module;
    for (const char* name : {"z", "m", "a"}) {
      const Shape shape = name[0] == 'm' ? Shape{2} : name[0] == 'a' ? Shape{1} : Shape{};
      module.register_parameter(name, Tensor::full(shape, 7.0, {.dtype = kFloat64}));
    }
    const auto values = [&] {
      std::vector<double> all;
      for (const Tensor& p : module.parameters()) {
        for (const double v : p.to_vector<double>()) all.push_back(v);
      }
      return all;
    };
    const int failed = testing::for_each_failing_allocation(
        failure, [&] { expect_own_error([&] { load_safetensors(path, module, {.convert_dtype = true}); }); },
        [&](int n) {
          EXPECT_EQ(values(), (std::vector<double>{7, 7, 7, 7})) << n;
        });
    EXPECT_GT(failed, 20);
    EXPECT_EQ(values(), (std::vector<double>{2.5, 1, 2, 1.5}));
    testing::for_each_failing_allocation(
        failure, [&] { expect_own_error([&] { load_safetensors(path, {.convert_dtype = true}); }); }, [](int) {});
  }
}

}  // namespace
}  // namespace adjoint::nn
