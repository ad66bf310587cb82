#include <adjoint/core/base/error.h>
#include <adjoint/data/array_files.h>
#include <adjoint/tests/data/array_files.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

namespace adjoint::data {
namespace {

using testing::expect_values;

/// 0, 1, ... in every element of the 2 x 3 x 4 voxels.
template <class T>
std::vector<T> counted() {
  std::vector<T> elements(24);
  std::iota(elements.begin(), elements.end(), T(0));
  return elements;
}
std::vector<double> counted_values() { return counted<double>(); }

template <class T>
void expect_type(std::int16_t type, DType dtype) {
  for (const bool big_endian : {false, true}) {
    SCOPED_TRACE(std::to_string(type) + (big_endian ? " big" : " little"));
    NiftiFile file{.big_endian = big_endian, .type = type, .bits = static_cast<std::int16_t>(8 * sizeof(T))};
    std::vector<T> elements = counted<T>();
    elements[5] = std::numeric_limits<T>::lowest();
    const NiftiVolume volume = decode_nifti(file.with(elements));
    EXPECT_EQ(volume.values.dtype(), dtype);
    EXPECT_EQ(volume.values.shape(), Shape({4, 3, 2}));
    std::vector<double> expected(elements.begin(), elements.end());
    expect_values("values", volume.values, expected);
    file.slope = 0.5F, file.intercept = -3.0F;
    for (double& value : expected) value = value * 0.5 - 3.0;
    const Tensor scaled = decode_nifti(file.with(elements)).values;
    EXPECT_EQ(scaled.dtype(), dtype == kFloat64 ? kFloat64 : kFloat32);
    if (scaled.dtype() == kFloat32) {
      for (double& value : expected) value = static_cast<float>(value);
    }
    expect_values("scaled", scaled, expected);
  }
}

TEST(Nifti, ReadsEveryTypeInBothByteOrders) {
  expect_type<std::uint8_t>(2, kUInt8);
  expect_type<std::int16_t>(4, kInt32);
  expect_type<std::int32_t>(8, kInt32);
  expect_type<float>(16, kFloat32);
  expect_type<double>(64, kFloat64);
  expect_type<std::int8_t>(256, kInt32);
  expect_type<std::uint16_t>(512, kInt32);
  expect_type<std::uint32_t>(768, kInt64);
  expect_type<std::int64_t>(1024, kInt64);
  expect_type<std::uint64_t>(1280, kInt64);
}

TEST(Nifti, TurnsAxesAndReadsSpacing) {
  const NiftiVolume volume = decode_nifti(NiftiFile{}.with(counted<std::uint8_t>()));
  EXPECT_EQ(volume.values.select(0, 1).select(0, 2).select(0, 1).item<int>(), 1 + 2 * 2 + 1 * 6);  // x + 2 y + 6 z
  EXPECT_EQ(volume.spacing, (std::array<double, 3>{2.0, 0.75, 0.5}));
  const NiftiFile odd{.spacing = {-0.5F, 0.0F, std::numeric_limits<float>::infinity()}};
  EXPECT_EQ(decode_nifti(odd.with(counted<std::uint8_t>())).spacing, (std::array<double, 3>{1.0, 1.0, 0.5}));
  const auto shape_of = [](std::vector<std::int16_t> dim) {
    return decode_nifti(NiftiFile{.dim = std::move(dim)}.with(counted<std::uint8_t>())).values.shape();
  };
  EXPECT_EQ(shape_of({4, 2, 3, 4, 1}), Shape({4, 3, 2}));
  EXPECT_EQ(shape_of({5, 2, 3, 2, 1, 2}), Shape({2, 1, 2, 3, 2}));
  EXPECT_EQ(shape_of({2, 24, 1}), Shape({1, 24}));
}

TEST(Nifti, ReadsFilesAndSkipsExtensions) {
  const std::filesystem::path path = std::filesystem::path(::testing::TempDir()) / "adjoint_volume.nii.gz";
  for (const float offset : {0.0F, 352.0F, 400.0F, 3000.0F}) {
    const Bytes packed = gzip(NiftiFile{.offset = offset}.with(counted<std::uint8_t>()));
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(packed.data()), static_cast<std::streamsize>(packed.size()));
    expect_values("values", read_nifti(path).values, counted_values());
  }
  std::filesystem::remove(path);
  EXPECT_ERROR(read_nifti(path), "read_nifti: ", "adjoint_volume.nii.gz");
}

TEST(Nifti, DoesNotScaleByZeroOrNan) {
  for (const float slope : {0.0F, std::nanf(""), 1.0F}) {
    const Tensor values = decode_nifti(NiftiFile{.slope = slope}.with(counted<std::uint8_t>())).values;
    EXPECT_EQ(values.dtype(), kUInt8);
    expect_values("values", values, counted_values());
  }
}

TEST(Nifti, SaysWhatIsWrong) {
  const auto decode = [](const Bytes& file, std::int64_t max_bytes = 1 << 20) {
    return decode_nifti(file, {.max_bytes = max_bytes}, "brain");
  };
  const std::vector<std::uint8_t> voxels = counted<std::uint8_t>();
  const Bytes good = NiftiFile{}.with(voxels);
  EXPECT_ERROR(decode({}), "decode_nifti: 'brain' must be a NIfTI-1 file; got something else");
  EXPECT_ERROR(decode({1, 2, 3}), "got something else");
  EXPECT_ERROR(decode(Bytes(good.begin(), good.begin() + 200)), "'brain' must have a header of 348 bytes; got 200");
  EXPECT_ERROR(decode(NiftiFile{.header_bytes = 540}.with(voxels)), "got NIfTI-2");
  EXPECT_ERROR(decode(NiftiFile{.big_endian = true, .header_bytes = 540}.with(voxels)), "got NIfTI-2");
  EXPECT_ERROR(decode(NiftiFile{.magic = std::string("ni1\0", 4)}.with(voxels)), "a pair, .hdr and .img");
  EXPECT_ERROR(decode(NiftiFile{.magic = std::string(4, '\0')}.with(voxels)), "Analyze");
  EXPECT_ERROR(decode(NiftiFile{.type = 128, .bits = 24}.with(voxels)), "type 128, colours");
  EXPECT_ERROR(decode(NiftiFile{.type = 32, .bits = 64}.with(voxels)), "type 32, complex numbers");
  EXPECT_ERROR(decode(NiftiFile{.bits = 16}.with(voxels)), "8 bits for each voxel of type 2; got 16");
  EXPECT_ERROR(decode(NiftiFile{.dim = {0}}.with(voxels)), "from 1 to 7 axes; got 0");
  EXPECT_ERROR(decode(NiftiFile{.dim = {8, 1, 1}}.with(voxels)), "from 1 to 7 axes; got 8");
  EXPECT_ERROR(decode(NiftiFile{.dim = {3, 2, -3, 4}}.with(voxels)), "got -3 along axis 2");
  EXPECT_ERROR(decode(NiftiFile{.dim = {3, 2, 3, 5}}.with(voxels)), "'brain' must ", "elements");
  EXPECT_ERROR(decode(NiftiFile{.dim = {3, 2, 3, 3}}.with(voxels)), "'brain' must ");
  EXPECT_ERROR(decode(NiftiFile{.dim = {3, 30000, 30000, 30000}}.with(voxels)), "at most 1048576 bytes");
  EXPECT_ERROR(decode(NiftiFile{.dim = {7, 30000, 30000, 30000, 30000, 30000, 2, 2}}.with(voxels)), "2^63 bytes");
  for (const float offset : {348.0F, 352.5F, -1.0F, std::nanf(""), 1e30F})
    EXPECT_ERROR(decode(NiftiFile{.offset = offset}.with(voxels)), "must have its elements at byte 352 or a later one");
  EXPECT_ERROR(decode(NiftiFile{.offset = 1e9F}.with(voxels)), "'brain' must ", "extensions");
  EXPECT_ERROR(decode(NiftiFile{.slope = 2.0F, .intercept = std::nanf("")}.with(voxels)), "finite scl_inter");
  Bytes packed = gzip(good);
  packed.resize(packed.size() - 12);
  EXPECT_ERROR(decode(packed), "'brain' must ");
  std::vector<std::uint64_t> large(24, 1);
  large[3] = std::uint64_t{1} << 63;
  EXPECT_ERROR(decode(NiftiFile{.type = 1280, .bits = 64}.with(large)), "below 2^63", "as element 3");
}

}  // namespace
}  // namespace adjoint::data
