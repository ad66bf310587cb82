// Folders of pictures as datasets. list_images_test.cpp tests which files count as pictures.
#include <adjoint/data/dataset.h>
#include <adjoint/data/loader.h>
#include <adjoint/data/transforms.h>
#include <adjoint/tests/data/numbers.h>

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace adjoint::data {
namespace {

namespace fs = std::filesystem;

class ImageFolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) /
              (std::string("adjoint_folder_") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "sub" / "deep");
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path folder_;
};

TEST_F(ImageFolderTest, FindsPicturesByContentRecursivelyAndSorted) {
  const Tensor color = Tensor::full({3, 4, 6}, 0.5), grey = Tensor::full({1, 8, 8}, 0.25);
  write_png(folder_ / "b.png", color);
  write_jpeg(folder_ / "sub" / "deep" / "no_extension", grey);
  write_png(folder_ / "a.jpg", grey);  // a PNG by content
  std::ofstream(folder_ / "notes.png") << "no picture";
  const ImageFolder images(folder_);
  ASSERT_EQ(images.size(), 3);
  EXPECT_EQ(images.paths()[0].filename(), "a.jpg");
  EXPECT_EQ(images.paths()[1].filename(), "b.png");
  EXPECT_EQ(images.paths()[2].filename(), "no_extension");
  Generator generator(1);
  EXPECT_EQ(images.get(0, generator).input.shape(), (Shape{3, 8, 8}));
  EXPECT_FALSE(images.get(0, generator).target.defined());
  EXPECT_EQ(images.get(1, generator).input.dtype(), kFloat32);
}

TEST_F(ImageFolderTest, CropsOfAnySizesLoadTogether) {
  for (int i = 0; i < 6; ++i)
    write_png(folder_ / (std::to_string(i) + ".png"), Tensor::full({3, 8 + i, 12 - i}, 0.1 * i));
  const ImageFolder images(folder_, {.transform = [](const Tensor& image, Generator& generator) {
                             const Tensor part = random_dihedral(random_crop(image, 5, 5, generator), generator);
                             return Example{crop(part, 0, 0, 2, 2), part};
                           }});
  DataLoader loader(images, {.batch_size = 3, .shuffle = true});
  int batches = 0;
  for (const auto& [low, high] : loader) {
    EXPECT_EQ(low.shape(), (Shape{3, 3, 2, 2}));
    EXPECT_EQ(high.shape(), (Shape{3, 3, 5, 5}));
    ++batches;
  }
  EXPECT_EQ(batches, 2);
}

TEST_F(ImageFolderTest, ABrokenFileIsAnErrorThatNamesIt) {
  std::ofstream(folder_ / "broken.png", std::ios::binary) << "\x89PNG\r\n\x1a\n and no more";
  const ImageFolder images(folder_);
  DataLoader loader(images);
  const std::string message = message_of([&] { loader.next(); });
  EXPECT_TRUE(message.starts_with("read_image: '" + (folder_ / "broken.png").string() + "' is a damaged PNG file: "))
      << message;
}

TEST_F(ImageFolderTest, ErrorsNameTheFolder) {
  EXPECT_EQ(message_of([&] { ImageFolder images(folder_); }),
            "ImageFolder: '" + folder_.string() + "' must hold at least one PNG or JPEG file; got none");
  EXPECT_EQ(message_of([&] { list_images(folder_ / "none"); }),
            "list_images: '" + (folder_ / "none").string() + "' must be a folder");
}

}  // namespace
}  // namespace adjoint::data
