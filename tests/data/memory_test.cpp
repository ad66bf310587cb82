// Memory of the codecs: the most that a file can make them allocate, and their behaviour without memory.
#include <adjoint/data/image.h>
#include <adjoint/tests/data/image_files.h>
#include <adjoint/tests/support/failing_new.h>
#include <adjoint/tests/support/sanitized.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <string>

#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace adjoint::data {
namespace {

/// The result of `call` in a separate process, with at most `more` bytes of data beyond those at its start.
std::string in_small_process(std::size_t more, const std::function<std::string()>& call) {
  int ends[2];
  if (::pipe(ends) != 0) return "no pipe";
  const pid_t child = ::fork();
  if (child == 0) {
    std::size_t pages[6] = {};  // the sixth: data and stack
    std::ifstream statm("/proc/self/statm");
    for (std::size_t& number : pages) statm >> number;
    const rlim_t limit = pages[5] * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) + more;
    const rlimit data{limit, limit};
    ::setrlimit(RLIMIT_DATA, &data);
    const std::string answer = call();
    const ssize_t written = ::write(ends[1], answer.data(), answer.size());
    ::_exit(written == static_cast<ssize_t>(answer.size()) ? 0 : 1);
  }
  ::close(ends[1]);
  std::string answer(4096, '\0');
  const ssize_t count = ::read(ends[0], answer.data(), answer.size());
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  answer.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? answer : "the process ended badly: " + answer;
}

/// 26 x 19 pixels become 16,384 x 16,384.
Bytes enlarged(Bytes jpeg, std::uint8_t frame) {
  std::size_t at = 0;
  while (jpeg[at] != 0xff || jpeg[at + 1] != frame) ++at;
  jpeg[at + 5] = jpeg[at + 7] = 0x40;
  jpeg[at + 6] = jpeg[at + 8] = 0;
  return jpeg;
}

TEST(ImageMemory, AFileIsGivenNoMoreThanItCanHold) {
  if (testing::kSanitized) GTEST_SKIP() << "a sanitizer's own memory is past counting";
  constexpr std::size_t kLittle = 24 << 20;
  Bytes text = png_header(1, 1, 8, 0);
  append(text, big_endian(1'700'000'000));
  append(text, {'i', 'T', 'X', 't', 'k', 0, 0});
  Bytes profile = fixture("png_rgb_8").file;
  for (int i = 0; i < 1000; ++i)
    insert(profile, kPngHeaderEnd, png_chunk("zTXt", {'k', 0, 0, 0x78, 0x9c, 0xed, 0xc1, 1}));
  Bytes wide = png_header(0x7fffffff, 1, 16, 6);
  append(wide, png_chunk("IDAT", Bytes(100)));
  const Bytes progressive = enlarged(fixture("jpeg_rgb_progressive").file, 0xc2);
  const Bytes head(progressive.begin(), progressive.begin() + 283);
  const Bytes baseline = enlarged(fixture("jpeg_rgb").file, 0xc0);
  Bytes scans = fixture("jpeg_rgb").file;
  for (int i = 0; i < 4'000'000; ++i) append(scans, {0xff, 0xda, 0, 2});
  scans.erase(scans.begin() + 609, scans.begin() + 925);  // the sound scan and the end behind it
  const ReadImageOptions options{.max_pixels = std::int64_t{1} << 40, .max_bytes = std::int64_t{1} << 40};
  const auto said = [&](const Bytes& file) {
    return in_small_process(kLittle, [&] { return message_of([&] { decode_image(file, options, "a"); }); });
  };
  EXPECT_EQ(said(text), "decode_image: 'a' is a damaged PNG file: the file ends too early");
  EXPECT_EQ(said(profile), "no error");
  EXPECT_EQ(said(wide), "decode_image: 'a' is a damaged PNG file: 145 bytes cannot hold its 2147483647 x 1 pixels");
  EXPECT_EQ(said(head), "decode_image: 'a' is a damaged JPEG file: 283 bytes cannot hold its 16384 x 16384 pixels");
  EXPECT_EQ(said(scans), "decode_image: 'a' is a damaged JPEG file: Bogus marker length");
  EXPECT_EQ(said(baseline), "decode_image: 'a' is a damaged JPEG file: 925 bytes cannot hold its 16384 x 16384 pixels");
}

TEST(ImageMemory, MaxBytesIsWhatReadingTakes) {
  if (testing::kSanitized) GTEST_SKIP() << "a sanitizer's own memory is past counting";
  ::mallopt(M_MMAP_THRESHOLD, 1 << 18);  // so that memory freed here leaves no uncounted room
  const Bytes png =
      encode_png(Tensor::full({4, 1000, 1000}, 7, {.dtype = kUInt8}), {.bit_depth = 16, .compression = 0});
  const std::int64_t takes = 1000 * 1000 * (8 + 16) + static_cast<std::int64_t>(png.size());
  const auto said = [&](std::int64_t more) {
    return in_small_process(static_cast<std::size_t>(takes + more), [&] {
      return message_of([&] { decode_image(png, {.dtype = kFloat32, .max_bytes = takes}, "a"); });
    });
  };
  EXPECT_EQ(said(4 << 20), "no error");
  EXPECT_NE(said(-takes), "no error");
}

TEST(ImageMemory, LibjpegWithoutMemory) {
  if (testing::kSanitized) GTEST_SKIP() << "a sanitizer's own memory is past counting";
  // 805 MB of coefficients.
  const Bytes file = enlarged(fixture("jpeg_rgb_progressive").file, 0xc2);
  EXPECT_EQ(in_small_process(64 << 20,
                             [&] {
                               try {
                                 decode_image(file, {.max_bytes = std::int64_t{1} << 40, .damaged = true}, "a");
                               } catch (const OutOfMemoryError& error) {
                                 return std::string(error.what());
                               }
                               return std::string("no error");
                             }),
            "decode_image: 'a' needs more memory than there is");
}

/// Fails each request of `call` in turn, once and for good: OutOfMemoryError every time, and then the same result as
/// without failures. Leaks are AddressSanitizer's to find.
template <class Result>
void fail_each_request(const std::function<Result()>& call, const std::function<void(const Result&)>& check) {
  for (const auto failure : {testing::Failure::kOnce, testing::Failure::kForGood}) {
    Result result;
    bool right_type = true;
    const int requests = testing::for_each_failing_allocation(
        failure,
        [&] {
          right_type = false;
          try {
            result = call();
          } catch (const OutOfMemoryError&) {
            right_type = true;
            throw;
          }
        },
        [&](int n) { ASSERT_TRUE(right_type) << "request " << n; });
    EXPECT_GE(requests, 3);
    check(result);
  }
}

TEST(ImageMemory, EveryFailedRequestIsAnOutOfMemoryError) {
  for (const char* name : {"png_rgb_8_exif6", "png_palette_4_transparent", "png_rgba_16_interlaced",
                           "jpeg_rgb_progressive", "jpeg_exif6", "jpeg_cmyk"}) {
    const Bytes& file = fixture(name).file;
    const std::string path = "a path that is longer than what a string holds in itself";
    const std::vector<int> expected = decode_image(file, {.channels = Channels::kRGB}).to_vector<int>();
    fail_each_request<Tensor>([&] { return decode_image(file, {.channels = Channels::kRGB}, path); },
                              [&](const Tensor& image) { EXPECT_EQ(image.to_vector<int>(), expected) << name; });
  }
}

TEST(ImageMemory, EveryFailedRequestOfAnEncoderIsAnOutOfMemoryError) {
  const Tensor image = decode_image(fixture("jpeg_rgb").file);
  const Bytes png = encode_png(image), jpeg = encode_jpeg(image);
  fail_each_request<Bytes>([&] { return encode_png(image); }, [&](const Bytes& file) { EXPECT_EQ(file, png); });
  fail_each_request<Bytes>([&] { return encode_jpeg(image); }, [&](const Bytes& file) { EXPECT_EQ(file, jpeg); });
}

}  // namespace
}  // namespace adjoint::data
