#include <adjoint/data/byte_reader.h>

#include <adjoint/core/base/check.h>

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <utility>
#include <vector>

namespace adjoint::data {
namespace {

// Deflate expands one byte to at most 1032 (zlib's technical details: 258 bytes need two bits).
constexpr std::uint64_t kMaxExpansion = 1032;

}  // namespace

class ByteReader::Gzip {
 public:
  explicit Gzip(ByteReader& owner) : owner_(owner), packed_(kPiece) {
    constexpr int kGzipOnly = 16;
    check(::inflateInit2(&stream_, MAX_WBITS + kGzipOnly));
  }
  ~Gzip() { ::inflateEnd(&stream_); }
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;

  std::size_t read(void* data, std::size_t bytes) {
    auto* out = static_cast<Bytef*>(data);
    std::size_t left = bytes;
    while (true) {
      if (in_member_) {
        if (left == 0) break;
        const auto piece = static_cast<uInt>(std::min<std::size_t>(left, std::numeric_limits<uInt>::max()));
        stream_.next_out = out;
        stream_.avail_out = piece;
        const int result = ::inflate(&stream_, Z_NO_FLUSH);
        out += piece - stream_.avail_out;
        left -= piece - stream_.avail_out;
        if (result == Z_STREAM_END) {
          in_member_ = false;
        } else if (result != Z_BUF_ERROR || stream_.avail_in > 0) {
          check(result);
        }
        if (result != Z_STREAM_END && stream_.avail_in == 0 && left > 0) {
          ADJOINT_CHECK(refill(), "{}: '{}' must be a whole gzip file; got one that ends early", owner_.op(),
                        owner_.name());
        }
      } else {
        if (ends()) break;
        check(::inflateReset(&stream_));
        in_member_ = true;
      }
    }
    return bytes - left;
  }

 private:
  static constexpr std::size_t kPiece = std::size_t{1} << 16;

  /// Between members, accepts only zeros, which fill the last block of a tape or of an encrypted file.
  bool ends() {
    bool padded = false;
    while (stream_.avail_in > 0 || refill()) {
      if (*stream_.next_in != 0) {
        ADJOINT_CHECK(!padded, "{}: '{}' must end after its gzip members and zeros; got more", owner_.op(),
                      owner_.name());
        return false;
      }
      padded = true;
      ++stream_.next_in;
      --stream_.avail_in;
    }
    return true;
  }

  bool refill() {
    stream_.next_in = packed_.data();
    stream_.avail_in = static_cast<uInt>(owner_.read_stored(packed_.data(), packed_.size()));
    return stream_.avail_in > 0;
  }

  void check(int result) const {
    if (result == Z_MEM_ERROR) throw std::bad_alloc();
    ADJOINT_CHECK(result == Z_OK, "{}: '{}' must hold gzip's data undamaged; got '{}'", owner_.op(), owner_.name(),
                  stream_.msg != nullptr ? stream_.msg : ::zError(result));
  }

  ByteReader& owner_;
  z_stream stream_{};
  std::vector<Bytef> packed_;
  bool in_member_ = true;
};

ByteReader::ByteReader(const char* op, const std::filesystem::path& path)
    : op_(op), name_(path.string()), file_(std::in_place, op, path), stored_bytes_(file_->size()) {
  find_gzip();
}

ByteReader::ByteReader(const char* op, std::string name, std::span<const std::uint8_t> bytes)
    : op_(op), name_(std::move(name)), memory_(bytes), stored_bytes_(bytes.size()) {
  find_gzip();
}

ByteReader::~ByteReader() = default;

void ByteReader::find_gzip() {
  first_count_ = read_stored(first_, sizeof(first_));
  if (first_count_ == 1) first_[1] = first_[0];  // unread bytes are at the end of first_
  if (first_count_ == 2 && first_[0] == 0x1f && first_[1] == 0x8b) gzip_ = std::make_unique<Gzip>(*this);
}

std::size_t ByteReader::read_stored(void* data, std::size_t bytes) {
  auto* out = static_cast<std::uint8_t*>(data);
  const std::size_t begun = std::min(bytes, first_count_);
  std::copy_n(std::end(first_) - first_count_, begun, out);
  first_count_ -= begun;
  if (begun == bytes) return bytes;
  if (file_) return begun + file_->read(out + begun, bytes - begun);
  const std::size_t count = std::min(bytes - begun, memory_.size());
  std::copy_n(memory_.begin(), count, out + begun);
  memory_ = memory_.subspan(count);
  return begun + count;
}

std::size_t ByteReader::read(void* data, std::size_t bytes) {
  const std::size_t count = gzip_ != nullptr ? gzip_->read(data, bytes) : read_stored(data, bytes);
  read_bytes_ += count;
  return count;
}

void ByteReader::read_all(void* data, std::size_t bytes, const char* what) {
  const std::size_t count = read(data, bytes);
  ADJOINT_CHECK(count == bytes, "{}: '{}' must hold {} bytes of {}; got {}; is it cut short?", op_, name_, bytes, what,
                count);
}

void ByteReader::check_end() {
  std::uint8_t more = 0;
  const std::uint64_t before = read_bytes_;
  ADJOINT_CHECK(read(&more, 1) == 0, "{}: '{}' must end after {} bytes; got more", op_, name_, before);
}

void ByteReader::check_left(std::uint64_t bytes, const char* what) const {
  if (gzip_ == nullptr) {
    const std::uint64_t left = stored_bytes_ - std::min(stored_bytes_, read_bytes_);
    ADJOINT_CHECK(bytes <= left, "{}: '{}' must hold {} bytes of {}; got {}; is it cut short?", op_, name_, bytes, what,
                  left);
  } else {
    ADJOINT_CHECK(bytes / kMaxExpansion <= stored_bytes_,
                  "{}: '{}' must hold {} bytes of {}; got {} packed ones, which cannot unpack to that", op_, name_,
                  bytes, what, stored_bytes_);
  }
}

}  // namespace adjoint::data
