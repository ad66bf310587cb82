// Measures how fast a DataLoader decodes JPEG files and delivers batches, beside as many threads of libjpeg-turbo
// alone.
//
//   bench_loader [THREADS] [FILES] [SIDE]      (2, 1000 and 512)
//
// The program writes FILES pictures of SIDE x SIDE to a temporary folder; they stay in the system's cache. The peer's
// threads read each file whole and decode it row by row into a buffer that they keep, which is the least possible work.
// The loader has as many workers. They decode, take a random crop of half the side and stack 50 crops; if there is a
// GPU, the loader copies the batches to it. One loader decodes only the crop (ImageFolderOptions::window), the other
// crops the whole picture in a transform. All three alternate. The program prints their medians in pictures per second
// and in CPU time, and the ratios.
#include "scratch.h"

#include <adjoint/adjoint.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <jpeglib.h>

namespace {

namespace fs = std::filesystem;
namespace data = adjoint::data;
using adjoint::Tensor;

constexpr int kRounds = 7;
constexpr std::int64_t kBatch = 50;
// If rows are aligned like vectors, libjpeg-turbo's stores bypass the caches, which costs 3 to 5%.
constexpr std::size_t kUnaligned = 8;

// Smooth shades with detail and a little noise: about as many bytes per pixel as a photograph at quality 90.
Tensor picture(std::int64_t side) {
  const auto layer = [&](std::int64_t cells, double weight) {
    const Tensor small = Tensor::rand({1, 3, cells, cells});
    return adjoint::interpolate(small, {.size = side, .mode = adjoint::Interpolation::kBilinear}) * weight;
  };
  const Tensor sum = layer(4, 0.5) + layer(32, 0.3) + layer(128, 0.15) + layer(side, 0.05);
  return sum.clamp(0.0, 1.0).reshape({3, side, side});
}

// Decodes a file and returns one of its samples, which keeps the compiler from removing the work. libjpeg's own errors
// end the process.
std::uint64_t decode(const fs::path& path, std::vector<JSAMPLE>& buffer) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  std::vector<char> bytes(static_cast<std::size_t>(file.tellg()));
  file.seekg(0);
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  jpeg_decompress_struct codec{};
  jpeg_error_mgr errors{};
  codec.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&codec);
  jpeg_mem_src(&codec, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&codec, TRUE);
  jpeg_start_decompress(&codec);
  const std::size_t row_bytes = std::size_t{codec.output_width} * static_cast<std::size_t>(codec.output_components);
  buffer.resize(kUnaligned + row_bytes * codec.output_height);
  while (codec.output_scanline < codec.output_height) {
    JSAMPROW row = buffer.data() + kUnaligned + codec.output_scanline * row_bytes;
    jpeg_read_scanlines(&codec, &row, 1);
  }
  jpeg_finish_decompress(&codec);
  jpeg_destroy_decompress(&codec);
  return buffer[buffer.size() / 2];
}

void decode_all(const std::vector<fs::path>& paths, int threads) {
  std::atomic<std::size_t> next{0};
  std::atomic<std::uint64_t> used{0};
  std::vector<std::thread> pool;
  for (int i = 0; i < threads; ++i) {
    pool.emplace_back([&] {
      std::vector<JSAMPLE> buffer;
      for (std::size_t at = next++; at < paths.size(); at = next++) used += decode(paths[at], buffer);
    });
  }
  for (std::thread& thread : pool) thread.join();
  if (used == 0) std::fputs("bench_loader: black pictures\n", stderr);
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

struct Seconds {
  double wall, cpu;  // cpu: of all threads, less disturbed by a busy machine
};

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

Seconds seconds_of(const std::function<void()>& run) {
  const auto begin = std::chrono::steady_clock::now();
  const double cpu = cpu_seconds();
  run();
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), cpu_seconds() - cpu};
}

void bench_loader(int threads, int files, std::int64_t side, const fs::path& folder) {
  std::int64_t nbytes = 0;
  for (int i = 0; i < files; ++i) {
    const fs::path path = folder / (std::to_string(i) + ".jpg");
    data::write_jpeg(path, picture(side), {.quality = 85});
    nbytes += static_cast<std::int64_t>(fs::file_size(path));
  }
  const adjoint::Device device = adjoint::default_device();
  const data::ReadImageOptions read{.channels = data::Channels::kRGB, .dtype = adjoint::kUInt8};
  const std::int64_t part = side / 2;
  const data::ImageFolder windows(folder, {.read = read, .window = data::random_window(part, part)});
  const data::ImageFolder crops(folder,
                                {.read = read, .transform = [part](const Tensor& image, adjoint::Generator& generator) {
                                   return data::Example{data::random_crop(image, part, part, generator), {}};
                                 }});
  const data::DataLoaderOptions options{
      .batch_size = kBatch, .shuffle = true, .workers = threads, .prefetch = 8, .device = device};
  data::DataLoader of_windows(windows, options), of_crops(crops, options);
  const auto load_all = [&](data::DataLoader& loader) {
    std::int64_t loaded = 0;
    for (const data::Example& batch : loader) loaded += batch.input.size(0);
    adjoint::synchronize(device);
    if (loaded != files) std::fputs("bench_loader: pictures are missing\n", stderr);
  };
  struct Side {
    const char* name;
    std::function<void()> run;
    std::vector<double> rates = {}, cpu_ms = {};
  };
  std::vector<Side> sides{{"libjpeg-turbo alone", [&] { decode_all(windows.paths(), threads); }},
                          {"DataLoader, window", [&] { load_all(of_windows); }},
                          {"DataLoader, crop", [&] { load_all(of_crops); }}};
  for (int round = -1; round < kRounds; ++round) {  // the first round is not counted
    for (Side& one : sides) {
      const Seconds taken = seconds_of(one.run);
      if (round < 0) continue;
      one.rates.push_back(files / taken.wall);
      one.cpu_ms.push_back(1e3 * taken.cpu / files);
    }
  }
  std::printf("%d pictures of %lld x %lld, %.0f KB each, %d threads, batches of %lld %s\n", files,
              static_cast<long long>(side), static_cast<long long>(side), static_cast<double>(nbytes) / 1e3 / files,
              threads, static_cast<long long>(kBatch), device.is_cuda() ? "on a GPU" : "on the CPU (no GPU)");
  const double peer = median(sides[0].rates), peer_cpu = median(sides[0].cpu_ms);
  for (const Side& one : sides) {
    const double rate = median(one.rates), cpu = median(one.cpu_ms);
    std::printf("%-20s %7.0f pictures/s, ratio %.3f; CPU time of all threads %.3f ms a picture, ratio %.3f\n", one.name,
                rate, rate / peer, cpu, peer_cpu / cpu);
  }
}

}  // namespace

int main(int argc, char** argv) {
  return bench::in_scratch_folder("bench_loader", [&](const fs::path& folder) {
    bench_loader(argc > 1 ? std::stoi(argv[1]) : 2, argc > 2 ? std::stoi(argv[2]) : 1000,
                 argc > 3 ? std::stoi(argv[3]) : 512, folder);
  });
}
