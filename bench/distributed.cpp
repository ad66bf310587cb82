// Times data-parallel training on the GPUs of the ranks that mpirun started, for bench/compare_distributed.py: prints a
// line of JSON for each case, from rank 0. Times are in ms: the median over rounds of the slowest rank's.
//
//   mpirun -n 2 bench_distributed [--ctas 0,4,8] [--strong] [tf32] [bf16]
//
// Sums of 1 MiB to 4 GiB of float32, beside a bare ncclAllReduce of the same buffer in turns with it ("bare_ms"; where
// NCCL was found). Then, network by network, a step at the same batch a GPU: on each rank alone ("alone_ms"), and in
// turns with it through DataParallel ("together_ms"), both as captured steps too ("captured_alone_ms",
// "captured_together_ms"); and a sum of all gradients with nothing beside it ("sum_ms"). --ctas does that for each
// DataParallelOptions::max_ctas. --strong: together, the ranks share the batch that each has alone, and captured steps
// are left out.

#include <adjoint/adjoint.h>

#if defined(ADJOINT_WITH_NCCL)
#include <nccl.h>
#endif

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace {

using adjoint::Shape;
using adjoint::Tensor;
namespace nn = adjoint::nn;
namespace distributed = adjoint::distributed;

// ---- Time.

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// Milliseconds that the slowest rank takes for each call of each kind, which take turns.
std::vector<double> time_ms(const std::vector<std::function<void()>>& kinds, int calls, int rounds = 9) {
  using Clock = std::chrono::steady_clock;
  std::vector<std::vector<double>> times(kinds.size());
  for (int round = -1; round < rounds; ++round) {  // the first is not counted: kernels load, buckets are made
    for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
      adjoint::synchronize(adjoint::default_device());
      distributed::barrier();
      const auto begin = Clock::now();
      for (int i = 0; i < calls; ++i) kinds[kind]();
      adjoint::synchronize(adjoint::default_device());
      const double own = std::chrono::duration<double, std::milli>(Clock::now() - begin).count() / calls;
      Tensor slowest = Tensor::from_vector<double>({own}, {1});
      distributed::all_reduce_(slowest, distributed::ReduceOp::kMax);
      if (round >= 0) times[kind].push_back(slowest.item<double>());
    }
  }
  std::vector<double> medians;
  for (const auto& of_kind : times) medians.push_back(median(of_kind));
  return medians;
}

template <class... Args>
void tell(fmt::format_string<Args...> line, Args&&... args) {
  if (distributed::rank() != 0) return;
  std::puts(fmt::format(line, std::forward<Args>(args)...).c_str());
  std::fflush(stdout);
}

// ---- A sum beside NCCL's own.

#if defined(ADJOINT_WITH_NCCL)
void check(ncclResult_t result) {
  if (result == ncclSuccess) return;
  std::fprintf(stderr, "bench_distributed: NCCL: %s\n", ncclGetErrorString(result));
  std::exit(1);
}
#endif

void bench_sum() {
#if defined(ADJOINT_WITH_NCCL)
  std::vector<std::int64_t> words(sizeof(ncclUniqueId) / sizeof(std::int64_t));
  ncclUniqueId id;
  if (distributed::rank() == 0) check(ncclGetUniqueId(&id));
  std::memcpy(words.data(), &id, sizeof id);
  Tensor shared = Tensor::from_vector(words, {static_cast<std::int64_t>(words.size())}, {.dtype = adjoint::kInt64});
  distributed::broadcast_(shared, 0);
  std::memcpy(&id, shared.data<std::int64_t>(), sizeof id);
  ncclComm_t comm = nullptr;
  check(ncclCommInitRank(&comm, distributed::world_size(), id, distributed::rank()));
#endif
  for (const int power : {20, 24, 28, 30, 32}) {
    Tensor x = Tensor::zeros({std::int64_t{1} << (power - 2)}, {.device = adjoint::default_device()});
    std::vector<std::function<void()>> kinds{[&] { distributed::all_reduce_(x); }};
#if defined(ADJOINT_WITH_NCCL)
    kinds.emplace_back([&] {
      check(ncclAllReduce(x.data<float>(), x.mutable_data<float>(), static_cast<std::size_t>(x.numel()), ncclFloat32,
                          ncclSum, comm, adjoint::Stream::current(adjoint::default_device()).handle()));
    });
#endif
    const std::vector<double> ms = time_ms(kinds, 10);
    tell(R"({{"case": "all_reduce", "bytes": {}, "ms": {:.4f}, "bare_ms": {:.4f}}})", x.numel() * 4, ms.front(),
         ms.size() > 1 ? ms.back() : 0.0);
  }
#if defined(ADJOINT_WITH_NCCL)
  check(ncclCommDestroy(comm));
#endif
}

// ---- Networks; compare_distributed.py has the same.

struct Network {
  const char* name;
  std::function<nn::Sequential()> make;
  Shape input;  // of each rank
};

nn::Sequential super_resolution() {
  const nn::Conv2dOptions same{.kernel_size = 3, .padding = 1};
  return nn::Sequential(nn::Conv2d(1, 32, {.kernel_size = 5, .padding = 2}), nn::ReLU(), nn::Conv2d(32, 32, same),
                        nn::ReLU(), nn::Conv2d(32, 32, same), nn::ReLU(), nn::Conv2d(32, 32, same), nn::ReLU(),
                        nn::ConvTranspose2d(32, 1, {.kernel_size = 4, .stride = 2, .padding = 1}));
}

nn::Sequential generator() {
  const nn::ConvTranspose2dOptions twice{.kernel_size = 4, .stride = 2, .padding = 1, .bias = false};
  return nn::Sequential(nn::ConvTranspose2d(100, 512, {.kernel_size = 4, .bias = false}), nn::BatchNorm2d(512),
                        nn::ReLU(), nn::ConvTranspose2d(512, 256, twice), nn::BatchNorm2d(256), nn::ReLU(),
                        nn::ConvTranspose2d(256, 128, twice), nn::BatchNorm2d(128), nn::ReLU(),
                        nn::ConvTranspose2d(128, 64, twice), nn::BatchNorm2d(64), nn::ReLU(),
                        nn::ConvTranspose2d(64, 3, twice), nn::Tanh());
}

nn::Sequential vocoder() {
  const nn::Conv1dOptions same{.kernel_size = 7, .padding = 3};
  return nn::Sequential(nn::Conv1d(80, 256, same), nn::LeakyReLU(),
                        nn::ConvTranspose1d(256, 128, {.kernel_size = 16, .stride = 8, .padding = 4}), nn::LeakyReLU(),
                        nn::Conv1d(128, 128, same), nn::LeakyReLU(),
                        nn::ConvTranspose1d(128, 64, {.kernel_size = 16, .stride = 8, .padding = 4}), nn::LeakyReLU(),
                        nn::Conv1d(64, 64, same), nn::LeakyReLU(),
                        nn::ConvTranspose1d(64, 32, {.kernel_size = 8, .stride = 4, .padding = 2}), nn::LeakyReLU(),
                        nn::Conv1d(32, 1, same), nn::Tanh());
}

// 104 million parameters.
nn::Sequential wide() {
  const nn::Conv2dOptions same{.kernel_size = 3, .padding = 1};
  nn::Sequential network;
  for (int i = 0; i < 11; ++i) {
    network.append(nn::Conv2d(1024, 1024, same));
    network.append(nn::ReLU());
  }
  return network;
}

const Network kNetworks[] = {
    {"super_resolution", super_resolution, {16, 1, 32, 32}},
    {"generator", generator, {128, 100, 1, 1}},
    {"vocoder", vocoder, {16, 80, 32}},
    {"wide", wide, {32, 1024, 16, 16}},
};

void bench(const Network& network, const std::string& precision, int max_ctas, bool strong) {
  const adjoint::TensorOptions options{.device = adjoint::default_device()};
  const Tensor x = Tensor::randn(network.input, options);
  const Tensor part = strong ? x.narrow(0, 0, x.size(0) / distributed::world_size()).contiguous() : x;
  const auto step = [&](auto& model, adjoint::optim::Adam& adam, const Tensor& input) {
    {
      adjoint::Tape tape;
      Tensor loss;
      {
        const adjoint::AutocastGuard autocast(adjoint::kBFloat16, {.enabled = precision == "bf16"});
        loss = model(input).square().mean();
      }
      tape.backward(loss);
    }
    adam.step();
    adam.zero_grad();
  };
  nn::Sequential alone = network.make(), together = network.make();
  alone.to(adjoint::default_device());
  together.to(adjoint::default_device());
  distributed::DataParallel model(together, {.max_ctas = max_ctas});
  const adjoint::optim::AdamOptions rate{.lr = 1e-4};
  adjoint::optim::Adam adam_alone(alone.parameters(), rate), adam_together(together.parameters(), rate);
  std::int64_t parameters = 0;
  for (const Tensor& parameter : together.parameters()) parameters += parameter.numel();
  Tensor gradients = Tensor::zeros({parameters}, options);
  const auto captured = [&](auto& trained, adjoint::optim::Adam& adam) {
    return adjoint::GraphedStep([&](const std::vector<Tensor>&) -> std::vector<Tensor> {
      step(trained, adam, x);
      return {};
    });
  };
  adjoint::GraphedStep captured_alone = captured(alone, adam_alone), captured_together = captured(model, adam_together);
  std::vector<std::function<void()>> kinds{[&] { step(alone, adam_alone, x); },
                                           [&] { step(model, adam_together, part); },
                                           [&] { distributed::all_reduce_(gradients); }};
  if (!strong) {
    kinds.emplace_back([&] { captured_alone(); });
    kinds.emplace_back([&] { captured_together(); });
  }
  std::vector<double> ms = time_ms(kinds, 20);
  ms.resize(5);
  tell(R"({{"case": "{}", "precision": "{}", "max_ctas": {}, "parameters": {}, "buckets": {}, "copied": {}, )"
       R"("alone_ms": {:.4f}, "together_ms": {:.4f}, "captured_alone_ms": {:.4f}, "captured_together_ms": {:.4f}, )"
       R"("sum_ms": {:.4f}}})",
       network.name, precision, max_ctas, parameters, model.buckets().size(), model.num_copied(), ms[0], ms[1], ms[3],
       ms[4], ms[2]);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> precisions;
  std::vector<int> ctas{distributed::DataParallelOptions::kAutomatic};
  bool strong = false;
  try {
    for (int i = 1; i < argc; ++i) {
      if (std::string(argv[i]) == "--strong") {
        strong = true;
        continue;
      }
      if (std::string(argv[i]) != "--ctas" || i + 1 == argc) {
        precisions.emplace_back(argv[i]);
        continue;
      }
      ctas.clear();
      std::istringstream list(argv[++i]);
      for (std::string number; std::getline(list, number, ',');) ctas.push_back(std::stoi(number));
    }
    if (precisions.empty()) precisions = {"tf32", "bf16"};
    distributed::init();
    if (adjoint::default_device().is_cpu()) {
      std::fputs("bench_distributed: no CUDA device\n", stderr);
      return 1;
    }
    adjoint::set_float32_precision(adjoint::Precision::kTF32);
    if (!strong) bench_sum();
    for (const Network& network : kNetworks) {
      for (const std::string& precision : precisions) {
        for (const int max_ctas : ctas) bench(network, precision, max_ctas, strong);
      }
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_distributed: %s\n", error.what());
    return 1;
  }
  return 0;
}
