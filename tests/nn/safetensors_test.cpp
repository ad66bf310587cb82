// The safetensors format against a reference file (tests/fixtures/make_safetensors_fixture.py), round trips, and a
// table of files that break the format.
#include <adjoint/core/file.h>
#include <adjoint/nn/safetensors.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/fixtures.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace adjoint::nn {
namespace {

namespace fs = std::filesystem;

const fs::path kReference = testing::fixture("reference.safetensors");

class SafetensorsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) /
              (std::string("adjoint_safetensors_") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path write(const std::string& bytes) const {
    const fs::path path = folder_ / "written.safetensors";
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  std::ptrdiff_t entries() const { return std::distance(fs::directory_iterator(folder_), fs::directory_iterator()); }

  fs::path folder_;
};

std::string file_of(const std::string& header, const std::string& data, std::uint64_t length) {
  std::string bytes(sizeof(length), '\0');
  std::memcpy(bytes.data(), &length, sizeof(length));
  return bytes + header + data;
}
std::string file_of(const std::string& header, const std::string& data) { return file_of(header, data, header.size()); }

const Tensor& find(const NamedTensors& tensors, const std::string& name) {
  for (const auto& [key, tensor] : tensors) {
    if (key == name) return tensor;
  }
  ADD_FAILURE() << "no tensor " << name;
  return tensors.front().second;
}

void expect_tensor(const NamedTensors& tensors, const char* name, DType dtype, const Shape& shape,
                   const std::vector<double>& values) {
  const Tensor& tensor = find(tensors, name);
  EXPECT_EQ(tensor.dtype(), dtype) << name;
  EXPECT_EQ(tensor.shape(), shape) << name;
  EXPECT_EQ(tensor.to_vector<double>(), values) << name;
}

TEST_F(SafetensorsTest, ReadsTheReferenceFile) {
  const Safetensors file = load_safetensors(kReference);
  EXPECT_EQ(file.metadata, (Metadata{{"format", "pt"}, {"note", "h\xc3\xa9llo"}}));
  ASSERT_EQ(file.tensors.size(), 11U);
  const double tiny = static_cast<double>(1e-7F);
  expect_tensor(file.tensors, "weight", kFloat32, {2, 3}, {0.5, -1.25, 3.0, tiny, 65504.0, -0.0});
  expect_tensor(file.tensors, "bias", kFloat32, {2}, {1.0, -2.0});
  expect_tensor(file.tensors, "double", kFloat64, {3}, {0.1, -1e300, 2.0});
  expect_tensor(file.tensors, "half", kFloat16, {2, 1}, {1.5, -65504.0});
  expect_tensor(file.tensors, "brain", kBFloat16, {3}, {1.0, -3.5, 0x1p100});
  expect_tensor(file.tensors, "long", kInt64, {2}, {-0x1p40, 7});
  expect_tensor(file.tensors, "int", kInt32, {1, 1, 2}, {-5, 0x1p31 - 1});
  expect_tensor(file.tensors, "byte", kUInt8, {3}, {0, 127, 255});
  expect_tensor(file.tensors, "flag", kBool, {3}, {1, 0, 1});
  expect_tensor(file.tensors, "scalar", kFloat32, {}, {42.0});
  expect_tensor(file.tensors, "empty", kFloat32, {0, 4}, {});
}

TEST_F(SafetensorsTest, WritesTheReferenceFileToTheByte) {
  Safetensors file = load_safetensors(kReference);
  std::reverse(file.tensors.begin(), file.tensors.end());  // the order given does not matter
  const fs::path path = folder_ / "again.safetensors";
  save_safetensors(path, file.tensors, file.metadata);
  EXPECT_EQ(read_file("test", path), read_file("test", kReference));
  EXPECT_EQ(entries(), 1);
}

TEST_F(SafetensorsTest, TensorsOfAnyStridesAreWrittenInRowMajorOrder) {
  const Tensor tensor = Tensor::from_vector<float>({1, 2, 3, 4, 5, 6}, {2, 3}).view_as({3, 2}, {1, 3}, 0);
  save_safetensors(folder_ / "a", {{"t", tensor}});
  expect_tensor(load_safetensors(folder_ / "a").tensors, "t", kFloat32, {3, 2}, {1, 4, 2, 5, 3, 6});
}

TEST_F(SafetensorsTest, NothingToWriteIsAFileToo) {
  save_safetensors(folder_ / "a", NamedTensors{});
  const Safetensors file = load_safetensors(folder_ / "a");
  EXPECT_TRUE(file.tensors.empty());
  EXPECT_TRUE(file.metadata.empty());
  EXPECT_EQ(fs::file_size(folder_ / "a"), 16U);  // the length, and "{}" padded to 8
}

TEST_F(SafetensorsTest, WhatCannotBeWrittenLeavesTheOldFile) {
  const fs::path path = write("old");
  const Tensor t = Tensor::zeros({1});
  EXPECT_ERROR(save_safetensors(path, {{"a", t}, {"a", t}}), "save_safetensors: names must be unique; got 'a' twice");
  EXPECT_ERROR(save_safetensors(path, {{"", t}}), "a name must not be empty");
  EXPECT_ERROR(save_safetensors(path, {{"__metadata__", t}}), "got '__metadata__'");
  EXPECT_ERROR(save_safetensors(path, {{"a", Tensor{}}}), "every tensor must be defined; got Tensor{} as 'a'");
  EXPECT_ERROR(save_safetensors(path, {{"\xff", t}}), "names and metadata must be UTF-8 text");
  EXPECT_ERROR(save_safetensors(path, {{"a", t}}, {{"k", "\xff"}}), "names and metadata must be UTF-8 text");
  EXPECT_ERROR(save_safetensors(folder_ / "none" / "a", {{"a", t}}), "save_safetensors: cannot create a file beside",
               "none/a");
  EXPECT_EQ(read_file("test", path), (std::vector<std::uint8_t>{'o', 'l', 'd'}));
  EXPECT_EQ(entries(), 1);
}

struct BadFile {
  const char* name;
  std::string bytes;
  const char* message;
};

std::vector<BadFile> bad_files() {
  const std::string one = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  const std::string four(4, '\0'), eight(8, '\0');
  const auto entry = [](const std::string& fields) { return std::string("{\"a\":") + fields + "}"; };
  const auto two = [](int a, int b, int c, int d) {
    const auto bytes = [](int from, int to) {
      return fmt::format(R"({{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}})", to - from, from, to);
    };
    return fmt::format(R"({{"a":{},"b":{}}})", bytes(a, b), bytes(c, d));
  };
  return {
      {"empty file", "", "must begin with the 8 bytes of the header's length; got 0 bytes"},
      {"seven bytes", "1234567", "got 7 bytes"},
      {"length alone", std::string("\x02\0\0\0\0\0\0\0", 8),
       "must hold its whole header; got 0 bytes of 2; was it cut short?"},
      {"no header", file_of("", ""), "the header must begin with '{'"},
      {"header over the limit", file_of("{}", "", 100'000'001),
       "at most 100000000 bytes; got 100000001; is it a safetensors"},
      {"length of all ones", file_of("{}", "", UINT64_MAX), "at most 100000000 bytes; got 18446744073709551615"},
      {"header cut short", file_of(one, "", one.size() + 1), "must hold its whole header"},
      {"leading space", file_of(" {}", ""), "the header must begin with '{'"},
      {"an array", file_of("[]", ""), "the header must begin with '{'"},
      {"no JSON", file_of("{\"a\":", ""), "the header must be JSON; got [json.exception.parse_error"},
      {"text after the JSON", file_of("{}x", ""), "the header must be JSON"},
      {"no UTF-8", file_of("{\"\xff\":1}", ""), "the header must be JSON"},
      {"nested too deep", file_of(std::string("{\"a\":") + std::string(100000, '['), ""),
       "no deeper than a tensor's shape"},
      {"name twice", file_of(std::string("{") + one.substr(1, one.size() - 2) + "," + one.substr(1), four),
       "names must be unique; got 'a'"},
      {"field twice", file_of(entry(R"({"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]})"), four),
       "got 'dtype' twice"},
      {"not an object", file_of(entry("3"), ""), "must have dtype, shape and data_offsets, and nothing else; got 'a'"},
      {"field missing", file_of(entry(R"({"dtype":"F32","shape":[1]})"), four), "got 'a' without"},
      {"field too many", file_of(entry(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1})"), four),
       "and nothing else"},
      {"unknown dtype", file_of(entry(R"({"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]})"), four),
       "or BOOL; got F8_E4M3"},
      {"dtype a number", file_of(entry(R"({"dtype":1,"shape":[1],"data_offsets":[0,4]})"), four),
       "the dtype of 'a' must be text"},
      {"shape a number", file_of(entry(R"({"dtype":"F32","shape":1,"data_offsets":[0,4]})"), four),
       "the shape of 'a' must be a list"},
      {"nine axes", file_of(entry(R"({"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]})"), four),
       "at most 8 extents"},
      {"negative extent", file_of(entry(R"({"dtype":"F32","shape":[-1],"data_offsets":[0,4]})"), four),
       "integers from 0 to 2^63 - 1"},
      {"fractional extent", file_of(entry(R"({"dtype":"F32","shape":[1.0],"data_offsets":[0,4]})"), four),
       "integers from 0"},
      {"huge extent", file_of(entry(R"({"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,4]})"), four),
       "integers from 0"},
      {"shape overflows",
       file_of(entry(R"({"dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[0,4]})"), four),
       "must span its shape's bytes; got shape (4294967296, 4294967296, 4), [0, 4]"},
      {"shape too large", file_of(entry(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})"), four),
       "got shape (2,), [0, 4]"},
      {"one offset", file_of(entry(R"({"dtype":"F32","shape":[1],"data_offsets":[4]})"), four),
       "must be two unsigned integers"},
      {"negative offset", file_of(entry(R"({"dtype":"F32","shape":[1],"data_offsets":[-4,0]})"), four),
       "two unsigned integers"},
      {"offsets backwards", file_of(entry(R"({"dtype":"F32","shape":[0],"data_offsets":[4,0]})"), four),
       "must lie in the file's 4 bytes"},
      {"offset past the end", file_of(entry(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})"), four),
       "got [0, 8]; was it cut short?"},
      {"data cut short", file_of(one, "123"), "must lie in the file's 3 bytes of data"},
      {"data too long", file_of(one, eight), "tensors must cover the whole file; got 4 bytes of 8"},
      {"hole at the start", file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", eight),
       "no holes; got 'a' from byte 4"},
      {"hole", file_of(two(0, 2, 3, 8), eight), "tensors must leave no holes; got 'b' from byte 3, where 2 are taken"},
      {"overlap", file_of(two(0, 4, 2, 8), eight), "tensors must not overlap; got 'b' from byte 2, where 4 are taken"},
      {"same bytes", file_of(two(0, 8, 0, 8), eight), "tensors must not overlap; got 'b' from byte 0"},
      {"metadata a number", file_of("{\"__metadata__\":3}", ""), "__metadata__ must be an object"},
      {"metadata of numbers", file_of("{\"__metadata__\":{\"k\":3}}", ""),
       "must map text to text; got something else for 'k'"},
      {"bool of 2", file_of(entry(R"({"dtype":"BOOL","shape":[1],"data_offsets":[0,1]})"), "\x02"), "must be 0 or 1"},
  };
}

TEST_F(SafetensorsTest, FilesThatBreakTheFormatAreErrors) {
  for (const BadFile& bad : bad_files()) {
    SCOPED_TRACE(bad.name);
    const fs::path path = write(bad.bytes);
    EXPECT_ERROR(load_safetensors(path), "load_safetensors: '", "written.safetensors': ", bad.message);
  }
}

TEST_F(SafetensorsTest, TruncatedFilesAreErrors) {
  const auto bytes = read_file("test", kReference);
  for (std::size_t size = 0; size < bytes.size(); size += size < 16 || size + 8 >= bytes.size() ? 1 : 7) {
    const fs::path path = write(std::string(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)));
    EXPECT_ERROR(load_safetensors(path), "load_safetensors: '") << size;
  }
}

TEST_F(SafetensorsTest, PathsThatAreNoFilesAreErrors) {
  EXPECT_ERROR(load_safetensors(folder_ / "missing"), "missing': the file must exist and be readable");
  EXPECT_ERROR(load_safetensors(folder_), "the path must name a regular file");
}

class Pair : public Module {
 public:
  Pair() : Module("Pair") {
    weight = register_parameter("weight", Tensor::zeros({2, 3}));
    count = register_buffer("count", Tensor::zeros({1}, {.dtype = kInt64}));
  }
  Tensor weight, count;
};

TEST_F(SafetensorsTest, AModuleComesBackAsItWas) {
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

TEST_F(SafetensorsTest, AFileThatDoesNotFitTheModuleChangesNothing) {
  Pair pair;
  pair.weight.fill_(1.0);
  save_safetensors(folder_ / "m",
                   {{"weight", Tensor::zeros({2, 3}, {.dtype = kFloat64})}, {"bias", Tensor::zeros({2})}});
  EXPECT_ERROR(load_safetensors(folder_ / "m", pair), "m' does not fit the module", "(Pair)", "missing: count",
               "unexpected: bias", "mismatched: weight (the module has float32 (2, 3), got float64 (2, 3))");
  EXPECT_EQ(pair.weight.to_vector<float>(), std::vector<float>(6, 1.0F));
}

}  // namespace
}  // namespace adjoint::nn
