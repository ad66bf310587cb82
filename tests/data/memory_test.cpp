// Memory of the codecs: what a file can make them ask for, and what they do where there is none.
#include <adjoint/data/image.h>
#include <adjoint/tests/data/image_files.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <new>
#include <string>

#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

/// What operator new does on this thread while it is watched.
struct Watch {
  bool on = false;
  bool for_good = false;           // once it has failed, it fails always
  std::int64_t until_failure = 0;  // requests that are met; negative: all
  bool failed = false;
};
thread_local Watch watch;

void* request(std::size_t bytes) {
  if (watch.on) {
    if (watch.until_failure == 0) {
      watch.failed = true;
      if (!watch.for_good) watch.until_failure = -1;
      return nullptr;
    }
    if (watch.until_failure > 0) --watch.until_failure;
  }
  return std::malloc(bytes == 0 ? 1 : bytes);
}

}  // namespace

// In place of the standard library's, for the whole program; inlined, they would look mismatched to GCC.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (void* data = request(bytes)) return data;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new[](std::size_t bytes) { return operator new(bytes); }
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return request(bytes); }
[[gnu::noinline]] void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return request(bytes); }
[[gnu::noinline]] void operator delete(void* data) noexcept { std::free(data); }
[[gnu::noinline]] void operator delete[](void* data) noexcept { std::free(data); }
[[gnu::noinline]] void operator delete(void* data, std::size_t) noexcept { std::free(data); }
[[gnu::noinline]] void operator delete[](void* data, std::size_t) noexcept { std::free(data); }

namespace adjoint::data {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
constexpr bool kSanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool kSanitized = false;
#endif

/// What `call` says in a process of its own, with at most `more` bytes of data beyond what it starts with.
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
  if (kSanitized) GTEST_SKIP() << "a sanitizer's own memory is past counting";
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
  const ReadImageOptions options{.max_pixels = std::int64_t{1} << 40, .max_bytes = std::int64_t{1} << 40};
  const auto said = [&](const Bytes& file) {
    return in_small_process(kLittle, [&] { return message_of([&] { decode_image(file, options, "a"); }); });
  };
  EXPECT_EQ(said(text), "read_image: 'a' is a damaged PNG file: the file ends too early");
  EXPECT_EQ(said(profile), "no error");
  EXPECT_EQ(said(wide), "read_image: 'a' is a damaged PNG file: 145 bytes cannot hold its 2147483647 x 1 pixels");
  EXPECT_EQ(said(head), "read_image: 'a' is a damaged JPEG file: 283 bytes cannot hold its 16384 x 16384 pixels");
  EXPECT_EQ(said(baseline), "read_image: 'a' is a damaged JPEG file: 925 bytes cannot hold its 16384 x 16384 pixels");
}

TEST(ImageMemory, MaxBytesIsWhatReadingTakes) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's own memory is past counting";
  ::mallopt(M_MMAP_THRESHOLD, 1 << 18);  // so that what is freed here leaves no room that is not counted
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
  if (kSanitized) GTEST_SKIP() << "a sanitizer's own memory is past counting";
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
            "read_image: 'a' needs more memory than there is");
}

/// Fails each request of `call` in turn, once and for good: OutOfMemoryError every time, and then the same result as
/// without failures. Leaks are AddressSanitizer's to find.
void fail_each_request(const std::function<std::vector<int>()>& call) {
  const std::vector<int> expected = call();
  for (const bool for_good : {false, true}) {
    std::int64_t requests = 0;
    for (bool failed = true; failed; ++requests) {
      std::vector<int> result;
      watch = {true, for_good, requests, false};
      try {
        result = call();
        failed = false;
      } catch (const OutOfMemoryError&) {
      }
      const bool met = !watch.failed;
      watch = {};
      if (!failed) {
        EXPECT_TRUE(met) << "request " << requests << " failed and nothing said so";
        EXPECT_EQ(result, expected);
      }
      ASSERT_LT(requests, 10'000);
    }
    EXPECT_GT(requests, 3);
  }
}

TEST(ImageMemory, EveryFailedRequestIsAnOutOfMemoryError) {
  for (const char* name : {"png_rgb_8_exif6", "png_palette_4_transparent", "png_rgba_16_interlaced",
                           "jpeg_rgb_progressive", "jpeg_exif6", "jpeg_cmyk"}) {
    const Bytes& file = fixture(name).file;
    const std::string path = "a path that is longer than what a string holds in itself";
    fail_each_request([&] {
      const Tensor image = decode_image(file, {.channels = Channels::kRGB}, path);
      watch.on = false;
      return image.to_vector<int>();
    });
  }
}

TEST(ImageMemory, EveryFailedRequestOfAnEncoderIsAnOutOfMemoryError) {
  const Tensor image = decode_image(fixture("jpeg_rgb").file);
  const auto values = [](const Bytes& bytes) {
    watch.on = false;
    return std::vector<int>(bytes.begin(), bytes.end());
  };
  fail_each_request([&] { return values(encode_png(image)); });
  fail_each_request([&] { return values(encode_jpeg(image)); });
}

}  // namespace
}  // namespace adjoint::data
