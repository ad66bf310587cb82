// fuzz_seeds FOLDER: writes the small files that the fuzzers begin with, a folder a format.
#include <adjoint/core/base/file.h>
#include <adjoint/nn/checkpoint.h>
#include <adjoint/nn/safetensors.h>
#include <adjoint/tests/data/array_files.h>
#include <adjoint/tests/data/image_files.h>

#ifdef ADJOINT_FUZZ_AUDIO
#include <adjoint/data/audio/audio.h>
#endif

#ifdef ADJOINT_FUZZ_ONNX
#include <onnx/onnx_pb.h>
#endif

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

using namespace adjoint;

namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, const std::vector<std::uint8_t>& bytes) {
  fs::create_directories(path.parent_path());
  AtomicFile file("fuzz_seeds", path);
  file.write(bytes.data(), bytes.size());
  file.commit();
}

void write_sounds(const fs::path& folder) {
#ifdef ADJOINT_FUZZ_AUDIO
  Tensor sound = Tensor::zeros({2, 5000});
  auto* const values = sound.mutable_data<float>();
  for (int i = 0; i < 10000; ++i) values[i] = static_cast<float>(i * i % 4099) / 8198.0F;
  for (const std::string form : {"wav", "flac", "ogg"}) {
    fs::create_directories(folder / form);
    data::write_audio(folder / form / ("a." + form), sound, 8000);
    data::write_audio(folder / form / ("b." + form), sound.narrow(1, 0, 30), 48000, {.bits = 24});
  }
  data::write_audio(folder / "wav" / "c.wav", sound.narrow(0, 0, 1), 8000, {.bits = 32});
  std::vector<std::uint8_t> unfinished = read_file("fuzz_seeds", folder / "wav" / "a.wav");
  std::fill_n(unfinished.begin() + 40, 4, std::uint8_t{0});
  write(folder / "wav" / "unfinished", unfinished);
  std::vector<std::uint8_t> streamed = read_file("fuzz_seeds", folder / "flac" / "a.flac");
  streamed[21] &= 0xf0;
  std::fill_n(streamed.begin() + 22, 20, std::uint8_t{0});
  write(folder / "flac" / "streamed", streamed);
#else
  static_cast<void>(folder);
#endif
}

// A convolution with two attributes, and constants in each form.
void write_model(const fs::path& path) {
#ifdef ADJOINT_FUZZ_ONNX
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  onnx::GraphProto& graph = *model.mutable_graph();
  auto* const input = graph.add_input();
  input->set_name("x");
  auto* const type = input->mutable_type()->mutable_tensor_type();
  type->set_elem_type(onnx::TensorProto::FLOAT);
  for (const int extent : {1, 1, 4}) type->mutable_shape()->add_dim()->set_dim_value(extent);
  graph.add_output()->set_name("y");
  const auto constant = [&](const char* name, std::initializer_list<int> shape) {
    auto* const made = graph.add_initializer();
    made->set_name(name);
    made->set_data_type(onnx::TensorProto::FLOAT);
    for (const int extent : shape) made->add_dims(extent);
    return made;
  };
  constant("weight", {1, 1, 2})->set_raw_data("12345678");
  constant("bias", {1})->add_float_data(0.5F);
  auto* const external = constant("other", {1});
  external->set_data_location(onnx::TensorProto::EXTERNAL);
  for (const auto& [key, value] : {std::pair{"location", "data"}, {"offset", "0"}, {"length", "4"}}) {
    auto* const entry = external->add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  }
  auto* const node = graph.add_node();
  node->set_op_type("Conv");
  for (const char* name : {"x", "weight", "bias"}) node->add_input(name);
  node->add_output("y");
  auto* const pads = node->add_attribute();
  pads->set_name("pads");
  pads->set_type(onnx::AttributeProto::INTS);
  pads->add_ints(1);
  pads->add_ints(0);
  auto* const group = node->add_attribute();
  group->set_name("group");
  group->set_type(onnx::AttributeProto::INT);
  group->set_i(1);
  const auto save = [&](const fs::path& to) {
    const std::string bytes = model.SerializeAsString();
    write(to, {bytes.begin(), bytes.end()});
  };
  save(path / "external");
  graph.mutable_initializer()->RemoveLast();
  save(path / "conv");
#else
  static_cast<void>(path);
#endif
}

/// As checkpoint_fuzz.cpp has it.
void write_checkpoint(const fs::path& path) {
  Tensor weight = Tensor::from_vector<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  double rate = 0.25;
  std::string text = "other";
  std::vector<std::int32_t> counts{1, -2, 3};
  std::array<std::int64_t, 2> place{3, 4};
  Generator generator(9);
  nn::Checkpoint checkpoint(path.parent_path());
  checkpoint.add("weight", weight);
  checkpoint.add("rate", rate);
  checkpoint.add("text", text);
  checkpoint.add("counts", counts);
  checkpoint.add("place", place);
  checkpoint.add("generator", generator);
  checkpoint.save(12, {.metric = 0.5});
  fs::rename(path.parent_path() / "checkpoint-12.safetensors", path);
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
  write_sounds(folder);
  write_checkpoint(folder / "checkpoint" / "whole");
  const std::string parts = R"({"weight_map":{"a":"one","b":"two"}})";
  std::vector<std::uint8_t> shards;
  const auto append = [&](const std::vector<std::uint8_t>& part) {
    shards.push_back(static_cast<std::uint8_t>(part.size() & 0xff));
    shards.push_back(static_cast<std::uint8_t>(part.size() >> 8));
    shards.insert(shards.end(), part.begin(), part.end());
  };
  append({parts.begin(), parts.end()});
  for (const std::string name : {"a", "b"}) {
    const std::string json = R"({")" + name + R"(":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
    std::vector<std::uint8_t> part(8, 0);
    part[0] = static_cast<std::uint8_t>(json.size());
    part.insert(part.end(), json.begin(), json.end());
    part.push_back(1);
    append(part);
  }
  write(folder / "shards" / "two", shards);
  std::vector<std::uint8_t> records(2 * 3073, 3);
  write(folder / "cifar10" / "two", records);
  write(folder / "cifar10" / "packed", data::gzip(records));
  const std::string index = R"({"metadata":{"total_size":4},"weight_map":{"a":"one","b":"two"}})";
  write(folder / "safetensors" / "index", {index.begin(), index.end()});
  write_model(folder / "onnx");
  for (const data::NpyFixture& array : data::npy_fixtures()) write(folder / "npy" / array.name, array.file);
  write(folder / "npy" / "packed", data::gzip(data::npy_fixtures().front().file));
  for (const bool big_endian : {false, true}) {
    data::NiftiFile file{.big_endian = big_endian, .type = 4, .bits = 16, .offset = 360, .slope = 0.5F};
    const std::vector<std::uint8_t> volume = file.with(std::vector<std::int16_t>(24, 7));
    write(folder / "nifti" / (big_endian ? "big" : "little"), volume);
    write(folder / "nifti" / (big_endian ? "packed_big" : "packed_little"), data::gzip(volume));
  }
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
