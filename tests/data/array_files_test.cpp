#include <adjoint/core/base/error.h>
#include <adjoint/data/array_files.h>
#include <adjoint/tests/data/array_files.h>

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

namespace adjoint::data {
namespace {

namespace fs = std::filesystem;

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

class ArrayFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) /
              (std::string("adjoint_arrays_") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path write(const std::string& name, const Bytes& bytes) const {
    std::ofstream file(folder_ / name, std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return folder_ / name;
  }

  fs::path folder_;
};

// ---- npy.

TEST_F(ArrayFiles, ReadsWhatNumPyWrites) {
  ASSERT_GE(npy_fixtures().size(), 20U);
  for (const NpyFixture& fixture : npy_fixtures()) {
    for (const bool packed : {false, true}) {
      const fs::path path = write(fixture.name, packed ? gzip(fixture.file) : fixture.file);
      const Tensor array = read_npy(path);
      EXPECT_EQ(to_string(array.dtype()), fixture.dtype) << fixture.name;
      EXPECT_EQ(array.shape(), fixture.shape) << fixture.name;
      EXPECT_EQ(array.to_vector<double>(), fixture.values) << fixture.name;
      EXPECT_TRUE(array.is_contiguous());
    }
  }
}

TEST_F(ArrayFiles, WritesWhatNumPyWrites) {
  int same = 0;
  for (const NpyFixture& fixture : npy_fixtures()) {
    if (!fixture.same) continue;
    const Tensor array = decode_npy(fixture.file);
    EXPECT_EQ(encode_npy(array), fixture.file) << fixture.name;
    write_npy(folder_ / "array.npy", array);
    EXPECT_EQ(fs::file_size(folder_ / "array.npy"), fixture.file.size());
    EXPECT_EQ(read_npy(folder_ / "array.npy").to_vector<double>(), fixture.values);
    ++same;
  }
  EXPECT_EQ(same, 8);
}

TEST_F(ArrayFiles, EveryDTypeComesBack) {
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64, kInt32, kInt64, kUInt8, kBool}) {
    const Tensor whole = Tensor::from_vector({0, 1, 1, 0, 1, 0, 0, 1, 1, 1, 0, 0}, {3, 4}, {.dtype = dtype});
    for (const Tensor& array : {whole, whole.permute({1, 0}), whole.narrow(1, 1, 2), whole.narrow(0, 1, 0)}) {
      const Tensor back = decode_npy(encode_npy(array));
      EXPECT_EQ(back.dtype(), dtype);
      EXPECT_EQ(back.shape(), array.shape());
      EXPECT_EQ(back.to_vector<int>(), array.to_vector<int>());
    }
  }
}

TEST_F(ArrayFiles, ABoolIsWhatIsNotZero) {
  Bytes file = npy_file("{'descr': '|b1', 'fortran_order': False, 'shape': (3,)}", 3);
  file[file.size() - 1] = 2;
  file[file.size() - 2] = 255;
  const Tensor array = decode_npy(file);
  std::array<std::uint8_t, 3> bytes{};
  std::memcpy(bytes.data(), array.raw_data(), 3);
  EXPECT_EQ(bytes, (std::array<std::uint8_t, 3>{0, 1, 1}));
}

TEST_F(ArrayFiles, IntegersThatNoDTypeHasAreThoseOfTheNextWiderOne) {
  struct Case {
    const char* descr;
    std::int64_t bytes;
    std::vector<std::int64_t> values;
    DType dtype;
  };
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  for (const auto& [descr, bytes, values, dtype] :
       {Case{"i1", 1, {-128, -1, 0, 127, 5, 6}, kInt32}, Case{"i2", 2, {-32768, -2, 32767, 258, 1, 0}, kInt32},
        Case{"u2", 2, {0, 65535, 32768, 258, 1, 2}, kInt32},
        Case{"u4", 4, {0, 4294967295, 2147483648, 1, 2, 3}, kInt64}, Case{"u8", 8, {0, most, 1, 2, 3, 4}, kInt64}}) {
    for (const char order : {'<', '>', '|'}) {
      if ((order == '|') != (bytes == 1)) continue;
      for (const bool fortran : {false, true}) {
        Bytes file = npy_file(std::string("{'descr': '") + order + descr +
                              "', 'fortran_order': " + (fortran ? "True" : "False") + ", 'shape': (2, 3)}");
        for (const std::int64_t value : values) {
          for (std::int64_t i = 0; i < bytes; ++i) {
            file.push_back(static_cast<std::uint8_t>(value >> 8 * (order == '>' ? bytes - 1 - i : i)));
          }
        }
        for (const Bytes& each : {file, gzip(file)}) {
          const Tensor array = decode_npy(each);
          EXPECT_EQ(array.dtype(), dtype) << descr;
          EXPECT_EQ(array.shape(), (Shape{2, 3}));
          const Tensor in_order = fortran ? array.permute({1, 0}).contiguous() : array;
          EXPECT_EQ(in_order.to_vector<std::int64_t>(), values) << order << descr << fortran;
        }
        file.pop_back();
        EXPECT_EQ(error_of([&] { decode_npy(file, {}, "a.npy"); }),
                  "decode_npy: 'a.npy' must hold " + std::to_string(6 * bytes) + " bytes of elements; got " +
                      std::to_string(6 * bytes - 1) + "; is it cut short?");
        const auto too_few = static_cast<std::int64_t>(6 * element_size(dtype) - 1);
        EXPECT_TRUE(error_of([&] {
                      decode_npy(file, {.max_bytes = too_few}, "a.npy");
                    }).starts_with("decode_npy: 'a.npy' must take at most "));
      }
    }
  }
  Bytes large = npy_file("{'descr': '<u8', 'fortran_order': False, 'shape': (2,)}", 16);
  large.back() = 0x80;
  EXPECT_EQ(error_of([&] { decode_npy(large, {}, "a.npy"); }),
            "decode_npy: 'a.npy' must hold numbers below 2^63, as int64 does; got 9223372036854775808 as element 1 of "
            "the file");
  EXPECT_EQ(decode_npy(npy_file("{'descr': '<u2', 'fortran_order': False, 'shape': (0, 3)}")).shape(), (Shape{0, 3}));
}

TEST_F(ArrayFiles, ZerosBehindAPackedFileAreNone) {
  const Bytes file = npy_file("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 8), packed = gzip(file);
  for (const std::size_t zeros : {1U, 511U, 200000U}) {
    Bytes padded = packed;
    padded.resize(padded.size() + zeros);
    EXPECT_EQ(decode_npy(padded).shape(), Shape{2}) << zeros;
    Bytes twice = gzip(Bytes(file.begin(), file.begin() + 20));
    const Bytes second = gzip(Bytes(file.begin() + 20, file.end()));
    twice.insert(twice.end(), second.begin(), second.end());
    twice.resize(twice.size() + zeros);
    EXPECT_EQ(decode_npy(twice).shape(), Shape{2}) << zeros;
    padded.push_back(1);
    EXPECT_EQ(error_of([&] { decode_npy(padded, {}, "a.npy"); }),
              "decode_npy: 'a.npy' must end after its gzip members and zeros; got more");
    padded.back() = 0;
    padded.insert(padded.end(), packed.begin(), packed.end());
    EXPECT_EQ(error_of([&] { decode_npy(padded, {}, "a.npy"); }),
              "decode_npy: 'a.npy' must end after its gzip members and zeros; got more");
  }
}

TEST_F(ArrayFiles, HeadersMayBeWrittenInOtherWays) {
  for (const char* header : {
           "{'shape':(2,3),'fortran_order':False,'descr':'<f4'}",
           "{\"descr\": \"<f4\", \"fortran_order\": False, \"shape\": (2L, 3L), }   \n",
           "  { 'descr' : '=f4' ,\n'fortran_order' : False , 'shape' : ( 2 , 3 , ) , } ",
       }) {
    EXPECT_EQ(decode_npy(npy_file(header, 24)).shape(), (Shape{2, 3})) << header;
  }
  EXPECT_EQ(decode_npy(npy_file("{'descr': '<f4', 'fortran_order': True, 'shape': ()}", 4)).shape(), Shape{});
}

TEST_F(ArrayFiles, HostileNpyHeadersAreErrorsThatNameFileAndValue) {
  const auto message = [&](const Bytes& file) { return error_of([&] { decode_npy(file, {}, "a.npy"); }); };
  const auto with = [](const std::string& descr, const std::string& shape) {
    return npy_file("{'descr': " + descr + ", 'fortran_order': False, 'shape': " + shape + "}", 8);
  };
  EXPECT_EQ(message({'n', 'o', 'n', 'p', 'y', 0, 0, 0}), "decode_npy: 'a.npy' must be a npy file; got something else");
  EXPECT_EQ(message({}), "decode_npy: 'a.npy' must be a npy file; got something else");
  EXPECT_EQ(message({0x1f}), "decode_npy: 'a.npy' must be a npy file; got something else");
  Bytes version = with("'<f4'", "(2,)");
  version[6] = 4;
  EXPECT_EQ(message(version), "decode_npy: 'a.npy' must be of version 1.0, 2.0 or 3.0; got 4.0");
  EXPECT_EQ(message({0x93, 'N', 'U', 'M', 'P', 'Y', 2, 0, 0xff, 0xff, 0xff, 0xff}),
            "decode_npy: 'a.npy' must have a header of at most 65536 bytes; got 4294967295");
  EXPECT_EQ(message({0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, 80, 0, '{'}),
            "decode_npy: 'a.npy' must hold 80 bytes of header; got 1; is it cut short?");
  for (const char* descr : {"'<c8'", "'<U3'", "'|O'", "'<f16'", "''", "'f4'", "'<b4'"}) {
    const std::string text(descr);
    EXPECT_EQ(message(with(descr, "(2,)")),
              "decode_npy: 'a.npy' must hold elements of f2, V2, f4, f8, i4, i8, u1, b1, i1, i2, u2, u4, u8; "
              "got " +
                  text);
  }
  EXPECT_EQ(
      message(with("[('x', '<f4')]", "(2,)")),
      "decode_npy: 'a.npy' must hold elements of f2, V2, f4, f8, i4, i8, u1, b1, i1, i2, u2, u4, u8; got '[('x', '<f4')'");
  for (const char* shape : {"2", "(2", "(-2,)", "(2.5,)", "(99999999999999999999,)", "('2',)", "(2 3)"}) {
    EXPECT_TRUE(message(with("'<f4'", shape)).starts_with("decode_npy: 'a.npy' must have a header with 'descr', "))
        << shape;
  }
  for (const char* header : {"", "{}", "{'descr': '<f4', 'shape': (2,)}", "{'descr': '<f4'}}", "{'descr': '<f4",
                             "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}",
                             "{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}",
                             "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'more': 1}",
                             "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x"}) {
    EXPECT_EQ(message(npy_file(header, 8)),
              std::string("decode_npy: 'a.npy' must have a header with 'descr', 'fortran_order' and 'shape'; got \"") +
                  header + "\"");
  }
  EXPECT_EQ(message(with("'<f4'", "(1,1,1,1,1,1,1,1,2)")),
            "decode_npy: 'a.npy' must have at most 8 axes; got more, (1, 1, 1, 1, 1, 1, 1, 1) first");
  EXPECT_EQ(message(with("'<f4'", "(4611686018427387904, 4)")),
            "decode_npy: 'a.npy' must have a size below 2^63 bytes; got float32 of (4611686018427387904, 4)");
  EXPECT_EQ(message(with("'<f8'", "(1000000000, 1000000000)")),
            "decode_npy: 'a.npy' must take at most 1099511627776 bytes; got float64 of (1000000000, 1000000000), which "
            "take 8000000000000000000");
  EXPECT_EQ(message(with("'<f8'", "(100000000000,)")),
            "decode_npy: 'a.npy' must hold 800000000000 bytes of elements; got 8; is it cut short?");
  EXPECT_EQ(message(with("'<f4'", "(1,)")), "decode_npy: 'a.npy' must end after " +
                                                std::to_string(with("'<f4'", "(1,)").size() - 4) + " bytes; got more");
}

TEST_F(ArrayFiles, EveryBeginningOfAFileIsAnError) {
  for (const NpyFixture& fixture : {npy_fixtures()[0], npy_fixtures().back()}) {
    for (const Bytes& file : {fixture.file, gzip(fixture.file)}) {
      for (std::size_t size = 0; size < file.size(); ++size) {
        const Bytes part(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
        EXPECT_THROW(decode_npy(part), Error) << fixture.name << " cut to " << size;
      }
    }
  }
}

TEST_F(ArrayFiles, AnErrorNamesThePath) {
  const fs::path path = write("short.npy", npy_file("{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", 11));
  EXPECT_EQ(error_of([&] { read_npy(path); }),
            "read_npy: '" + path.string() + "' must hold 12 bytes of elements; got 11; is it cut short?");
  EXPECT_TRUE(error_of([&] { read_npy(folder_ / "none"); }).starts_with("read_npy: cannot open '" + folder_.string()));
  EXPECT_TRUE(
      error_of([&] { read_npy(folder_); }).starts_with("read_npy: '" + folder_.string() + "' must be a regular"));
  EXPECT_EQ(error_of([&] { write_npy(folder_ / "x.npy", {}); }),
            "write_npy: the array must be defined; got an undefined Tensor");
  EXPECT_EQ(error_of([&] { encode_npy({}); }), "encode_npy: the array must be defined; got an undefined Tensor");
  EXPECT_TRUE(error_of([&] { write_npy(folder_ / "no" / "x.npy", Tensor::zeros({1})); }).starts_with("write_npy: "));
}

// ---- gzip.

TEST_F(ArrayFiles, PackedFilesMayHaveMembersAndMustBeWhole) {
  const Bytes file = encode_npy(Tensor::arange(0.0, 1000));
  Bytes members = gzip({file.begin(), file.begin() + 100});
  const Bytes rest = gzip({file.begin() + 100, file.end()}), nothing = gzip({});
  members.insert(members.end(), nothing.begin(), nothing.end());
  members.insert(members.end(), rest.begin(), rest.end());
  EXPECT_EQ(decode_npy(members).to_vector<double>(), Tensor::arange(0.0, 1000).to_vector<double>());
  EXPECT_EQ(read_npy(write("members", members)).size(0), 1000);

  Bytes damaged = gzip(file);
  damaged[damaged.size() - 6] ^= 1;  // of the checksum
  EXPECT_EQ(error_of([&] { decode_npy(damaged, {}, "a.gz"); }),
            "decode_npy: 'a.gz' must hold gzip's data undamaged; got 'incorrect data check'");
  Bytes longer = gzip(file);
  longer.push_back('x');
  EXPECT_EQ(error_of([&] { decode_npy(longer, {}, "a.gz"); }),
            "decode_npy: 'a.gz' must be a whole gzip file; got one that ends early");
  Bytes shorter = gzip(file);
  shorter.resize(shorter.size() - 4);
  EXPECT_EQ(error_of([&] { decode_npy(shorter, {}, "a.gz"); }),
            "decode_npy: 'a.gz' must be a whole gzip file; got one that ends early");
}

TEST_F(ArrayFiles, APackedFileThatCannotUnpackToItsSizeIsRefusedBeforehand) {
  const Bytes file = gzip(npy_file("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000,)}", 100));
  EXPECT_EQ(error_of([&] { decode_npy(file, {}, "a.gz"); }),
            "decode_npy: 'a.gz' must hold 8000000 bytes of elements; got " + std::to_string(file.size()) +
                " packed ones, which cannot unpack to that");
  EXPECT_EQ(error_of([&] { decode_npy(file, {.max_bytes = 1000}, "a.gz"); }),
            "decode_npy: 'a.gz' must take at most 1000 bytes; got float64 of (1000000,), which take 8000000");
}

// ---- IDX.

TEST_F(ArrayFiles, ReadsEveryTypeOfIdx) {
  struct Case {
    std::uint8_t type;
    DType dtype;
    Bytes elements;  // two
    std::vector<double> values;
  };
  const std::vector<Case> cases{
      {0x08, kUInt8, {1, 255}, {1, 255}},
      {0x09, kInt32, {1, 255}, {1, -1}},
      {0x0b, kInt32, {1, 2, 0xff, 0xfe}, {258, -2}},
      {0x0c, kInt32, {0, 1, 0, 2, 0xff, 0xff, 0xff, 0xfd}, {65538, -3}},
      {0x0d, kFloat32, {0x3f, 0x80, 0, 0, 0xc0, 0x20, 0, 0}, {1, -2.5}},
      {0x0e, kFloat64, {0x3f, 0xf0, 0, 0, 0, 0, 0, 0, 0xc0, 0x04, 0, 0, 0, 0, 0, 0}, {1, -2.5}},
  };
  for (const Case& each : cases) {
    for (const std::vector<std::uint32_t>& extents :
         {std::vector<std::uint32_t>{2}, {1, 2}, {2, 1, 1}, {1, 1, 1, 1, 1, 1, 1, 2}}) {
      Bytes file = idx_header(each.type, extents);
      file.insert(file.end(), each.elements.begin(), each.elements.end());
      for (const Bytes& bytes : {file, gzip(file)}) {
        const Tensor array = read_idx(write("file", bytes));
        EXPECT_EQ(array.dtype(), each.dtype);
        EXPECT_EQ(array.shape(), Shape(extents.begin(), extents.end()));
        EXPECT_EQ(array.to_vector<double>(), each.values) << int{each.type};
      }
      for (std::size_t size = 0; size < file.size(); ++size) {
        EXPECT_THROW(decode_idx({file.data(), size}), Error) << int{each.type} << " cut to " << size;
      }
    }
  }
}

TEST_F(ArrayFiles, HostileIdxHeadersAreErrorsThatNameFileAndValue) {
  const auto message = [&](const Bytes& file) { return error_of([&] { decode_idx(file, {}, "a"); }); };
  EXPECT_EQ(message({1, 0, 8, 1}), "decode_idx: 'a' must be an IDX file, which begins with 0 0; got 1 0");
  EXPECT_EQ(message({0, 0, 10, 1}), "decode_idx: 'a' must hold elements of type 8, 9, 11, 12, 13 or 14; got type 10");
  EXPECT_EQ(message({0, 0, 8, 9}), "decode_idx: 'a' must have at most 8 axes; got 9");
  EXPECT_EQ(message({0, 0, 8}), "decode_idx: 'a' must hold 4 bytes of header; got 3; is it cut short?");
  EXPECT_EQ(message({0, 0, 8, 2, 0, 0, 0, 1}), "decode_idx: 'a' must hold 4 bytes of extent; got 0; is it cut short?");
  const std::vector<std::uint32_t> huge(8, 0xffffffff);
  for (const std::uint8_t type : {0x08, 0x09, 0x0b, 0x0e}) {
    EXPECT_TRUE(message(idx_header(type, huge)).starts_with("decode_idx: 'a' must have a size below 2^63 bytes; got "));
  }
  EXPECT_EQ(message(idx_header(0x0b, {1000, 1000})),
            "decode_idx: 'a' must hold 2000000 bytes of elements; got 0; is it cut short?");
  Bytes longer = idx_header(0x08, {1});
  longer.resize(longer.size() + 2);
  EXPECT_EQ(message(longer), "decode_idx: 'a' must end after 9 bytes; got more");
  EXPECT_EQ(message(idx_header(0x0b, {3, 0})), "no error");
}

// ---- MNIST and CIFAR-10.

TEST_F(ArrayFiles, ReadsMnistPackedOrNot) {
  Bytes images = idx_header(0x08, {2, 3, 4});
  for (int i = 0; i < 24; ++i) images.push_back(static_cast<std::uint8_t>(10 * i));
  Bytes labels = idx_header(0x08, {2});
  labels.insert(labels.end(), {7, 3});
  write("train-images-idx3-ubyte", images);
  write("train-labels-idx1-ubyte.gz", gzip(labels));
  const LabelledImages set = read_mnist(folder_);
  EXPECT_EQ(set.images.shape(), (Shape{2, 1, 3, 4}));
  EXPECT_EQ(set.images.dtype(), kUInt8);
  EXPECT_EQ(set.images.to_vector<int>()[23], 230);
  EXPECT_EQ(set.labels.dtype(), kInt64);
  EXPECT_EQ(set.labels.to_vector<int>(), (std::vector<int>{7, 3}));
  EXPECT_EQ(error_of([&] { read_mnist(folder_, false); }),
            "read_mnist: '" + folder_.string() +
                "' must hold t10k-images-idx3-ubyte or t10k-images-idx3-ubyte.gz; got neither");
  write("t10k-images-idx3-ubyte", images);
  write("t10k-labels-idx1-ubyte", idx_header(0x08, {0}));
  EXPECT_EQ(error_of([&] { read_mnist(folder_, false); }),
            "read_mnist: '" + (folder_ / "t10k-labels-idx1-ubyte").string() +
                "' must hold a label for each picture of '" + (folder_ / "t10k-images-idx3-ubyte").string() +
                "'; got 0 for 2");
  write("t10k-images-idx3-ubyte", labels);
  EXPECT_EQ(error_of([&] { read_mnist(folder_, false); }), "read_mnist: '" +
                                                               (folder_ / "t10k-images-idx3-ubyte").string() +
                                                               "' must hold uint8 of 3 axes; got uint8 (2,)");
}

TEST_F(ArrayFiles, ReadsCifar10) {
  constexpr std::size_t kRecord = 3073;
  const auto batch = [&](std::uint8_t label, std::size_t count) {
    Bytes bytes(count * kRecord);
    for (std::size_t i = 0; i < count; ++i) {
      bytes[i * kRecord] = static_cast<std::uint8_t>((label + i) % 10);
      for (std::size_t at = 1; at < kRecord; ++at)
        bytes[i * kRecord + at] = static_cast<std::uint8_t>(at * 7 + i + label);
    }
    return bytes;
  };
  for (std::uint8_t i = 1; i <= 5; ++i) write("data_batch_" + std::to_string(i) + ".bin", batch(i, i));
  const fs::path test = write("test_batch.bin", gzip(batch(9, 1100)));
  const LabelledImages train = read_cifar10(folder_);
  EXPECT_EQ(train.images.shape(), (Shape{15, 3, 32, 32}));
  EXPECT_EQ(train.labels.to_vector<int>(), (std::vector<int>{1, 2, 3, 3, 4, 5, 4, 5, 6, 7, 5, 6, 7, 8, 9}));
  const std::vector<int> pixels = train.images.to_vector<int>();
  EXPECT_EQ(pixels[0], 7 + 0 + 1);
  EXPECT_EQ(pixels[14 * 3072 + 3071], (3072 * 7 + 4 + 5) % 256);
  for (const fs::path& path : {folder_, test}) {
    const LabelledImages set = read_cifar10(path, false);
    EXPECT_EQ(set.images.size(0), 1100);
    EXPECT_EQ(set.labels.to_vector<int>()[1], 0);
  }
  EXPECT_EQ(error_of([&] { read_cifar10(write("cut.bin", Bytes(kRecord + 5))); }),
            "read_cifar10: '" + (folder_ / "cut.bin").string() + "' must hold records of 3073 bytes; got 3078 bytes");
  EXPECT_TRUE(error_of([&] { read_cifar10(write("empty.bin", {})); }).ends_with("of 3073 bytes; got 0 bytes"));
  Bytes label = batch(0, 2);
  label[kRecord] = 10;
  EXPECT_EQ(error_of([&] { read_cifar10(write("label.bin", label)); }),
            "read_cifar10: '" + (folder_ / "label.bin").string() +
                "' must hold labels from 0 to 9; got 10 in record 1");
  fs::remove(folder_ / "data_batch_3.bin");
  EXPECT_TRUE(error_of([&] { read_cifar10(folder_); }).starts_with("read_cifar10: cannot open '"));
}

}  // namespace
}  // namespace adjoint::data
