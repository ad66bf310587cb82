// Pictures of which a part is read: the bits of a crop() of the whole.
#include <adjoint/core/tensor/random.h>
#include <adjoint/data/dataset.h>
#include <adjoint/data/image.h>
#include <adjoint/data/loader.h>
#include <adjoint/data/transforms.h>
#include <adjoint/tests/data/image_files.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace adjoint::data {
namespace {

namespace fs = std::filesystem;

void expect_windows_are_crops(const Bytes& file, ReadImageOptions options, const std::string& what) {
  const Tensor whole = decode_image(file, options);
  const std::int64_t height = whole.size(1), width = whole.size(2);
  for (const Window& part : {Window{0, 0, height, width}, Window{0, width - 1, 1, 1}, Window{height - 1, 0, 1, 1},
                             Window{1, 2, height - 2, width - 4}}) {
    if (part.height < 1 || part.width < 1) continue;
    int asked = 0;
    options.window = [&](std::int64_t h, std::int64_t w) {
      EXPECT_EQ(h, height);
      EXPECT_EQ(w, width);
      ++asked;
      return part;
    };
    const Tensor got = decode_image(file, options);
    const Tensor expected = crop(whole, part.top, part.left, part.height, part.width);
    EXPECT_EQ(asked, 1);
    ASSERT_EQ(got.shape(), expected.shape()) << what;
    ASSERT_EQ(got.dtype(), expected.dtype()) << what;
    EXPECT_EQ(got.to_vector<float>(), expected.to_vector<float>()) << what;
  }
}

// Among them are every orientation, depth and number of channels, inks, and interlaced and progressive files.
TEST(Window, IsACropOfTheWhole) {
  for (const Fixture& one : fixtures()) {
    expect_windows_are_crops(one.file, {}, one.name);
    expect_windows_are_crops(one.file, {.channels = Channels::kGrey, .dtype = kFloat32}, one.name);
  }
  manual_seed(1);
  const Tensor noise = Tensor::rand({3, 37, 50});
  for (const int quality : {60, 95}) {  // with colour of half the resolution, and of the whole
    expect_windows_are_crops(encode_jpeg(noise, {.quality = quality}), {}, std::to_string(quality));
  }
}

TEST(Window, TheRestIsCheckedAllTheSame) {
  manual_seed(2);
  Bytes file = encode_jpeg(Tensor::rand({3, 64, 64}), {.quality = 90});
  file.resize(file.size() * 9 / 10);
  const auto top_rows = [](std::int64_t, std::int64_t width) { return Window{0, 0, 8, width}; };
  EXPECT_EQ(message_of([&] { decode_image(file, {.window = top_rows}, "cut.jpg"); }),
            "decode_image: 'cut.jpg' is a damaged JPEG file: Premature end of JPEG file");
}

TEST(Window, ErrorsNameTheFileAndTheWindow) {
  const Bytes file = encode_png(Tensor::zeros({1, 4, 6}));
  const std::int64_t most = INT64_MAX;
  for (const Window& part : {Window{0, 0, 0, 1}, Window{0, 0, 1, 0}, Window{-1, 0, 2, 2}, Window{0, -1, 2, 2},
                             Window{3, 0, 2, 2}, Window{0, 5, 2, 2}, Window{0, 0, 5, 1}, Window{most, 0, 1, 1},
                             Window{0, most, 1, 1}, Window{0, 0, most, most}, Window{0, 0, -most, 1}}) {
    const auto got = [](std::int64_t value) { return std::to_string(value); };
    EXPECT_EQ(message_of([&] { decode_image(file, {.window = [&](auto, auto) { return part; }}, "a.png"); }),
              "decode_image: the window must be inside 'a.png' of 4 x 6; got top " + got(part.top) + ", left " +
                  got(part.left) + ", height " + got(part.height) + ", width " + got(part.width));
  }
}

TEST(Window, ARandomOneIsTheRandomCrop) {
  const fs::path folder = fs::path(::testing::TempDir()) / "adjoint_random_window";
  fs::remove_all(folder);
  fs::create_directories(folder);
  manual_seed(3);
  for (int i = 0; i < 6; ++i) write_png(folder / (std::to_string(i) + ".png"), Tensor::rand({3, 20 + i, 30 - i}));
  const ImageFolder cropped(folder, {.transform = [](const Tensor& image, Generator& generator) {
                              const Tensor part = random_crop(image, 8, 9, generator);
                              return Example{random_flip_horizontal(part, generator), {}};
                            }});
  const ImageFolder windows(folder,
                            {.window = random_window(8, 9), .transform = [](const Tensor& part, Generator& generator) {
                               return Example{random_flip_horizontal(part, generator), {}};
                             }});
  const DataLoaderOptions options{.batch_size = 3, .shuffle = true, .workers = 2, .seed = 4};
  DataLoader expected(cropped, options), loader(windows, options);
  for (int epoch = 0; epoch < 2; ++epoch) {
    while (const auto whole = expected.next()) {
      const auto part = loader.next();
      ASSERT_TRUE(part.has_value());
      EXPECT_EQ(part->input.to_vector<float>(), whole->input.to_vector<float>());
    }
    EXPECT_FALSE(loader.next().has_value());
  }
  const ImageFolder large(folder, {.window = random_window(21, 9)});
  Generator generator(1);
  EXPECT_EQ(message_of([&] { large.get(0, generator); }),
            "random_window: the window must be at least 1 x 1 and fit into the picture; got 21 x 9 of 20 x 30");
  fs::remove_all(folder);
}

}  // namespace
}  // namespace adjoint::data
