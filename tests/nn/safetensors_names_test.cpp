// Files whose names are not the module's, whose shapes are not, and models in several files.
#include <adjoint/nn/linear.h>
#include <adjoint/nn/safetensors.h>
#include <adjoint/nn/sequential.h>
#include <adjoint/tests/nn/safetensors_files.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace adjoint::nn {
namespace {

using Names = std::vector<std::string>;

class SafetensorsNamesTest : public SafetensorsTest {
 protected:
  fs::path write_named(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }
  // A model in two files; `map` is the index's weight_map.
  fs::path write_shards(const std::string& map) const {
    save_safetensors(folder_ / "model-00001-of-00002.safetensors", {{"0.weight", Tensor::full({2, 3}, 1.0)}},
                     {{"format", "pt"}});
    save_safetensors(folder_ / "model-00002-of-00002.safetensors",
                     {{"0.bias", Tensor::full({2}, 2.0)}, {"1.weight", Tensor::full({1, 2}, 3.0)}}, {{"format", "pt"}});
    return write_named("model.safetensors.index.json", R"({"metadata":{"total_size":40,"more":[1,{"a":null}]},)" + map);
  }
};

constexpr const char* kMap = R"("weight_map":{"0.weight":"model-00001-of-00002.safetensors",)"
                             R"("0.bias":"model-00002-of-00002.safetensors",)"
                             R"("1.weight":"model-00002-of-00002.safetensors"}})";

TEST_F(SafetensorsNamesTest, RenamesReachTheModulesNames) {
  save_safetensors(folder_ / "m", {{"module.encoder.fc1.gamma", Tensor::full({2, 3}, 1.0)},
                                   {"module.encoder.fc1.beta", Tensor::full({2}, 2.0)},
                                   {"module.encoder.fc2.gamma", Tensor::full({1, 2}, 3.0)},
                                   {"module.head.scale", Tensor::full({1}, 4.0)}});
  Sequential net{Linear(3, 2), Linear(2, 1, {.bias = false})};
  LoadOptions options{.strict = false,
                      .rename = {{"^module\\.encoder\\.", ""},
                                 {"^fc1\\.", "0."},
                                 {"^fc(\\d)\\.", "1."},
                                 {"gamma$", "weight"},
                                 {"beta$", "bias"}}};
  LoadReport report;
  load_safetensors(folder_ / "m", net, options, &report);
  EXPECT_TRUE(report.missing.empty());
  EXPECT_EQ(report.unexpected, Names{"module.head.scale"});
  EXPECT_EQ(net.parameters()[0].to_vector<float>(), std::vector<float>(6, 1.0F));
  EXPECT_EQ(net.parameters()[1].to_vector<float>(), std::vector<float>(2, 2.0F));
  EXPECT_EQ(net.parameters()[2].to_vector<float>(), std::vector<float>(2, 3.0F));

  // Capture groups can be used, and load_state_dict does the same.
  Sequential other{Linear(3, 2), Linear(2, 1, {.bias = false})};
  other.load_state_dict({{"w0", net.parameters()[0]}, {"b0", net.parameters()[1]}, {"w1", net.parameters()[2]}},
                        {.rename = {{"^w(.)", "$1.weight"}, {"^b(.)", "$1.bias"}}});
  EXPECT_EQ(other.parameters()[2].to_vector<float>(), std::vector<float>(2, 3.0F));
}

TEST_F(SafetensorsNamesTest, BadRenamesChangeNothing) {
  save_safetensors(folder_ / "m", {{"a.weight", Tensor::zeros({2, 3})}, {"b.weight", Tensor::zeros({2, 3})}});
  Linear linear(3, 2, {.bias = false});
  const std::vector<float> before = linear.weight.to_vector<float>();
  EXPECT_ERROR(load_safetensors(folder_ / "m", linear, {.rename = {{"(", ""}}}),
               "load_safetensors: a pattern of .rename must be a regular expression; got '('");
  EXPECT_ERROR(linear.load_state_dict({}, {.rename = {{"[", ""}}}), "load_state_dict: a pattern of .rename must be");
  EXPECT_ERROR(load_safetensors(folder_ / "m", linear, {.rename = {{"^.\\.", ""}}}),
               "names must be unique; got 'weight' for 'a.weight' and 'b.weight', by .rename");
  const std::string longer(3000, 'a');
  EXPECT_ERROR(linear.load_state_dict({{longer, Tensor::zeros({1})}}, {.rename = {{"(a|b)*", ""}}}),
               "names that .rename searches must be at most 2000 bytes; got 3000");
  EXPECT_NO_THROW(linear.load_state_dict({{std::string(2000, 'a'), Tensor::zeros({1})}},
                                         {.strict = false, .rename = {{"(a|b)*c", ""}}}));
  EXPECT_EQ(linear.weight.to_vector<float>(), before);
}

TEST_F(SafetensorsNamesTest, OtherShapesArePassedOverOnRequest) {
  save_safetensors(folder_ / "m", {{"0.weight", Tensor::full({2, 3}, 1.0)}, {"1.weight", Tensor::full({5, 2}, 1.0)}});
  Sequential net{Linear(3, 2, {.bias = false}), Linear(2, 1, {.bias = false})};
  const std::vector<float> head = net.parameters()[1].to_vector<float>();
  EXPECT_ERROR(load_safetensors(folder_ / "m", net, {.strict = false}),
               "mismatched: 1.weight (the module has float32 ");
  LoadReport report;
  load_safetensors(folder_ / "m", net, {.ignore_mismatched_sizes = true}, &report);
  EXPECT_EQ(report.mismatched, Names{"1.weight"});
  EXPECT_TRUE(report.missing.empty() && report.unexpected.empty());
  EXPECT_EQ(net.parameters()[0].to_vector<float>(), std::vector<float>(6, 1.0F));
  EXPECT_EQ(net.parameters()[1].to_vector<float>(), head);
  // Another dtype is another matter.
  save_safetensors(folder_ / "m",
                   {{"0.weight", Tensor::zeros({2, 3}, {.dtype = kFloat64})}, {"1.weight", Tensor::full({5, 2}, 1.0)}});
  EXPECT_ERROR(load_safetensors(folder_ / "m", net, {.ignore_mismatched_sizes = true}),
               "mismatched: 0.weight (the module has float32 (2, 3), got float64 (2, 3))");
}

TEST_F(SafetensorsNamesTest, AModelInSeveralFilesIsOne) {
  const fs::path index = write_shards(kMap);
  const Safetensors all = load_safetensors(index);
  EXPECT_EQ(all.metadata, (Metadata{{"format", "pt"}}));
  Names names;
  for (const auto& [name, tensor] : all.tensors) names.push_back(name);
  EXPECT_EQ(names, (Names{"0.weight", "0.bias", "1.weight"}));
  Sequential net{Linear(3, 2), Linear(2, 1, {.bias = false})};
  load_safetensors(index, net);
  EXPECT_EQ(net.parameters()[2].to_vector<float>(), std::vector<float>(2, 3.0F));
  Sequential smaller{Linear(3, 2)};
  LoadReport report;
  load_safetensors(index, smaller, {.strict = false}, &report);
  EXPECT_EQ(report.unexpected, Names{"1.weight"});
}

TEST_F(SafetensorsNamesTest, BrokenIndicesAreErrors) {
  const std::pair<const char*, const char*> broken[] = {
      {"", "an index must be JSON"},
      {"[]", "an index must be a JSON object"},
      {"3", "an index must be a JSON object"},
      {"\"weight_map\"", "an index must be"},
      {"{}", "an index must have a weight_map"},
      {R"({"a":{"weight_map":{}}})", "an index must have a weight_map"},
      {R"({"weight_map":[]})", "the weight_map must map text to text"},
      {R"({"weight_map":"m"})", "the weight_map must be an object"},
      {R"({"weight_map":3})", "the weight_map must map text to text"},
      {R"({"weight_map":{"a":{}}})", "the weight_map must map text to text; got something else for 'a'"},
      {R"({"weight_map":{"a":null}})", "the weight_map must map text to text; got something else for 'a'"},
      {R"({"weight_map":{"a":"m"},"weight_map":{}})", "must have one weight_map; got two"},
      {R"({"weight_map":{"a":"m","a":"m"}})", "the weight_map's names must be unique; got 'a' twice"},
      {R"({"weight_map":{"a":"../m"}})", "the name of one in the index's folder; got '../m' for 'a'"},
      {R"({"weight_map":{"a":"/m"}})", "got '/m' for 'a'"},
      {R"({"weight_map":{"a":".."}})", "got '..' for 'a'"},
      {R"({"weight_map":{"a":""}})", "got '' for 'a'"},
      {R"({"weight_map":{"a":"none"}})", "none': No such file"},
      {R"({"weight_map":{"a":"none"})", "an index must be JSON"},
  };
  for (const auto& row : broken) {
    SCOPED_TRACE(row.first);
    EXPECT_ERROR(load_safetensors(write_named("index.json", row.first)), "load_safetensors: ", row.second);
  }
  const std::string zero = R"({"weight_map":{"a":"m"}})" + std::string("\0x", 2);
  EXPECT_ERROR(load_safetensors(write_named("index.json", zero)), "an index must be JSON; got a zero byte");
  EXPECT_ERROR(
      load_safetensors(write_shards(R"("weight_map":{"0.bias":"model-00002-of-00002.safetensors"}})")),
      "the weight_map must name every tensor of the file 'model-00002-of-00002.safetensors'; got '1.weight' in it");
  EXPECT_ERROR(load_safetensors(write_shards(R"("weight_map":{"0.weight":"model-00001-of-00002.safetensors",)"
                                             R"("0.bias":"model-00001-of-00002.safetensors"}})")),
               "the file 'model-00001-of-00002.safetensors' must hold '0.bias', as the weight_map says");
}

}  // namespace
}  // namespace adjoint::nn
