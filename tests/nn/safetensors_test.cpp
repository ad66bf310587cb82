// The safetensors format against a reference file (tests/fixtures/make_safetensors_fixture.py), round trips, and a
// table of files that break the format.
#include <adjoint/core/base/file.h>
#include <adjoint/nn/safetensors.h>
#include <adjoint/tests/nn/safetensors_files.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/fixtures.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <sys/stat.h>

namespace adjoint::nn {
namespace {

const fs::path kReference = testing::fixture("reference.safetensors");

const Tensor& find(const NamedTensors& tensors, const std::string& name) {
  for (const auto& [key, tensor] : tensors) {
    if (key == name) return tensor;
  }
  ADD_FAILURE() << "no tensor " << name;
  return tensors.front().second;
}

void expect_tensor(const NamedTensors& tensors, const char* name, DType dtype, const Shape& shape,
                   const std::vector<double>& values) {
  const Tensor tensor = find(tensors, name);
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
  EXPECT_ERROR(save_safetensors(folder_ / "none" / "a", {{"a", t}}), "save_safetensors: cannot create a file next to",
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
      {"a zero after the JSON", file_of(std::string("{}\0", 3), ""), "the header must be JSON; got a zero byte"},
      {"text after a zero", file_of(std::string("{}\0x", 4), ""), "the header must be JSON; got a zero byte"},
      {"no UTF-8", file_of("{\"\xff\":1}", ""), "the header must be JSON"},
      {"nested too deep", file_of(std::string("{\"a\":") + std::string(100000, '['), ""), "and nothing else; got 'a'"},
      {"objects nested too deep", file_of(entry(R"({"dtype":{"dtype":{}}})"), ""), "the dtype of 'a' must be text"},
      {"shape nested", file_of(entry(R"({"shape":[[1]]})"), ""), "the shape of 'a' must be made of integers"},
      {"offsets nested", file_of(entry(R"({"data_offsets":[0,[4]]})"), ""), "must be two unsigned integers"},
      {"three offsets", file_of(entry(R"({"data_offsets":[0,4,8]})"), ""), "must be two unsigned integers"},
      {"offsets a number", file_of(entry(R"({"data_offsets":4})"), ""), "must be two unsigned integers"},
      {"offsets of text", file_of(entry(R"({"data_offsets":["0","4"]})"), ""), "must be two unsigned integers"},
      {"huge offset", file_of(entry(R"({"data_offsets":[0,18446744073709551616]})"), ""), "two unsigned integers"},
      {"a list", file_of("{\"a\":[]}", ""), "and nothing else; got 'a'"},
      {"null", file_of("{\"a\":null}", ""), "and nothing else; got 'a'"},
      {"true", file_of("{\"a\":true}", ""), "and nothing else; got 'a'"},
      {"text", file_of("{\"a\":\"b\"}", ""), "and nothing else; got 'a'"},
      {"zero extent beside huge ones",
       file_of(entry(R"({"dtype":"F32","shape":[0,2305843009213693952,8],"data_offsets":[0,0]})"), ""),
       "must span its shape's bytes; got shape (0, 2305843009213693952, 8), [0, 0]"},
      {"zero extent behind huge ones",
       file_of(entry(R"({"dtype":"U8","shape":[4294967296,4294967296,0],"data_offsets":[0,0]})"), ""),
       "must span its shape's bytes"},
      {"half a byte", file_of(entry(R"({"dtype":"F4","shape":[3],"data_offsets":[0,1]})"), "1"),
       "must span its shape's bytes; got shape (3,), [0, 1]"},
      {"other dtype, too short", file_of(entry(R"({"dtype":"I16","shape":[3],"data_offsets":[0,4]})"), four),
       "must span its shape's bytes"},
      {"metadata twice", file_of(R"({"__metadata__":{},"__metadata__":{}})", ""), "got '__metadata__' twice"},
      {"metadata's key twice", file_of(R"({"__metadata__":{"k":"a","k":"b"}})", ""), "got 'k' twice"},
      {"metadata nested", file_of(R"({"__metadata__":{"k":{}}})", ""), "something else for 'k'"},
      {"metadata a list", file_of(R"({"__metadata__":[]})", ""), "__metadata__ must be an object"},
      {"name twice", file_of(std::string("{") + one.substr(1, one.size() - 2) + "," + one.substr(1), four),
       "names must be unique; got 'a' twice"},
      {"field twice", file_of(entry(R"({"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]})"), four),
       "got 'dtype' twice"},
      {"not an object", file_of(entry("3"), ""), "must have dtype, shape and data_offsets, and nothing else; got 'a'"},
      {"field missing", file_of(entry(R"({"dtype":"F32","shape":[1]})"), four), "got 'a' without"},
      {"field too many", file_of(entry(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1})"), four),
       "and nothing else"},
      {"unknown dtype", file_of(entry(R"({"dtype":"F12","shape":[4],"data_offsets":[0,4]})"), four),
       "the dtype of 'a' must be one of I64, F64, F32, "},
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
  EXPECT_ERROR(load_safetensors(folder_ / "missing"), "load_safetensors: cannot open '", "missing'");
  EXPECT_ERROR(load_safetensors(folder_), "load_safetensors: '", "must be a regular file; got a folder");
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_ERROR(load_safetensors(folder_ / "pipe"), "pipe' must be a regular file");
  Module module;
  EXPECT_ERROR(load_safetensors(folder_ / "pipe", module), "pipe' must be a regular file");
}

// The header {"__metadata__":{"k":"xxx..."}} with as many x.
std::string header_of(std::size_t count) { return R"({"__metadata__":{"k":")" + std::string(count, 'x') + R"("}})"; }

TEST_F(SafetensorsTest, TheLargestHeaderIsReadAndWritten) {
  constexpr std::size_t kLargest = 100'000'000, kAround = 25;
  const Metadata largest{{"k", std::string(kLargest - kAround, 'x')}};
  save_safetensors(folder_ / "largest", NamedTensors{}, largest);
  EXPECT_EQ(fs::file_size(folder_ / "largest"), kLargest + 8);
  EXPECT_TRUE(load_safetensors(folder_ / "largest").metadata == largest);
  EXPECT_ERROR(save_safetensors(folder_ / "larger", NamedTensors{}, {{"k", largest.at("k") + "x"}}),
               "the header must be at most 100000000 bytes; got 100000008");
}

TEST_F(SafetensorsTest, HeadersMayBeReadInPieces) {
  // The file is read in pieces of 65,536 bytes: names, escapes and numbers cross their borders.
  for (std::size_t length = 65'430; length < 65'540; ++length) {
    std::string header = header_of(length);
    header.pop_back();
    header += R"(,"n\u00e4me\n":{"dtype":"U8","shape":[1,3],"data_offsets":[0,3]}})";
    const Safetensors file = load_safetensors(write(file_of(header, "\1\2\3")));
    ASSERT_EQ(file.metadata.at("k").size(), length);
    ASSERT_EQ(file.tensors.size(), 1U);
    expect_tensor(file.tensors, "n\xc3\xa4me\n", kUInt8, {1, 3}, {1, 2, 3});
  }
}

TEST_F(SafetensorsTest, HeadersOfTooManyEntriesAreErrors) {
  std::string tensors = "{", metadata = R"({"__metadata__":{)";
  for (int i = 0; i <= 1'000'000; ++i) {
    tensors += fmt::format(R"({}"{}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", i == 0 ? "" : ",", i);
    metadata += fmt::format(R"({}"{}":"")", i == 0 ? "" : ",", i);
  }
  EXPECT_ERROR(load_safetensors(write(file_of(tensors + "}", ""))), "the header must name at most 1000000 tensors");
  EXPECT_ERROR(load_safetensors(write(file_of(metadata + "}}", ""))), "__metadata__ must hold at most 1000000 entries");
}

TEST_F(SafetensorsTest, TextIsEscaped) {
  const Metadata metadata{{"\"\\/\b\f\n\r\t", std::string("\0\x1f\x7f", 3)}, {"\xf0\x9f\x98\x80", ""}};
  save_safetensors(folder_ / "a", {{"\"a\"\\", Tensor::zeros({1})}}, metadata);
  const Safetensors file = load_safetensors(folder_ / "a");
  EXPECT_EQ(file.metadata, metadata);
  EXPECT_EQ(file.tensors.at(0).first, "\"a\"\\");
}

// ---- Dtypes that are no tensor's own.

struct Foreign {
  const char* dtype;
  std::string bytes;
  DType becomes;
  std::vector<double> values;
};

std::vector<Foreign> foreign_dtypes() {
  return {{"I8", raw(std::int8_t{-128}, std::int8_t{-1}, std::int8_t{127}), kInt32, {-128, -1, 127}},
          {"I16", raw(std::int16_t{-32768}, std::int16_t{300}), kInt32, {-32768, 300}},
          {"U16", raw(std::uint16_t{65535}, std::uint16_t{7}), kInt32, {65535, 7}},
          {"U32", raw(std::uint32_t{4294967295}, std::uint32_t{5}), kInt64, {4294967295, 5}},
          {"U64", raw(std::uint64_t{1} << 62, std::uint64_t{9}), kInt64, {0x1p62, 9}},
          {"F8_E4M3", "\x7e\x01\x38\xb8", kFloat32, {448, 0x1p-9, 1, -1}},
          {"F8_E5M2", "\x7b\x01\x3c\xfc", kFloat32, {57344, 0x1p-16, 1, -INFINITY}},
          {"F8_E8M0", std::string("\0\x7f\xfe", 3), kFloat32, {0x1p-127, 1, 0x1p127}}};
}

TEST_F(SafetensorsTest, ForeignDtypesArePassedOverOrConverted) {
  for (const Foreign& foreign : foreign_dtypes()) {
    SCOPED_TRACE(foreign.dtype);
    const fs::path path = write(file_with(foreign.dtype, foreign.bytes, foreign.values.size()));
    const Safetensors passed = load_safetensors(path);
    ASSERT_EQ(passed.tensors.size(), 2U);
    expect_tensor(passed.tensors, "a", kFloat32, {1}, {1.5});
    expect_tensor(passed.tensors, "z", kFloat32, {}, {2.5});
    EXPECT_EQ(passed.skipped, (std::vector<std::pair<std::string, std::string>>{{"m", foreign.dtype}}));
    const Safetensors converted = load_safetensors(path, {.convert_dtype = true});
    ASSERT_EQ(converted.tensors.size(), 3U);
    EXPECT_TRUE(converted.skipped.empty());
    const auto count = static_cast<std::int64_t>(foreign.values.size());
    expect_tensor(converted.tensors, "m", foreign.becomes, {count}, foreign.values);
    expect_tensor(converted.tensors, "z", kFloat32, {}, {2.5});
  }
  const std::pair<const char*, int> never[] = {{"C64", 64}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4}};
  for (const auto& [dtype, bits] : never) {
    const fs::path path = write(file_with(dtype, std::string(static_cast<std::size_t>(bits), '\0'), 8));
    for (const bool convert : {false, true}) {
      const Safetensors file = load_safetensors(path, {.convert_dtype = convert});
      EXPECT_EQ(file.skipped, (std::vector<std::pair<std::string, std::string>>{{"m", dtype}}));
      expect_tensor(file.tensors, "z", kFloat32, {}, {2.5});
    }
  }
  const fs::path large = write(file_with("U64", raw(std::uint64_t{3}, std::uint64_t{1} << 63), 2));
  EXPECT_EQ(load_safetensors(large).skipped.size(), 1U);
  EXPECT_ERROR(load_safetensors(large, {.convert_dtype = true}),
               "the elements of 'm' must be at most 2^63 - 1 to become int64; got 9223372036854775808");
}

// By the definition: sign, exponent, fraction.
double f8(int code, int fraction_bits, int bias) {
  const int exponent = (code & 0x7f) >> fraction_bits, fraction = code & ((1 << fraction_bits) - 1);
  const double scale = std::pow(2.0, -fraction_bits);
  const double magnitude = exponent == 0 ? std::pow(2.0, 1 - bias) * fraction * scale
                                         : std::pow(2.0, exponent - bias) * (1.0 + fraction * scale);
  return code >= 0x80 ? -magnitude : magnitude;
}

TEST_F(SafetensorsTest, EveryF8CodeHasItsValue) {
  std::string codes;
  for (int code = 0; code < 256; ++code) codes += static_cast<char>(code);
  const auto read = [&](const char* dtype) {
    const Safetensors file = load_safetensors(write(file_with(dtype, codes, 256)), {.convert_dtype = true});
    return find(file.tensors, "m").to_vector<float>();
  };
  const std::vector<float> e4m3 = read("F8_E4M3"), e5m2 = read("F8_E5M2"), e8m0 = read("F8_E8M0");
  for (int code = 0; code < 256; ++code) {
    SCOPED_TRACE(code);
    const auto i = static_cast<std::size_t>(code);
    const bool negative = code >= 0x80;
    if ((code & 0x7f) == 0x7f) {
      EXPECT_TRUE(std::isnan(e4m3[i]));
    } else {
      EXPECT_EQ(e4m3[i], f8(code, 3, 7));
      EXPECT_EQ(std::signbit(e4m3[i]), negative);
    }
    if ((code & 0x7f) > 0x7c) {
      EXPECT_TRUE(std::isnan(e5m2[i]));
    } else if ((code & 0x7f) == 0x7c) {
      EXPECT_EQ(e5m2[i], negative ? -INFINITY : INFINITY);
    } else {
      EXPECT_EQ(e5m2[i], f8(code, 2, 15));
      EXPECT_EQ(std::signbit(e5m2[i]), negative);
    }
    if (code == 255) {
      EXPECT_TRUE(std::isnan(e8m0[i]));
    } else {
      EXPECT_EQ(e8m0[i], std::pow(2.0, code - 127));
    }
  }
}

}  // namespace
}  // namespace adjoint::nn
