// NIfTI-1 files of medical images (https://nifti.nimh.nih.gov/nifti-1): a header of 348 bytes, in either byte order,
// extensions, and the elements, whose first axis varies fastest.
#include <adjoint/data/array_files.h>

#include <adjoint/core/base/check.h>
#include <adjoint/data/array_bytes.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <string_view>

namespace adjoint::data {
namespace {

constexpr std::int32_t kHeaderBytes = 348, kNifti2HeaderBytes = 540;
constexpr std::int64_t kLeastOffset = 352;  // the header and the four bytes that announce extensions

struct NiftiType {
  std::int16_t code, bits;
  DType dtype;
  Narrow narrow = Narrow::kNone;
};
constexpr NiftiType kTypes[] = {{2, 8, kUInt8},
                                {4, 16, kInt32, Narrow::kInt16},
                                {8, 32, kInt32},
                                {16, 32, kFloat32},
                                {64, 64, kFloat64},
                                {256, 8, kInt32, Narrow::kInt8},
                                {512, 16, kInt32, Narrow::kUInt16},
                                {768, 32, kInt64, Narrow::kUInt32},
                                {1024, 64, kInt64},
                                {1280, 64, kInt64, Narrow::kUInt64}};

class NiftiHeader {
 public:
  explicit NiftiHeader(ByteReader& reader) : reader_(reader) {
    const std::size_t count = reader.read(bytes_.data(), bytes_.size());
    const auto size = count >= sizeof(std::int32_t) ? at<std::int32_t>(0) : 0;
    big_endian_ = size != kHeaderBytes && size != kNifti2HeaderBytes;
    const auto turned = count >= sizeof(std::int32_t) ? at<std::int32_t>(0) : 0;
    ADJOINT_CHECK(size != kNifti2HeaderBytes && turned != kNifti2HeaderBytes,
                  "{}: '{}' must be a NIfTI-1 file; got NIfTI-2; convert it", reader.op(), reader.name());
    ADJOINT_CHECK(turned == kHeaderBytes, "{}: '{}' must be a NIfTI-1 file; got something else", reader.op(),
                  reader.name());
    ADJOINT_CHECK(count == bytes_.size(), "{}: '{}' must have a header of {} bytes; got {}", reader.op(), reader.name(),
                  bytes_.size(), count);
    const std::string_view magic(reinterpret_cast<const char*>(bytes_.data()) + 344, 4);
    ADJOINT_CHECK(magic != std::string_view("ni1\0", 4),
                  "{}: '{}' must be a single file, .nii; got the header of a pair, .hdr and .img; convert them",
                  reader.op(), reader.name());
    ADJOINT_CHECK(magic == std::string_view("n+1\0", 4),
                  "{}: '{}' must be a NIfTI-1 file; got a header without its magic string, as in Analyze 7.5",
                  reader.op(), reader.name());
  }

  bool big_endian() const { return big_endian_; }

  /// The number at `offset`, in this machine's byte order.
  template <class T>
  T at(std::size_t offset) const {
    std::array<unsigned char, sizeof(T)> part;
    std::memcpy(part.data(), bytes_.data() + offset, sizeof(T));
    if (big_endian_) std::reverse(part.begin(), part.end());
    return std::bit_cast<T>(part);
  }

  /// The extents, the last axis first. Axes behind the third that have one element are left out.
  Shape shape() const {
    const auto axes = at<std::int16_t>(40);
    ADJOINT_CHECK(axes >= 1 && axes <= 7, "{}: '{}' must have from 1 to 7 axes; got {}", reader_.op(), reader_.name(),
                  axes);
    Shape shape;
    for (std::size_t axis = static_cast<std::size_t>(axes); axis >= 1; --axis) {
      const auto extent = at<std::int16_t>(40 + 2 * axis);
      ADJOINT_CHECK(extent >= 1, "{}: '{}' must have extents of at least 1; got {} along axis {}", reader_.op(),
                    reader_.name(), extent, axis);
      if (axis <= 3 || extent > 1 || !shape.empty()) shape.push_back(extent);
    }
    return shape;
  }

  const NiftiType& type() const {
    const auto code = at<std::int16_t>(70), bits = at<std::int16_t>(72);
    const auto* const found =
        std::find_if(std::begin(kTypes), std::end(kTypes), [&](const NiftiType& each) { return each.code == code; });
    ADJOINT_CHECK(found != std::end(kTypes),
                  "{}: '{}' must hold integers, float32 or float64, one number for each voxel; got NIfTI's type {}{}",
                  reader_.op(), reader_.name(), code,
                  code == 128 || code == 2304  ? ", colours"
                  : code == 32 || code == 1792 ? ", complex numbers"
                                               : "");
    ADJOINT_CHECK(bits == found->bits, "{}: '{}' must have {} bits for each voxel of type {}; got {}", reader_.op(),
                  reader_.name(), found->bits, code, bits);
    return *found;
  }

  /// Skips everything between the header and the elements.
  void skip_to_elements() const {
    const auto offset = at<float>(108);
    // A file without extensions may leave 0.
    const std::int64_t first = offset == 0.0F ? kLeastOffset : static_cast<std::int64_t>(clamped(offset));
    ADJOINT_CHECK(first >= kLeastOffset && (offset == 0.0F || static_cast<float>(first) == offset),
                  "{}: '{}' must have its elements at byte {} or a later one; got {}", reader_.op(), reader_.name(),
                  kLeastOffset, offset);
    std::array<unsigned char, 4096> skipped;
    reader_.check_left(static_cast<std::uint64_t>(first - kHeaderBytes), "extensions");
    for (std::int64_t left = first - kHeaderBytes; left > 0;) {
      const std::int64_t next = std::min(left, std::ssize(skipped));
      reader_.read_all(skipped.data(), static_cast<std::size_t>(next), "extensions");
      left -= next;
    }
  }

  /// Values are slope times elements plus intercept.
  struct Scaling {
    double slope = 1.0, intercept = 0.0;
  };
  Scaling scaling() const {
    const auto slope = at<float>(112), intercept = at<float>(116);
    if (slope == 0.0F || !std::isfinite(slope)) return {};  // "not scaled", of which NaN is a form in use
    ADJOINT_CHECK(std::isfinite(intercept), "{}: '{}' must have a finite scl_inter beside scl_slope {}; got {}",
                  reader_.op(), reader_.name(), slope, intercept);
    return {slope, intercept};
  }

  std::array<double, 3> spacing() const {
    std::array<double, 3> spacing{1.0, 1.0, 1.0};
    for (std::size_t axis = 0; axis < spacing.size(); ++axis) {
      const auto distance = std::abs(at<float>(76 + 4 * (3 - axis)));
      if (std::isfinite(distance) && distance > 0.0F) spacing[axis] = distance;
    }
    return spacing;
  }

 private:
  static float clamped(float offset) { return offset >= 0.0F && offset < 0x1p62F ? offset : -1.0F; }

  ByteReader& reader_;
  std::array<unsigned char, kHeaderBytes> bytes_{};
  bool big_endian_ = false;
};

Tensor scaled(const Tensor& elements, const NiftiHeader::Scaling& scaling) {
  const bool wide = elements.dtype() == kFloat64;
  Tensor values = Tensor::empty(elements.shape(), {.dtype = wide ? kFloat64 : kFloat32});
  const auto compute = [&]<class From, class To>(From, To) {
    const From* from = elements.data<From>();
    To* to = values.mutable_data<To>();
    std::transform(from, from + elements.numel(), to, [&](From element) {
      return static_cast<To>(static_cast<double>(element) * scaling.slope + scaling.intercept);
    });
  };
  switch (elements.dtype()) {
    case kUInt8: compute(std::uint8_t{}, float{}); break;
    case kInt32: compute(std::int32_t{}, float{}); break;
    case kInt64: compute(std::int64_t{}, float{}); break;
    case kFloat32: compute(float{}, float{}); break;
    default: compute(double{}, double{}); break;
  }
  return values;
}

NiftiVolume read_nifti_volume(ByteReader& reader, const ReadArrayOptions& options) {
  const NiftiHeader header(reader);
  const Shape shape = header.shape();
  const NiftiType& type = header.type();
  const NiftiHeader::Scaling scaling = header.scaling();
  header.skip_to_elements();
  const StoredArray stored{.shape = shape,
                           .dtype = type.dtype,
                           .narrow = type.narrow,
                           .big_endian = header.big_endian()};
  NiftiVolume volume{read_elements(reader, stored, options), header.spacing()};
  if (scaling.slope != 1.0 || scaling.intercept != 0.0) volume.values = scaled(volume.values, scaling);
  return volume;
}

}  // namespace

NiftiVolume read_nifti(const std::filesystem::path& path, const ReadArrayOptions& options) {
  ByteReader reader("read_nifti", path);
  return read_nifti_volume(reader, options);
}

NiftiVolume decode_nifti(std::span<const std::uint8_t> bytes, const ReadArrayOptions& options,
                         const std::string& name) {
  ByteReader reader("decode_nifti", name, bytes);
  return read_nifti_volume(reader, options);
}

}  // namespace adjoint::data
