// Random calls of picture transforms and of loaders: no crash, and every error names the function called.

#include <adjoint/data/dataset.h>
#include <adjoint/data/image.h>
#include <adjoint/data/loader.h>
#include <adjoint/data/transforms.h>
#include <adjoint/tests/support/invalid_calls.h>

#include <gtest/gtest.h>

namespace adjoint::testing {
namespace {

using A = Arguments&;

class Nothing final : public data::Dataset {
 public:
  std::int64_t size() const override { return 7; }
  data::Example get(std::int64_t, Generator&) const override { return {}; }
};

TEST(InvalidCalls, OfPicturesAndLoaders) {
  Generator generator(3);
  const Nothing examples;
  const std::vector<Call> table{
      {"crop", [](A a) { return data::crop(a.tensor(), a.integer(), a.integer(), a.integer(), a.integer()); }},
      {"flip_horizontal", [](A a) { return data::flip_horizontal(a.tensor()); }},
      {"flip_vertical", [](A a) { return data::flip_vertical(a.tensor()); }},
      {"transpose_image", [](A a) { return data::transpose_image(a.tensor()); }},
      {"random_crop", [&](A a) { return data::random_crop(a.tensor(), a.integer(), a.integer(), generator); }},
      {"random_flip_horizontal", [&](A a) { return data::random_flip_horizontal(a.tensor(), generator, a.scalar()); }},
      {"random_flip_vertical", [&](A a) { return data::random_flip_vertical(a.tensor(), generator, a.scalar()); }},
      {"random_dihedral", [&](A a) { return data::random_dihedral(a.tensor(), generator); }},
      {"DataLoader",
       [&](A a) {
         data::DataLoader(examples, {.batch_size = a.integer(),
                                     .workers = static_cast<int>(a.integer()),
                                     .prefetch = a.integer(),
                                     .device = a.device()});
       }},
      {"DataLoader", [&](A a) { data::DataLoader(examples).load_state({.epoch = a.integer(), .batch = a.integer()}); }},
      {"to_float", [](A a) { return data::to_float(a.tensor()); }},
      {"to_uint8", [](A a) { return data::to_uint8(a.tensor()); }},
      {"to_channels", [](A a) { return data::to_channels(a.tensor(), a.enumerator<data::Channels>(5)); }},
      {"encode_png",
       [](A a) {
         const data::PngOptions options{static_cast<int>(a.integer()), static_cast<int>(a.integer())};
         return data::encode_png(a.tensor(), options).empty() ? Tensor{} : Tensor{};
       }},
      {"encode_jpeg",
       [](A a) {
         return data::encode_jpeg(a.tensor(), {static_cast<int>(a.integer())}).empty() ? Tensor{} : Tensor{};
       }},
      {"decode_image",
       [](A a) {
         const std::int64_t size = a.integer();
         const std::vector<std::uint8_t> bytes(size > 0 && size < 100 ? static_cast<std::size_t>(size) : 0);
         return data::decode_image(bytes, {.channels = a.enumerator<data::Channels>(5)});
       }},
      {"stack_examples",
       [](A a) {
         return data::stack_examples({{a.tensor()}, {a.tensor()}}).input;
       }},
      {"write_png",
       [](A a) {
         const data::PngOptions options{static_cast<int>(a.integer()), static_cast<int>(a.integer())};
         data::write_png("/no/such/folder/a.png", a.tensor(), options);
       }},
      {"write_jpeg",
       [](A a) { data::write_jpeg("/no/such/folder/a.jpg", a.tensor(), {static_cast<int>(a.integer())}); }},
  };
  expect_errors_that_name_the_call(table, 5000, 29);
}

}  // namespace
}  // namespace adjoint::testing
