// fuzz_seeds FOLDER: writes the small files that the fuzzers begin with, a folder a format.
#include <adjoint/core/file.h>
#include <adjoint/nn/safetensors.h>
#include <adjoint/tests/data/array_files.h>
#include <adjoint/tests/data/image_files.h>

#include <cstdio>
#include <exception>
#include <filesystem>

using namespace adjoint;

namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, const std::vector<std::uint8_t>& bytes) {
  fs::create_directories(path.parent_path());
  AtomicFile file("fuzz_seeds", path);
  file.write(bytes.data(), bytes.size());
  file.commit();
}

void write_all(const fs::path& folder) {
  for (const data::Fixture& picture : data::fixtures()) {
    write(folder / picture.name.substr(0, picture.name.find('_')) / picture.name, picture.file);
  }
  data::BlockJpeg jpeg{5, 4, {}, 3};
  for (int i = 0; i < 20; ++i) jpeg.levels.push_back(8 + 11 * i);
  write(folder / "jpeg" / "restarts", jpeg.file());
  std::vector<std::uint8_t> text = data::fixture("png_palette_4").file;
  data::insert(text, data::kPngHeaderEnd, data::png_chunk("tEXt", {'k', 0, 't'}));
  write(folder / "png" / "text", text);
  write(folder / "exif" / "little", {'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3, 0, 1, 0, 0, 0, 6, 0, 0, 0});
  write(folder / "exif" / "big",
        {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 4, 0, 0, 0, 2, 0, 0, 0, 22, 0, 0, 0, 6});
  write(folder / "safetensors" / "reference",
        read_file("fuzz_seeds", adjoint::testing::fixture("reference.safetensors")));
  const auto header = [&](const char* name, const std::string& json, std::size_t data) {
    std::vector<std::uint8_t> file(8, 0);
    file[0] = static_cast<std::uint8_t>(json.size());
    file.insert(file.end(), json.begin(), json.end());
    file.resize(file.size() + data);
    write(folder / "safetensors" / name, file);
  };
  header("empty", "{}", 0);
  header("metadata", R"({"__metadata__":{"a":"b\u00e9\ud83d\ude00"}})", 0);
  header("scalar", R"({"x":{"dtype":"F16","shape":[],"data_offsets":[0,2]}})", 2);
  header(
      "zero",
      R"({"x":{"dtype":"BOOL","shape":[3,0],"data_offsets":[0,0]},"y":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}})",
      8);
  header(
      "bytes",
      R"({"x":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]},"y":{"dtype":"U16","shape":[1],"data_offsets":[2,4]}})",
      4);
  const std::string index = R"({"metadata":{"total_size":4},"weight_map":{"a":"one","b":"two"}})";
  write(folder / "safetensors" / "index", {index.begin(), index.end()});
  for (const data::NpyFixture& array : data::npy_fixtures()) write(folder / "npy" / array.name, array.file);
  write(folder / "npy" / "packed", data::gzip(data::npy_fixtures().front().file));
  for (const std::uint8_t type : {0x08, 0x09, 0x0b, 0x0c, 0x0d, 0x0e}) {
    std::vector<std::uint8_t> array = data::idx_header(type, {2, 1});
    const std::size_t element = type == 0x0e ? 8 : type >= 0x0c ? 4 : type == 0x0b ? 2 : 1;
    array.resize(array.size() + 2 * element);
    write(folder / "idx" / std::to_string(type), array);
    write(folder / "idx" / ("packed" + std::to_string(type)), data::gzip(array));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: fuzz_seeds FOLDER\n");
    return 2;
  }
  try {
    write_all(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
