#include <adjoint/tests/onnx/onnx_runtime.h>

#include <nlohmann/json.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <stdexcept>

namespace adjoint::testing {
namespace {

const char* package() {
  const char* const path = std::getenv("ADJOINT_ONNXRUNTIME_NODE");
  return path != nullptr ? path : ADJOINT_ONNXRUNTIME_NODE;
}

std::string name_of(const char* kind, std::size_t i, std::size_t count) {
  return count == 1 ? kind : std::string(kind) + "_" + std::to_string(i);
}

DType dtype_of(const std::string& name) {
  for (const DType dtype : {kFloat16, kFloat32, kFloat64, kInt32, kInt64, kUInt8, kBool}) {
    if (to_string(dtype) == name) return dtype;
  }
  throw std::runtime_error("ONNX Runtime gave a dtype " + name);
}

void write(const std::filesystem::path& path, const Tensor& x) {
  std::ofstream file(path, std::ios::binary);
  file.write(static_cast<const char*>(x.raw_data()),
             static_cast<std::streamsize>(static_cast<std::size_t>(x.numel()) * element_size(x.dtype())));
}

Tensor read(const std::filesystem::path& path, DType dtype, const Shape& shape) {
  Tensor x = Tensor::zeros(shape, {.dtype = dtype});
  const auto bytes = static_cast<std::streamsize>(static_cast<std::size_t>(x.numel()) * element_size(dtype));
  std::ifstream file(path, std::ios::binary);
  if (bytes > 0 && !file.read(static_cast<char*>(x.raw_mutable_data()), bytes))
    throw std::runtime_error("an output is shorter than its shape");
  return x;
}

}  // namespace

std::string no_onnx_runtime() {
  if (!std::filesystem::exists(std::filesystem::path(package()) / "package.json"))
    return std::string("ONNX Runtime is not installed (scripts/setup onnxruntime), or not in ") + package();
  return std::system("node --version >/dev/null 2>&1") == 0 ? "" : "node is not installed";
}

std::vector<OnnxResult> run_onnx(const std::vector<OnnxRun>& runs, const std::filesystem::path& folder) {
  using nlohmann::json;
  json requests = json::array();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const OnnxRun& run = runs[i];
    json inputs = json::array(), outputs = json::array();
    for (std::size_t k = 0; k < run.inputs.size(); ++k) {
      const auto file = folder / (std::to_string(i) + ".in" + std::to_string(k));
      write(file, run.inputs[k].contiguous());
      inputs.push_back(
          {{"name", name_of("input", k, run.inputs.size())},
           {"dtype", to_string(run.inputs[k].dtype())},
           {"shape", std::vector<std::int64_t>(run.inputs[k].shape().begin(), run.inputs[k].shape().end())},
           {"file", file}});
    }
    for (std::size_t k = 0; k < run.expected.size(); ++k) {
      outputs.push_back({{"name", name_of("output", k, run.expected.size())},
                         {"file", folder / (std::to_string(i) + ".out" + std::to_string(k))}});
    }
    requests.push_back({{"model", run.model}, {"inputs", inputs}, {"outputs", outputs}});
  }
  const auto path = folder / "requests.json";
  std::ofstream(path) << requests;
  const std::string command =
      std::string("node '") + ADJOINT_RUN_MODELS + "' '" + package() + "' '" + path.string() + "'";
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> output(::popen(command.c_str(), "r"), ::pclose);
  std::vector<OnnxResult> results(runs.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    std::string line;
    for (int c; (c = std::getc(output.get())) != EOF && c != '\n';) line += static_cast<char>(c);
    if (line.empty()) throw std::runtime_error("ONNX Runtime ended before the model of " + runs[i].name);
    const json answer = json::parse(line);
    if (answer.contains("error")) {
      results[i].error = answer["error"];
      continue;
    }
    for (std::size_t k = 0; k < answer["outputs"].size(); ++k) {
      const std::vector<std::int64_t> extents = answer["outputs"][k]["shape"];
      results[i].outputs.push_back(read(folder / (std::to_string(i) + ".out" + std::to_string(k)),
                                        dtype_of(answer["outputs"][k]["dtype"]), Shape(extents)));
    }
  }
  return results;
}

}  // namespace adjoint::testing
