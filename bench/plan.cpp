// Networks at batch 1 as planned calls, for bench/compare_onnxruntime, which runs this program:
//
//   bench_plan FOLDER
//
// The program writes each network as FOLDER/<name>.onnx, with an input and the network's own result as files of float32
// elements, and prints a line of JSON: [{"name", "inputs": shape, "outputs": shape}]. For each line "<name> <threads>
// <calls>" on standard input it then runs nn::Plan of the file so often, and prints a JSON list with two numbers for
// each call: its milliseconds by the clock, and those of the process on all processors. The plan's result must equal
// the file's own call in every bit.
#include "gan/networks.h"
#include "nn/networks/espcn.h"
#include "nn/networks/fsrcnn.h"
#include "segmentation/unet.h"
#include "vocoder/generator.h"

#include <adjoint/adjoint.h>
#include <adjoint/nn/onnx/onnx.h>
#include <adjoint/nn/onnx/onnx_model.h>
#include <adjoint/nn/plan.h>

#include <nlohmann/json.hpp>

#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include <time.h>

namespace {

namespace nn = adjoint::nn;
using adjoint::Shape;
using adjoint::Tensor;
using nlohmann::json;

constexpr int kWarmUp = 2;

void write(const std::filesystem::path& path, const Tensor& x) {
  std::ofstream file(path, std::ios::binary);
  file.write(static_cast<const char*>(x.raw_data()), static_cast<std::streamsize>(x.nbytes()));
  if (!file) throw adjoint::Error("bench_plan: cannot write '" + path.string() + "'");
}

double now_ms(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return 1e3 * static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_nsec);
}

json extents(const Tensor& x) { return std::vector<std::int64_t>(x.shape().begin(), x.shape().end()); }

template <class Net>
json exported(const std::filesystem::path& folder, const std::string& name, Net net, const Shape& shape) {
  net.eval();
  for (const Tensor& buffer : net.buffers()) {  // running statistics that a training could have left
    if (adjoint::is_floating_point(buffer.dtype())) Tensor(buffer).copy_(Tensor::rand(buffer.shape()) + 0.5);
  }
  const Tensor x = Tensor::randn(shape), y = net(x).contiguous();
  nn::save_onnx(folder / (name + ".onnx"), net, {x});
  write(folder / (name + ".in"), x);
  write(folder / (name + ".out"), y);
  return {{"name", name}, {"inputs", extents(x)}, {"outputs", extents(y)}};
}

json exported_networks(const std::filesystem::path& folder) {
  adjoint::manual_seed(1);
  vocoder::Generator generator({.network = "v2"});
  vocoder::remove_weight_norms(generator);
  return {exported(folder, "hifigan", generator, {1, 80, 32}),
          exported(folder, "fsrcnn", adjoint::networks::Fsrcnn(3, 56, 12, 4), {1, 1, 96, 96}),
          exported(folder, "espcn", adjoint::networks::Espcn(3, 64), {1, 1, 96, 96}),
          exported(folder, "unet", segmentation::UNet({.classes = 5}), {1, 3, 128, 128}),
          exported(folder, "dcgan", gan::Generator({.latent = 64, .features = 64}), {1, 64})};
}

class Planned {
 public:
  Planned(const std::filesystem::path& folder, const json& network, int threads)
      : threads_(threads), model_(nn::load_onnx(folder / (network["name"].get<std::string>() + ".onnx"))) {
    adjoint::set_num_threads(threads);
    model_.eval();
    const std::vector<std::int64_t> shape = network["inputs"];
    x_ = Tensor::zeros(Shape(shape));
    std::ifstream file(folder / (network["name"].get<std::string>() + ".in"), std::ios::binary);
    file.read(static_cast<char*>(x_.raw_mutable_data()), static_cast<std::streamsize>(x_.nbytes()));
    const Tensor expected = model_(x_).contiguous();
    plan_.emplace_back(model_, std::vector{x_}, nn::PlanOptions{.threads = threads});
    const Tensor found = plan_[0].run({x_})[0].contiguous();
    if (std::memcmp(found.raw_data(), expected.raw_data(), expected.nbytes()) != 0)
      throw adjoint::Error("bench_plan: the plan differs from the call");
  }

  json times(int calls) {
    adjoint::set_num_threads(threads_);
    json times = json::array();
    for (int i = -kWarmUp; i < calls; ++i) {
      const double begin = now_ms(CLOCK_MONOTONIC), busy = now_ms(CLOCK_PROCESS_CPUTIME_ID);
      plan_[0].run({x_});
      if (i >= 0) times.push_back({now_ms(CLOCK_MONOTONIC) - begin, now_ms(CLOCK_PROCESS_CPUTIME_ID) - busy});
    }
    return times;
  }

 private:
  int threads_;
  nn::OnnxModel model_;
  Tensor x_;
  std::vector<nn::Plan> plan_;
};

int run(const std::filesystem::path& folder) {
  const json networks = exported_networks(folder);
  std::cout << networks << std::endl;
  std::string name;
  int threads = 0, calls = 0;
  std::string current;
  std::vector<Planned> planned;
  while (std::cin >> name >> threads >> calls) {
    const std::string key = name + ' ' + std::to_string(threads);
    if (key != current) {
      planned.clear();
      for (const json& network : networks) {
        if (network["name"] == name) planned.emplace_back(folder, network, threads);
      }
      current = key;
    }
    if (planned.empty()) throw adjoint::Error("bench_plan: there is no network '" + name + "'");
    std::cout << planned[0].times(calls) << std::endl;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: bench_plan FOLDER\n";
    return 2;
  }
  try {
    return run(argv[1]);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
